"""Objects in a bucket of Amazon S3, Google Cloud Storage or Azure Blob Storage: list, get, put, delete.

The client is obstore. Every request has a deadline and is tried again for a while. Credentials come from the
environment variables of the provider, and stand in no address, error or log.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import AzureStore, GCSStore, S3Store

from leadline.evaluators.ground import ErrorCode, StoreError, UsageError, without_secrets
from leadline.tasks.ground.files import Listed

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode
    from obstore.store import ClientConfig, RetryConfig

Client: TypeAlias = S3Store | GCSStore | AzureStore

T = TypeVar("T")

CONNECT_S: Final = 5.0
STALL_S: Final = 20.0
"""Longest wait for a connection, and for the next byte of an answer."""

REQUEST_S: Final = 600.0
"""Longest duration of one request: one object downloaded, or 5 MB of one uploaded."""

TRY_S: Final = 60.0
"""Longest time for which a request that fails is tried again."""

FIRST_TRY_S: Final = 15.0
"""The same for the first request, so that missing credentials and wrong addresses show soon."""

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 8.0

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_OPTIONS: Final = ("endpoint_override", "region", "scheme")
_NO_BUCKET: Final = re.compile("NoSuchBucket|ContainerNotFound")
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
_VARIABLES: Final = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE_STORAGE"}
"""Beginning of the names of each provider's environment variables."""

SCHEMES: Final = ("s3", "gs", "az", "abfs")


@dataclass(frozen=True, slots=True)
class Bucket:
    """The location of a store's objects. Plain values; connections are made when needed.

    Attributes:
        scheme: The provider: ``s3``, ``gs`` or ``az``.
        prefix: Beginning of the names of all objects, without a slash at its end; may be empty.
        endpoint: Address of the server, or ``""`` for the provider's.
        region: Amazon's region, or ``""`` for its default.
        location: The URL as a user would write it again.
    """

    scheme: str
    bucket: str
    prefix: str
    endpoint: str
    region: str
    account: str
    location: str

    @classmethod
    def at(cls, url: str) -> Bucket:
        """Read ``s3://BUCKET/PREFIX``, ``gs://BUCKET/PREFIX`` or ``az://CONTAINER/PREFIX`` (``abfs://`` is the same).

        Server, region and account are taken from the provider's environment variables; ``s3://`` URLs may also say
        ``?endpoint_override=…&region=…``.

        Raises:
            UsageError: It is no such URL, it contains credentials, or no account is named.
        """
        parts = urlsplit(url)
        scheme = {"abfs": "az"}.get(parts.scheme, parts.scheme)
        if (written := url.partition("://")[0]) not in SCHEMES:
            raise UsageError(
                f"A store cannot be at {written}://.",
                hint="Give a path, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX.",
                code=ErrorCode.STORE_LOCATION,
            )
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(set(options) - set(_OPTIONS if scheme == "s3" else ()))
        if "@" in parts.netloc or unknown:
            what = "credentials" if "@" in parts.netloc else f"an option {unknown[0]!r}"
            raise UsageError(
                f"The address of the store has {what}, which it must not have.",
                hint=f"Write {parts.scheme}://BUCKET/PREFIX; credentials are taken from the environment variables "
                f"{_VARIABLES[scheme]}_….",
                code=ErrorCode.STORE_LOCATION,
            )
        prefix = parts.path.strip("/")
        if not _BUCKET.fullmatch(parts.netloc) or not (prefix == "" or _is_name(prefix)):
            raise UsageError(
                f"The store {_bare(url)!r} is no {parts.scheme}://BUCKET/PREFIX.", code=ErrorCode.STORE_LOCATION
            )
        endpoint = _endpoint(scheme, options)
        region = options.get("region") or _variable("AWS_REGION", "AWS_DEFAULT_REGION") if scheme == "s3" else ""
        account = _account() if scheme == "az" else ""
        return cls(scheme, parts.netloc, prefix, endpoint, region, account, url.rstrip("/"))

    @property
    def identity(self) -> list[str]:
        """The values that distinguish its objects from all others; working copies are named after them."""
        provider = [] if self.scheme == "s3" else [self.scheme, self.account]
        return [*provider, self.endpoint, self.bucket, self.prefix]

    def url(self, name: str) -> str:
        """Return an object's address for people."""
        return f"{self.scheme}://{self.bucket}/{self._key(name)}"

    def page(self, name: str) -> str:
        """Return an object's address for a browser, which shows it to whom the bucket lets read."""
        if self.endpoint:
            base = f"{self.endpoint}/{self.bucket}"
        elif self.scheme == "s3":
            region = f".{self.region}" if self.region else ""
            base = f"https://{self.bucket}.s3{region}.amazonaws.com"
        elif self.scheme == "gs":
            base = f"https://storage.googleapis.com/{self.bucket}"
        else:
            base = f"https://{self.account}.blob.core.windows.net/{self.bucket}"
        return f"{base}/{quote(self._key(name))}"

    def check(self) -> None:
        """Raise a :class:`StoreError` unless the bucket can be listed."""
        client = _client(self, min(FIRST_TRY_S, TRY_S))
        self._request("reached", "", lambda: next(iter(client.list()), None))

    def objects(self, folder: str) -> dict[str, int]:
        """Return the objects below a folder, by name, with their sizes in bytes. What begins with a dot is left out."""
        return {name: listed.size for name, listed in self.listing(folder).items()}

    def listing(self, folder: str) -> dict[str, Listed]:
        """Return the objects of :meth:`objects` with what the bucket says of each."""
        found = self._request("listed", folder, lambda: [*_client(self).list(folder or None)])
        items = {
            item["path"]: Listed(item["size"], item["last_modified"].timestamp()) for part in found for item in part
        }
        folders = {name.rpartition("/")[0] for name in items}  # some clients mark a folder by an empty object
        return {name: listed for name, listed in items.items() if _is_name(name) and name not in folders}

    def folders(self, folder: str) -> list[str]:
        """Return the last parts of the names of the folders in a folder, in order."""
        found = self._request("listed", folder, lambda: _client(self).list_with_delimiter(folder or None))
        return sorted(
            name for path in found["common_prefixes"] if _is_name(name := path.rstrip("/").rpartition("/")[2])
        )

    def version(self, name: str) -> str | None:
        """Return what changes whenever an object does, ``None`` when there is no such object."""

        def look() -> str | None:
            try:
                return _version(_client(self).head(name))
            except FileNotFoundError:
                return None

        return self._request("read", name, look)

    def get(self, name: str, path: Path) -> str | None:
        """Write an object to a file, which is not complete before this returns.

        Returns:
            Its version, or ``None`` when there is no such object; then there is no file either.
        """

        def download() -> str | None:
            try:
                found = _client(self).get(name)
            except FileNotFoundError:
                return None
            with path.open("wb") as file:
                for block in found:
                    file.write(block)
            return _version(found.meta)

        return self._request("read", name, download)

    def put(self, path: Path, name: str) -> None:
        """Make a file an object, which appears complete or not at all."""
        self._put(path, name, "overwrite")

    def put_if(self, path: Path, name: str, version: str | None) -> bool:
        """Make a file an object unless another process wrote that object first.

        Args:
            version: The version to replace, as :meth:`get` returned it; ``None`` if there must be no such object.

        Returns:
            Whether the object is now this file.
        """
        tag, _, number = (version or "").rpartition(" ")
        try:
            self._put(path, name, _given(e_tag=tag, version=number) if version else "create")
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def delete(self, name: str) -> None:
        """Delete an object; that there is none is fine."""

        def remove() -> None:
            with suppress(FileNotFoundError):
                _client(self).delete(name)

        self._request("deleted", name, remove)

    def _put(self, path: Path, name: str, mode: PutMode) -> None:
        kind = _TYPES.get(path.suffix.lower(), "application/octet-stream")
        client = _client(self)
        self._request("written", name, lambda: client.put(name, path, attributes={"Content-Type": kind}, mode=mode))

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self.prefix, name) if part)

    def _server(self) -> str:
        return self.endpoint or {"s3": "Amazon S3", "gs": "Google Cloud Storage", "az": "Azure"}[self.scheme]

    def _request(self, what: str, name: str, call: Callable[[], T]) -> T:
        """Make a call of the client; its errors become a :class:`StoreError`, but for unmet conditions."""
        try:
            return _interruptible(call)
        except (AlreadyExistsError, PreconditionError):
            raise
        except (BaseError, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # what the local disk says has a number
                raise
            if _NO_BUCKET.search(str(error)):
                raise StoreError(
                    f"There is no bucket {self.bucket!r} at {self._server()}.",
                    hint="Make it first.",
                    code=ErrorCode.STORE_BUCKET,
                ) from None
            raise StoreError(
                f"{self.url(name)} at {self._server()} cannot be {what}: {_reason(error)}.",
                hint=f"Check the address and the {_VARIABLES[self.scheme]}_… variables of the environment.",
                code=ErrorCode.STORE_BUCKET,
            ) from None


def _interruptible(call: Callable[[], T]) -> T:
    """Make a call that Ctrl-C ends: the client's own calls look at no signals before they are done."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # raised again where it is waited for
            done.set_exception(error)

    threading.Thread(target=run, name="leadline-bucket", daemon=True).start()
    return done.result()


@cache
def _client(bucket: Bucket, try_s: float = TRY_S) -> Client:
    options: ClientConfig = {
        "allow_http": bucket.endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=CONNECT_S),
        "read_timeout": timedelta(seconds=STALL_S),
        "timeout": timedelta(seconds=REQUEST_S),
    }
    retry: RetryConfig = {
        "backoff": {
            "init_backoff": timedelta(seconds=FIRST_PAUSE_S),
            "max_backoff": timedelta(seconds=LONGEST_PAUSE_S),
        },
        "max_retries": 20,
        "retry_timeout": timedelta(seconds=try_s),
    }
    shared: dict[str, Any] = {"prefix": bucket.prefix or None, "client_options": options, "retry_config": retry}
    if bucket.scheme == "gs":
        return GCSStore(bucket.bucket, config=_given(base_url=bucket.endpoint), **shared)
    if bucket.scheme == "az":
        config = _given(account_name=bucket.account, endpoint=bucket.endpoint)
        return AzureStore(bucket.bucket, config=config, **shared)
    config = _given(endpoint=bucket.endpoint, region=bucket.region) | {
        "disable_bulk_delete": True
    }  # not on all servers
    return S3Store(bucket.bucket, config=config, **shared)


def _given(**values: str) -> Any:
    return {name: value for name, value in values.items() if value}


def _endpoint(scheme: str, options: dict[str, str]) -> str:
    """Return the server's address with its scheme, ``""`` for the provider's own."""
    variables = {
        "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "gs": ("GOOGLE_BASE_URL",),
        "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    }[scheme]
    given = (options.get("endpoint_override") or _variable(*variables)).rstrip("/")
    if not given:
        return ""
    if "://" not in given:
        given = f"{options.get('scheme') or 'https'}://{given}"
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
        raise UsageError(
            "The address of the storage server is no http(s)://HOST:PORT.",
            hint=f"Set {variables[-1]}{' or ?endpoint_override=' if scheme == 's3' else ''}, without credentials.",
            code=ErrorCode.STORE_LOCATION,
        )
    return given


def _account() -> str:
    account = _variable("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
    if not account:
        raise UsageError(
            "An az:// store needs the name of the storage account.",
            hint="Set AZURE_STORAGE_ACCOUNT_NAME.",
            code=ErrorCode.CONFIG_VARIABLE,
        )
    return account


def _variable(*names: str) -> str:
    """Return the first environment variable that is set, or ``""``."""
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _version(meta: ObjectMeta) -> str:
    """Return the two marks of an object's version: Google compares the second one, the others the first."""
    return f"{meta['e_tag'] or ''} {meta['version'] or ''}"


def _reason(error: Exception) -> str:
    """Return the reason in an error of the client, on one line: its own text repeats the address and adds a dump."""
    text = str(error).partition("\n\nDebug source")[0]
    code = re.search(r"<Code>([^<]{1,80})</Code>", text)
    parts = re.split(r" - |<\?xml|<Error>", text.replace("\n", " "))
    reason = next((part for part in parts[1:] if part.strip()), parts[0]).strip(" .:")
    return without_secrets(f"{reason} ({code[1]})" if code else reason)


def _is_name(name: str) -> bool:
    """Return whether a name can be a file's below a folder: others may have written anything to the bucket."""
    return all(part and not part.startswith(".") and "\0" not in part for part in name.split("/"))


def _bare(url: str) -> str:
    """Return a URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
