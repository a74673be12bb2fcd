"""inspect's archives (``.eval``): a ZIP with one JSON file a sample, compressed with Zstandard or Deflate."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import MAX_RECORD, MIB
from leadline.tasks.load.readers import Block, Item
from leadline.tasks.load.readers.json_values import Broken, decode

if TYPE_CHECKING:
    from leadline.tasks.load.source import SourceFile

SECTION: Final = "samples"
MARK: Final = b"_journal/start.json"
"""Name of the first file of an archive."""

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
        samples = [one for one in members if one.filename.startswith(f"{SECTION}/") and one.filename.endswith(".json")]
        for row, member in enumerate(samples, 1):
            place = Place(row, f"{SECTION}[].")
            if member.file_size > MAX_RECORD:
                faults.lose()
                faults.add(place, "", f"the sample is larger than {MAX_RECORD // MIB} MiB")
                continue
            try:
                value = decode(_content(file, member))
            except (Broken, OSError, ValueError, zlib.error, struct.error) as error:
                faults.lose()
                faults.add(place, "", f"{member.filename[:100]!r} cannot be read: {error}")
            else:
                yield Item(SECTION, row, value, member.file_size)


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
