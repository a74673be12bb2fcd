"""inspect's archives (``.eval``): a ZIP with one JSON file a sample, compressed with Zstandard or Deflate.

A large sample may stand in chunks instead: a folder with ``sample.json``, the messages that it refers to by number in
``messages/0.json`` and so on, and the long texts of both in ``attachments/0.json`` and so on. Samples of both forms may
stand side by side. Of the chunks only those are read; events and raw calls are not.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import orjson

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import MAX_ITEMS, MAX_RECORD, MIB
from leadline.tasks.load.readers import Block, Item
from leadline.tasks.load.readers.json_values import Broken, decode

if TYPE_CHECKING:
    from leadline.tasks.load.source import SourceFile

SECTION: Final = "samples"
MARK: Final = b"_journal/start.json"
"""Name of the first file of an archive."""

Parts: TypeAlias = Mapping[str, zipfile.ZipInfo]
"""The members of a sample by their names in its folder; of a sample in one file that file, under ``""``."""

_FOLDER: Final = re.compile(r"(samples/.+_epoch_\d+)/sample\.json")
_CHUNK: Final = re.compile(r"(messages|attachments)/(\d+)\.json")
_REFERENCE: Final = re.compile(rb'"attachment://(\d{1,9})"')

_ZSTD: Final = 93
_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")


def read_archive(source: SourceFile, faults: Faults) -> Iterator[Block]:
    """Read the samples of an archive in its order."""
    yield Block(partial(_items, source, faults))


def _items(source: SourceFile, faults: Faults) -> Iterator[Item]:
    with source.open() as file:
        try:
            members = zipfile.ZipFile(file).infolist()
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            faults.lose()
            faults.add(Place(1), "", f"the archive cannot be read: {error}")
            return
        for row, (name, parts) in enumerate(_samples(members), 1):
            place = Place(row, f"{SECTION}[].")
            size = sum(part.file_size for part in parts.values())
            if size > MAX_RECORD:
                faults.lose()
                faults.add(place, "", f"the sample is larger than {MAX_RECORD // MIB} MiB")
                continue
            try:
                value = decode(_content(file, parts[""])) if "" in parts else _joined(file, parts)
            except (Broken, OSError, ValueError, TypeError, zlib.error, struct.error) as error:
                faults.lose()
                faults.add(place, "", f"{name[:100]!r} cannot be read: {error}")
            else:
                yield Item(SECTION, row, value, size)


def _samples(members: list[zipfile.ZipInfo]) -> Iterator[tuple[str, Parts]]:
    """Yield the samples in their order, each with its name and the members that are read of it."""
    members = [one for one in members if one.filename.startswith(f"{SECTION}/") and one.filename.endswith(".json")]
    files = {one.filename for one in members}
    folders = {found[1] for one in members if (found := _FOLDER.fullmatch(one.filename))}
    chunks: dict[str, dict[str, zipfile.ZipInfo]] = defaultdict(dict)
    for one in members:
        folder = _folder(one.filename, folders)
        name = one.filename.removeprefix(f"{folder}/")
        if folder and (name in ("sample.json", "metadata.json") or _CHUNK.fullmatch(name)):
            chunks[folder][name] = one
    for one in members:
        folder = _folder(one.filename, folders)
        if not folder:
            yield one.filename, {"": one}
        elif one.filename == f"{folder}/sample.json" and f"{folder}.json" not in files:
            yield one.filename, chunks[folder]


def _folder(name: str, folders: Set[str]) -> str:
    """Return the folder of the chunks that a member belongs to, ``""`` for a sample in one file.

    The id of a sample may have slashes, so that its name alone does not tell a sample from a chunk.
    """
    ends = (found.start() for found in re.finditer("/", name))
    return next((name[:end] for end in ends if name[:end] in folders), "")


def _joined(file: BinaryIO, parts: Parts) -> Any:
    """Return a sample that stands in chunks as it would stand in one file, without its events.

    Raises:
        OSError: A message that it refers to is not there, or it is too large with what it refers to.
    """
    attachments = [
        orjson.dumps(text) for chunk in _chunks(parts, "attachments") for text in _list(_content(file, chunk))
    ]
    room = MAX_RECORD

    def attached(found: re.Match[bytes]) -> bytes:
        nonlocal room
        number = int(found[1])
        text = attachments[number] if number < len(attachments) else found[0]
        room -= len(text)
        if room < 0:
            raise OSError(f"with its attachments it is larger than {MAX_RECORD // MIB} MiB")
        return text

    def whole(part: zipfile.ZipInfo) -> bytes:
        return _REFERENCE.sub(attached, _content(file, part))

    sample = decode(whole(parts["sample.json"]))
    if not isinstance(sample, dict):
        return sample
    if "metadata.json" in parts:
        sample["metadata"] = decode(whole(parts["metadata.json"]))
    known = [message for chunk in _chunks(parts, "messages") for message in _list(whole(chunk))]
    messages: list[Any] = []
    for first, end in sample.pop("message_refs", ()):
        if not 0 <= first <= end <= len(known) or len(messages) + end - first > MAX_ITEMS:
            raise OSError(f"messages {first} to {end} are not in its chunks")
        messages += known[first:end]
    return sample | {"messages": messages}


def _chunks(parts: Parts, sequence: str) -> list[zipfile.ZipInfo]:
    """Return the chunks of a sequence in order; each is called after the number of its first element."""
    found = [match for match in map(_CHUNK.fullmatch, parts) if match and match[1] == sequence]
    return [parts[match[0]] for match in sorted(found, key=lambda match: int(match[2]))]


def _list(content: bytes) -> list[Any]:
    value = decode(content)
    if not isinstance(value, list):
        raise OSError("a chunk is no list")
    return value


def _content(file: BinaryIO, member: zipfile.ZipInfo) -> bytes:
    """Return the content of a member, which Python's own reader may not know to decompress.

    Raises:
        OSError: It is not what the archive's directory says.
    """
    file.seek(member.header_offset)
    header = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    file.seek(header[9] + header[10], 1)
    packed = file.read(member.compress_size)
    if member.compress_type == zipfile.ZIP_STORED:
        content = packed
    elif member.compress_type == zipfile.ZIP_DEFLATED:
        content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.file_size + 1)
    elif member.compress_type == _ZSTD:
        content = _unpacked(packed, member.file_size)
    else:
        raise OSError(f"it is compressed by method {member.compress_type}")
    if zlib.crc32(content) != member.CRC:
        raise OSError("its checksum is wrong")
    return content


def _unpacked(packed: bytes, size: int) -> bytes:
    """Return what Zstandard made smaller, of at most the size that is stated."""
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return bytes(stream.read(size + 1))
