"""Objects in an S3 bucket, by name: list, get, put, delete. Every request has a deadline and is tried again.

The server may be Amazon's or any that speaks the same protocol. Credentials come from the environment, or from where
else Amazon's own tools take them, and stand in no address, error or log.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from leadline.evaluators.core.errors import StoreError, UsageError
from leadline.evaluators.core.redaction import without_secrets

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

T = TypeVar("T")

CONNECT_S: Final = 5.0
STALL_S: Final = 20.0
"""Longest wait for a connection, and for the next byte of a transfer."""

TRY_S: Final = 60.0
"""How long a request that fails is tried again; one try more may begin just before that."""

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 8.0
BLOCK: Final = 1 << 20

_FINAL: Final = re.compile(
    r"ACCESS_DENIED|NO_SUCH_BUCKET|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE|EXPIRED_TOKEN"
    r"|HTTP status (?:301|400|401|403|404|405)\b"
)
"""What no second try mends."""

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_OPTIONS: Final = ("endpoint_override", "region", "scheme")
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".meta": "application/json",
    ".xml": "application/xml",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".zip": "application/zip",
    ".parquet": "application/vnd.apache.parquet",
}


@dataclass(frozen=True, slots=True)
class Bucket:
    """Where a store's objects are. Plain values, so that it can travel; connections are made when needed.

    Attributes:
        bucket: Name of the bucket.
        prefix: What the names of all objects begin with, without a slash at its end; may be empty.
        endpoint: Address of the server, or ``""`` for Amazon's.
        region: Region, or ``""`` to ask for it.
        location: The URL as a user would write it again.
    """

    bucket: str
    prefix: str
    endpoint: str
    region: str
    location: str

    @classmethod
    def at(cls, url: str) -> Bucket:
        """Read ``s3://bucket/prefix?endpoint_override=…&region=…``.

        What the URL does not say is taken from ``AWS_ENDPOINT_URL_S3``, ``AWS_ENDPOINT_URL``, ``AWS_REGION`` and
        ``AWS_DEFAULT_REGION``.

        Raises:
            UsageError: It is no such URL, or it holds credentials.
        """
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(set(options) - set(_OPTIONS))
        if parts.username is not None or "@" in parts.netloc or unknown:
            what = f"an option {unknown[0]!r}" if unknown and "@" not in parts.netloc else "credentials"
            raise UsageError(
                f"The address of the store has {what}, which it must not have.",
                hint="Write s3://BUCKET/PREFIX; credentials are taken from AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY.",
            )
        prefix = parts.path.strip("/")
        if not _BUCKET.fullmatch(parts.netloc) or not (prefix == "" or _is_name(prefix)):
            raise UsageError(f"The store {_bare(url)!r} is no s3://BUCKET/PREFIX.")
        endpoint = _endpoint(options)
        region = options.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
        return cls(parts.netloc, prefix, endpoint, region or ("us-east-1" if endpoint else ""), url.rstrip("/"))

    @property
    def identity(self) -> list[str]:
        """What tells its objects from all others."""
        return [self.endpoint, self.bucket, self.prefix]

    def url(self, name: str) -> str:
        """Return an object's address for people."""
        return f"s3://{self._key(name)}"

    def page(self, name: str) -> str:
        """Return an object's address for a browser, which shows it to whom the bucket lets read."""
        if self.endpoint:
            return f"{self.endpoint}/{quote(self._key(name))}"
        region = f".{self.region}" if self.region else ""
        return f"https://{self.bucket}.s3{region}.amazonaws.com/{quote(self._key(name).partition('/')[2])}"

    def check(self) -> None:
        """Raise a :class:`StoreError` unless the bucket can be reached."""
        from pyarrow.fs import FileType

        found = self._try("reached", "", lambda fs: fs.get_file_info(self.bucket))
        if found.type == FileType.NotFound:
            raise StoreError(f"There is no bucket {self.bucket!r} at {self._server()}.", hint="Make it first.")

    def objects(self, folder: str) -> dict[str, int]:
        """Return the objects below a folder, by name, with their sizes in bytes. What begins with a dot is left out."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._key(folder), allow_not_found=True, recursive=True)
        found = self._try("listed", folder, lambda fs: fs.get_file_info(selector))
        files = {self._name(info.path): info.size for info in found if info.type == FileType.File}
        return {name: size for name, size in files.items() if _is_name(name)}

    def folders(self, folder: str) -> list[str]:
        """Return the last parts of the names of the folders in a folder, in order."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._key(folder), allow_not_found=True)
        found = self._try("listed", folder, lambda fs: fs.get_file_info(selector))
        return sorted(info.base_name for info in found if info.type == FileType.Directory and _is_name(info.base_name))

    def version(self, name: str) -> str | None:
        """Return what changes whenever an object does, ``None`` when there is no such object."""

        def look(fs: S3FileSystem) -> str | None:
            try:
                with fs.open_input_stream(self._key(name), compression=None) as source:
                    return _metadata(source).get("ETag", "")
            except FileNotFoundError:
                return None

        return self._try("read", name, look)

    def get(self, name: str, path: Path) -> str | None:
        """Write an object to a file, which is not whole before this returns.

        Returns:
            Its version, or ``None`` when there is no such object; then there is no file either.
        """

        def download(fs: S3FileSystem) -> str | None:
            try:
                source = fs.open_input_stream(self._key(name), compression=None)
            except FileNotFoundError:
                return None
            with source, path.open("wb") as file:
                shutil.copyfileobj(source, file, BLOCK)
                size = int(_metadata(source).get("Content-Length") or file.tell())
                if file.tell() != size:
                    raise _CutOff(f"{file.tell()} of {size} bytes came")
                return _metadata(source).get("ETag", "")

        return self._try("read", name, download)

    def put(self, path: Path, name: str) -> None:
        """Make a file an object, which appears whole or not at all."""
        import pyarrow as pa

        metadata = {"Content-Type": _TYPES.get(path.suffix.lower(), "application/octet-stream")}

        def upload(fs: S3FileSystem) -> None:
            content = pa.memory_map(str(path)).read_buffer() if path.stat().st_size else b""
            # Written at once: nothing but the transfer can fail between opening and closing, which completes it.
            with fs.open_output_stream(self._key(name), compression=None, metadata=metadata) as target:
                target.write(content)

        self._try("written", name, upload)

    def delete(self, name: str) -> None:
        """Delete an object; that there is none is fine."""

        def remove(fs: S3FileSystem) -> None:
            try:
                fs.delete_file(self._key(name))
            except FileNotFoundError:
                return

        self._try("deleted", name, remove)

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self.bucket, self.prefix, name) if part)

    def _name(self, key: str) -> str:
        return key.removeprefix(self._key("")).removeprefix("/")

    def _server(self) -> str:
        return self.endpoint or "Amazon S3"

    def _try(self, what: str, name: str, request: Callable[[S3FileSystem], T]) -> T:
        """Make a request until it succeeds, cannot succeed, or :data:`TRY_S` are over."""
        deadline, pause = time.monotonic() + TRY_S, FIRST_PAUSE_S
        while True:
            try:
                return request(_connected(self))
            except OSError as error:
                # What the local disk says has a number; what the server says has none.
                hopeless = error.errno is not None or _FINAL.search(str(error))
                if hopeless or time.monotonic() + pause > deadline:
                    raise self._failed(what, name, error) from None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _failed(self, what: str, name: str, error: OSError) -> StoreError:
        said = without_secrets(re.sub(r" ?\(Request ID: [^)]*\)", "", str(error))).rstrip(". ")
        return StoreError(
            f"{self.url(name)} at {self._server()} cannot be {what}: {said}.",
            hint="Check the address and the AWS_… variables of the environment.",
        )


class _CutOff(OSError):
    """A transfer ended early."""


@cache
def _connected(bucket: Bucket) -> S3FileSystem:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    options: dict[str, Any] = {"region": bucket.region or resolve_s3_region(bucket.bucket)}
    if bucket.endpoint:
        options["endpoint_override"] = bucket.endpoint
    return S3FileSystem(
        **options,
        connect_timeout=CONNECT_S,
        request_timeout=STALL_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=2),
        allow_delayed_open=True,
    )


def _endpoint(options: dict[str, str]) -> str:
    """Return the server's address with its scheme."""
    given = (
        options.get("endpoint_override")
        or os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
        or ""
    ).rstrip("/")
    if not given:
        return ""
    if "://" not in given:
        given = f"{options.get('scheme') or 'https'}://{given}"
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
        raise UsageError(
            "The address of the S3 server is no http(s)://HOST:PORT.",
            hint="Set AWS_ENDPOINT_URL or ?endpoint_override=, without credentials.",
        )
    return given


def _metadata(source: Any) -> dict[str, str]:
    return {str(name): bytes(value).decode() for name, value in (source.metadata() or {}).items()}


def _is_name(name: str) -> bool:
    """Whether a name can be a file's below a folder: a bucket's names are anybody's."""
    return all(part and not part.startswith(".") and "\0" not in part for part in name.split("/"))


def _bare(url: str) -> str:
    """Return a URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
