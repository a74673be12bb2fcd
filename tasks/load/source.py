"""The file that is loaded: what it is, what identifies its content, and on which of its lines rows stand.

Either a manifest names them, or they stand in one folder: the JSON object with ``images`` and ``annotations`` is the
ground truth, every JSON list is the results of a model called after the file.
"""

from __future__ import annotations

import csv
import fnmatch
import hashlib
import io
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Final, NamedTuple

from leadline.evaluators.ground import DatasetError, ErrorCode, Fault, UsageError, from_home
from leadline.tasks.load.limits import MAX_KEY, MAX_MODELS, MIB

IMPORT_VERSION: Final = 4
"""Raised whenever the same file could be loaded into other tables."""

BOM: Final = b"\xef\xbb\xbf"
_HEAD: Final = MIB
_DATE: Final = r"(?:19|20)\d\d(?:[-_.]?(?:0[1-9]|1[0-2])(?:[-_.]?(?:0[1-9]|[12]\d|3[01]))?|-?W[0-5]\d(?:-?[1-7])?)"
_DAY_FIRST: Final = r"(?:0[1-9]|[12]\d|3[01])[-_.](?:0[1-9]|[12]\d|3[01])[-_.](?:19|20)\d\d"
_TIME: Final = r"(?:[T_\s-]?(?:[01]\d|2[0-3])[-_.:]?[0-5]\d(?:[-_.:]?[0-5]\d(?:[.,_]?\d{3,6})?)?(?:Z|[+-]\d\d:?\d\d)?)"
_STAMP: Final = re.compile(
    rf"[-_.\s]*(?<![0-9A-Za-z])(?:(?:{_DATE}|{_DAY_FIRST}){_TIME}?|1\d{{9}}(?:\d{{3}})?)(?![0-9A-Za-z])"
)
"""A date with or without a time, or seconds or milliseconds since 1970."""
_COPY: Final = re.compile(r"\s*\(\d+\)$")
"""What systems add to the name of a second download."""

LARGEST: Final = 64 * 2**20
"""Bytes of a file that is looked through."""

_JSON_TEXT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
DELIMITERS: Final = ",;\t|"
_TABLES: Final = frozenset({".csv", ".tsv"})
_TEXTS: Final = frozenset({".json", ".jsonl", ".ndjson"})
GROUND_TRUTH: Final = "ground_truth"
PREDICTIONS: Final = "predictions"
_MEMBERS: Final = frozenset({GROUND_TRUTH, PREDICTIONS, "format", "geometry", "name"})
_MOST_FILES: Final = 500
"""Files of a folder: each is open until it is read, so that no other takes its place."""
_BUCKET: Final = re.compile(r"(?:s3|gs|az|abfs)://")
_PATTERN: Final = re.compile(r"[*?\[]")
_SEVERAL: Final = "several files are read together if they are traces; any other dataset is one file"
_LONGEST: Final = 1024 * 1024
"""Bytes of a manifest."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable, non-empty regular file.

    Attributes:
        name: The file as the user named it.
        size: Its size in bytes.
        changed: When it was last written, in nanoseconds, to notice a change while it is read.
        head: Its first bytes, at most a mebibyte, without a byte order mark.
        opened: The file, open; ``None`` for a folder.
        parts: The files that it names, each with the key of its model or "": those of a COCO manifest.
        content: What is read in its place where it is a folder.
        refusal: Why it is no dataset, unless a format reads whole files and takes it; else ``""``.
        copied: The folder that has it as long as somebody refers to it, of what lies in a bucket.
    """

    path: Path
    name: str
    size: int
    changed: int
    head: bytes
    opened: OpenFile | None = None
    parts: tuple[tuple[str, SourceFile], ...] = ()
    content: bytes | None = None
    refusal: str = ""
    copied: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def at(cls, path: str | os.PathLike[str], name: str = "") -> SourceFile:
        """Look at a file.

        Args:
            name: It as the user named it, where that is not its path.

        Raises:
            DatasetError: It is missing, no regular file, unreadable or empty.
        """
        name = name or os.fspath(path)
        target = located(path)
        try:
            status = target.stat()
        except (OSError, ValueError) as error:
            raise _refused(name, _reason(error)) from None
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise _refused(name, f"this is {kind}; a dataset is one file")
        try:
            opened = OpenFile(target)
            status = os.fstat(opened.number)
            head = opened.reader().read(_HEAD).removeprefix(BOM)
        except OSError as error:
            raise _refused(name, _reason(error)) from None
        if not head.strip():
            empty = status.st_size <= _HEAD
            raise _refused(name, "the file is empty" if empty else "the file begins with a mebibyte of blanks")
        return cls(target, name, status.st_size, status.st_mtime_ns, head, opened)

    def open(self) -> BinaryIO:
        """Open the file for reading, behind its byte order mark."""
        if self.opened is None:
            return io.BytesIO(self.content or b"")
        file = self.opened.reader()
        if file.read(len(BOM)) != BOM:
            file.seek(0)
        return file

    @property
    def total_size(self) -> int:
        """Bytes of the file and of those that it names."""
        return self.size + sum(part.size for _, part in self.parts)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file's bytes, and of those of the files that it names."""
        with io.BytesIO(self.content or b"") if self.opened is None else self.opened.reader() as file:
            own = hashlib.file_digest(file, "sha256").hexdigest()
        others = [f"{key}={part.fingerprint()}" for key, part in self.parts]
        return hashlib.sha256("\n".join([own, *others]).encode()).hexdigest() if others else own

    def ensure_unchanged(self) -> None:
        """Refuse a file that was written to since it was first looked at; one that took its name since is another."""
        for _, part in self.parts:
            part.ensure_unchanged()
        if self.opened is None:
            return
        status = os.fstat(self.opened.number)
        if (status.st_size, status.st_mtime_ns) != (self.size, self.changed):
            raise _refused(self.name, "the file changed while it was read; load it again when it is complete")


class OpenFile:
    """A file that is open as long as somebody refers to it, so that no other is read when another takes its name."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if "number" in self.__dict__:
            os.close(self.number)

    def reader(self) -> io.BufferedReader:
        """Return a reader of the whole file with a position of its own."""
        return io.BufferedReader(_Positioned(self), MIB)


class _Positioned(io.RawIOBase):
    """A position in an open file that others read too."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = (0, self._at, os.fstat(self._file.number).st_size)[whence]
        if start + offset < 0:
            raise ValueError(f"there is no position {start + offset}")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._file.number, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def undated(stem: str) -> str:
    """Return a file's name without date and time, so that the files of all nights have one; ``""`` if nothing is left.

    ``answers-2026-11-22`` is ``answers``.
    """
    name = _COPY.sub("", _STAMP.sub("", stem)).strip(" -_.")
    return name if any(letter.isalpha() for letter in name) else ""


def located(path: str | os.PathLike[str]) -> Path:
    """Return the place of a file that a user named.

    Raises:
        DatasetError: It begins with the home folder of nobody.
    """
    try:
        return from_home(path)
    except UsageError:
        raise _refused(os.fspath(path), f"the home folder of {Path(path).parts[0]} is not known") from None


def _refused(name: str, message: str) -> DatasetError:
    return DatasetError([Fault(name, None, "", message)], code=ErrorCode.DATA_UNREADABLE)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return f"the file cannot be read: {getattr(error, 'strerror', None) or error}"


class Sought(NamedTuple):
    """A row that is looked for: what may stand on its line."""

    case: str
    model: str
    question: str


def find_lines(file: Path, rows: Sequence[Sought]) -> dict[Sought, int]:
    """Return the lines (from 1) of rows in a CSV, TSV, JSON or JSON Lines file, as far as they can be told.

    The first line with the question, the case's key and the model's key is a row's; where none has all three, the one
    with the question, then the one with the case's key, which may be a number that other columns have, too.

    Args:
        file: The file. One that is too large, compressed, binary or gone has no lines.
    """
    best: dict[Sought, tuple[int, int]] = {}
    by_text = _by_text(rows)
    with suppress(OSError, csv.Error):  # what was found until then is true
        if file.suffix.lower() not in {*_TABLES, *_TEXTS} or file.stat().st_size > LARGEST:
            return {}
        for line, texts in _lines(file):
            for row in {row for text in texts for row in by_text.get(text, ())}:
                question, case, model = (_key(text) in texts for text in (row.question, row.case, row.model))
                rank = 4 * question + 2 * case + model
                if rank > best.get(row, (0, 0))[0]:
                    best[row] = (rank, line)
    return {row: line for row, (_, line) in best.items()}


def _by_text(rows: Sequence[Sought]) -> dict[str, list[Sought]]:
    found: dict[str, list[Sought]] = {}
    for row in rows:
        for text in {_key(row.question), _key(row.case)} - {""}:
            found.setdefault(text, []).append(row)
    return found


def _key(text: str) -> str:
    """Return a text as it is compared: loading may have trimmed it."""
    return text.strip()


def _lines(file: Path) -> Iterator[tuple[int, set[str]]]:
    """Yield the texts of each line, or of each record of a table with the line on which it begins."""
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        if file.suffix.lower() in _TABLES:
            with file.open("rb") as raw:
                _, delimiter = csv_header(raw.read(_HEAD).removeprefix(BOM))
            yield from _records(csv.reader(stream, delimiter=delimiter))
        else:
            for number, line in enumerate(stream, start=1):
                yield number, {_key(_decoded(text)) for text in _JSON_TEXT.findall(line)}


def _records(reader: Any) -> Iterator[tuple[int, set[str]]]:
    last = 0
    for record in reader:
        yield last + 1, {_key(cell) for cell in record}
        last = reader.line_num


def _decoded(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def csv_header(head: bytes) -> tuple[list[str], str]:
    """Return the names of a table's columns and the delimiter that splits its header into the most of them."""
    text = head[len(separator_line(head)) :].decode("utf-8", "replace")
    best: list[str] = []
    chosen = ","
    for delimiter in DELIMITERS:
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
        except csv.Error:
            continue
        if len(names) > len(best):
            best, chosen = names, delimiter
    return [name.strip() for name in best], chosen


def separator_line(head: bytes) -> bytes:
    """Return the line ``sep=;`` that Excel writes above the header, and its line break; nothing where there is none."""
    found = re.match(rb"(?i)\"?sep=.\"?[;,\t|]*\r?\n", head)
    return found[0] if found else b""


def source_at(path: str | os.PathLike[str]) -> SourceFile:
    """Look at what a user named as a dataset: a file, a manifest with the files that it names, a folder, or a pattern.

    Each may lie in a bucket: ``s3://``, ``gs://`` or ``az://``.

    Raises:
        DatasetError: Something of it is missing, unreadable or of no use.
        StoreError: The bucket cannot be reached.
    """
    name = os.fspath(path)
    if in_bucket(name):
        copied = tempfile.TemporaryDirectory(prefix="leadline-bucket-")
        return replace(_local(_downloaded(name, Path(copied.name)), name), copied=copied)
    return _local(located(path), name)


def in_bucket(name: str) -> bool:
    """Return whether a file is named by an address in a bucket."""
    return _BUCKET.match(name) is not None


def _local(place: Path, name: str) -> SourceFile:
    """Look at a file, a folder or the files of a pattern.

    Args:
        name: It as the user named it.
    """
    if os.path.isdir(place):  # noqa: PTH112 - a name that no file can have is no folder
        return _folder(name, place)
    if _PATTERN.search(str(place)) and not os.path.exists(place):  # noqa: PTH110 - as above
        found = map(Path, sorted(glob(str(place), recursive=True)))  # noqa: PTH207 - it may begin anywhere
        files = [path for path in found if path.is_file()]
        if len(files) != 1:
            return _files(name, place, files, _SEVERAL if files else "no file is called so")
        place = files[0]
    source = SourceFile.at(place, name)
    manifest = _manifest(source)
    return source if manifest is None else _with_parts(source, manifest)


def _downloaded(url: str, folder: Path) -> Path:
    """Copy an object, those below a folder, or those of a pattern into a folder; return the place of what was named.

    Raises:
        DatasetError: There are none, or too many.
    """
    from leadline.tasks.store.object_storage import Bucket  # its client takes long to import

    address, _, options = url.partition("?endpoint_override")
    options = f"?endpoint_override{options}" if options else ""
    address = address.rstrip("/")
    found = _PATTERN.search(address)
    above = address[: found.start() if found else None].rpartition("/")[0]
    last = address[len(above) + 1 :]
    if not above.partition("://")[2]:
        raise _refused(url, "this is a bucket; name a file, a folder or a pattern in it")
    bucket = Bucket.at(above + options)
    if found:
        wanted = re.compile(fnmatch.translate(last.replace("**/", "*")))
        names = [each for each in bucket.objects("") if wanted.fullmatch(each)]
    else:
        names = [last] if bucket.version(last) else list(bucket.objects(last))
    if not names:
        raise _refused(url, "there is no such object, and none below it")
    if len(names) > _MOST_FILES:
        raise _refused(url, f"these are more than {_MOST_FILES:,} files")
    for each in names:
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        bucket.get(each, folder / each)
    return folder / last


def _manifest(source: SourceFile) -> dict[str, Any] | None:
    if source.size > _LONGEST or not source.head.lstrip().startswith(b"{"):
        return None
    try:
        record = json.loads(source.head)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and {GROUND_TRUTH, PREDICTIONS} <= set(record) else None


def _with_parts(source: SourceFile, manifest: dict[str, Any]) -> SourceFile:
    faults: list[Fault] = []
    truth, predictions = manifest[GROUND_TRUTH], manifest[PREDICTIONS]
    for name in sorted(set(manifest) - _MEMBERS):
        message = f"a manifest has no {name!r}; it may have {', '.join(sorted(_MEMBERS))}"
        faults.append(Fault(source.name, None, name, message))
    if not isinstance(predictions, dict) or not predictions or len(predictions) > MAX_MODELS:
        faults.append(Fault(source.name, None, PREDICTIONS, "expected an object: the file of results of each model"))
        predictions = {}
    parts = []
    named = [(GROUND_TRUTH, "", truth), *((f"{PREDICTIONS}.{key}", key, file) for key, file in predictions.items())]
    for column, key, file in named:
        message = _refusal(key, file, is_truth=column == GROUND_TRUTH)
        if message:
            faults.append(Fault(source.name, None, column, message))
            continue
        try:
            parts.append((key, _named(source.path.parent / file, os.path.dirname(source.name))))  # noqa: PTH120 - as named
        except DatasetError as error:
            faults += error.faults
    if faults:
        raise DatasetError(faults)
    return replace(source, parts=tuple(parts))


def _refusal(key: str, file: object, *, is_truth: bool) -> str:
    """Return why a file of a manifest is not read, ``""`` if it is."""
    if not is_truth and (not key.strip() or len(key) > MAX_KEY):
        return "the model's key is blank or too long"
    if not isinstance(file, str) or not file.strip():
        return "expected the name of a file"
    pure = PurePath(os.path.normpath(file))
    if pure.is_absolute() or ".." in pure.parts:
        return f"{file!r} lies outside of the manifest's folder; put the manifest into a folder above both"
    return ""


def _named(path: Path, folder: str) -> SourceFile:
    """Look at a file in a folder that the user named so."""
    return SourceFile.at(path, os.path.join(folder, path.name))  # noqa: PTH118 - as named


def _folder(name: str, place: Path) -> SourceFile:
    """Take the manifest that stands in a folder, or make one of its files."""
    files = sorted(path for path in place.iterdir() if path.suffix.lower() == ".json" and path.is_file())
    found = {path.name: _named(path, name) for path in files}
    truths = [file for file, source in found.items() if source.head.lstrip().startswith(b"{")]
    results = [file for file, source in found.items() if source.head.lstrip().startswith(b"[")]
    manifests = [(found[file], manifest) for file in truths if (manifest := _manifest(found[file])) is not None]
    if len(manifests) == 1:
        return _with_parts(*manifests[0])
    if len(truths) != 1 or not results:
        refusal = (
            f"a folder is read as COCO: one JSON object with images and annotations, and a JSON list of results for "
            f"each model; here are {len(truths)} objects and {len(results)} lists. Or it has traces. Any other dataset "
            "is one file"
        )
        return _files_in(name, place, refusal)
    manifest = {GROUND_TRUTH: truths[0], PREDICTIONS: {Path(file).stem: file for file in results}}
    content = json.dumps(manifest, sort_keys=True).encode()
    parts = (("", found[truths[0]]), *((Path(file).stem, found[file]) for file in results))
    return SourceFile(place, name, len(content), 0, content, parts=parts, content=content)


def _files_in(name: str, place: Path, refusal: str) -> SourceFile:
    """Take the files in a folder and below it."""
    return _files(name, place, sorted(place.rglob("*")), refusal)


def _files(name: str, place: Path, paths: Sequence[Path], refusal: str) -> SourceFile:
    """Take those of some files that are not empty, for a format that reads whole files."""
    files = [path for path in paths if path.is_file() and path.stat().st_size]
    if len(files) > _MOST_FILES:
        raise DatasetError([Fault(name, None, "", f"these are more than {_MOST_FILES:,} files")])
    parts = tuple(("", SourceFile.at(path)) for path in files)
    above = place if place.is_dir() else Path(os.path.commonpath([path.parent for path in files] or [place.parent]))
    content = json.dumps([str(path.relative_to(above)) for path in files]).encode()
    return SourceFile(place, name, len(content), 0, content, parts=parts, content=content, refusal=refusal)
