"""A server on loopback that answers as much of Google's and Azure's storage protocols as a store needs.

It holds one bucket in memory: listing in pages, HEAD, GET, PUT (conditional, too), upload in parts, DELETE. Of
signatures it sees only who signed, so it shows that the store speaks the protocol, not that a provider accepts it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.processes.http_servers import QuietHandler, running

BUCKET: Final = "evaluations"
ACCOUNT: Final = "teama"
PAGE: Final = 3
"""Objects in one page of a listing."""

SECRET: Final = {"gs": "planted-gs-secret-0123456789", "az": "cGxhbnRlZC1hei1zZWNyZXQtMDEyMzQ1Njc4OQ=="}


@dataclass(frozen=True)
class Stored:
    """An object with what identifies its version."""

    body: bytes
    kind: str
    number: int

    @property
    def headers(self) -> dict[str, str]:
        """The headers that describe it."""
        modified = formatdate(1_800_000_000 + self.number, usegmt=True)
        return {
            "ETag": f'"e{self.number}"',
            "Last-Modified": modified,
            "Content-Type": self.kind,
            "x-goog-generation": str(self.number),
        }


@dataclass
class ObjectServer:
    """The bucket, and what the server was asked.

    Attributes:
        scheme: The protocol: ``gs`` or ``az``.
        port: Where it listens.
        objects: The objects, by their whole names.
        failures: Statuses to answer the next requests with.
        log: Method and path of each request.
        cut_off: How many of the next downloads end early.
        read_only: Whether its keys may only read.
    """

    scheme: str
    port: int = 0
    objects: dict[str, Stored] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    cut_off: int = 0
    read_only: bool = False
    parts: dict[str, bytes] = field(default_factory=dict)
    written: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """A store in the bucket."""
        return f"{self.scheme}://{BUCKET}/a/store"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a host needs."""
        address = f"http://127.0.0.1:{self.port}"
        if self.scheme == "gs":
            return {"GOOGLE_BASE_URL": address, "GOOGLE_BEARER_TOKEN": SECRET["gs"]}
        return {
            "AZURE_STORAGE_ENDPOINT": f"{address}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": SECRET["az"],
        }

    def write(self, key: str, body: bytes, kind: str) -> Stored:
        """Write an object."""
        self.written += 1
        self.objects[key] = Stored(body, kind, self.written)
        return self.objects[key]


@contextmanager
def serving_objects(scheme: str) -> Iterator[ObjectServer]:
    """Run a server until the block ends."""
    state = ObjectServer(scheme)
    handler = type("Handler", (_Google if scheme == "gs" else _Azure,), {"state": state})
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as state.port:
        yield state


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    state: ObjectServer
    root = f"/{BUCKET}"
    signed = ""

    def handle_one(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        split = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
        path, self.key = unquote(split.path), ""
        with self.state.lock:
            self.state.log.append(f"{self.command} {path}")
            if self.state.failures:
                return self.reply(self.state.failures.pop(0))
            if not self.headers.get("Authorization", "").startswith(self.signed):
                return self.refuse(403, "AccessDenied")
            if self.state.read_only and self.command in ("PUT", "POST", "DELETE"):
                return self.refuse(403, "AccessDenied")
            if path != self.root and not path.startswith(f"{self.root}/"):
                return self.refuse(404, "NoSuchBucket" if self.state.scheme == "gs" else "ContainerNotFound")
            self.key = path.removeprefix(self.root).removeprefix("/")
            return self.answer()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one

    def answer(self) -> None:
        found = self.state.objects.get(self.key)
        if not self.key:
            self.container()
        elif self.command in ("GET", "HEAD"):
            self.read(found) if found else self.refuse(404, "NoSuchKey")
        elif self.command == "DELETE":
            self.reply(204) if self.state.objects.pop(self.key, None) else self.refuse(404, "NoSuchKey")
        else:
            self.write(found)

    def read(self, found: Stored) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            return self.reply(200, found.body, found.headers)
        first, size = int(asked[1]), len(found.body)
        last = min(int(asked[2] or size), size - 1)
        headers = found.headers | {"Content-Range": f"bytes {first}-{last}/{size}"}
        return self.reply(206, found.body[first : last + 1], headers)

    def container(self) -> None:
        raise NotImplementedError

    def write(self, found: Stored | None) -> None:
        raise NotImplementedError

    def page(self, token: str) -> tuple[list[str], list[str], str]:
        """Return the names and the folders of a page of a listing, and where the next page begins."""
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter")
        entries = set()
        for key in self.state.objects:
            if key.startswith(prefix):
                head, found, _ = key[len(prefix) :].partition(delimiter or "\0")
                entries.add(prefix + head + found if delimiter else key)
        left = sorted(entry for entry in entries if entry >= token)
        shown = left[:PAGE]
        folders = [entry for entry in shown if delimiter and entry.endswith(delimiter)]
        return [entry for entry in shown if entry not in folders], folders, "".join(left[PAGE : PAGE + 1])

    def stored(self, body: bytes, kind: str) -> None:
        made = self.state.write(self.key, body, kind)
        self.reply(201 if self.state.scheme == "az" else 200, b"", made.headers)

    def refuse(self, status: int, code: str) -> None:
        self.reply(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def reply(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET" and self.key and self.state.cut_off:
            self.state.cut_off -= 1
            self.close_connection = True
            body = body[: len(body) // 2]
        if self.command != "HEAD":
            self.wfile.write(body)


class _Google(_Handler):
    """The XML protocol of Google Cloud Storage."""

    signed = f"Bearer {SECRET['gs']}"

    def container(self) -> None:
        keys, folders, following = self.page(self.query.get("continuation-token", ""))
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(stored.body)}</Size><ETag>{stored.headers['ETag']}</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, stored in ((key, self.state.objects[key]) for key in keys)
        )
        items += "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders)
        if following:
            items += f"<NextContinuationToken>{escape(following)}</NextContinuationToken>"
        self.reply(200, f"<ListBucketResult>{items}</ListBucketResult>".encode())

    def write(self, found: Stored | None) -> None:
        wanted = self.headers.get("x-goog-if-generation-match")
        kind = self.headers.get("Content-Type", "")
        if wanted is not None and wanted != str(found.number if found else 0):
            self.refuse(412, "PreconditionFailed")
        elif "uploads" in self.query:
            self.state.parts[""] = kind.encode()
            root = "InitiateMultipartUploadResult"
            self.reply(200, f"<{root}><UploadId>u</UploadId></{root}>".encode())
        elif "partNumber" in self.query:
            self.state.parts[self.query["partNumber"]] = self.body
            self.reply(200, b"", {"ETag": f'"p{self.query["partNumber"]}"'})
        elif "uploadId" in self.query:
            numbers = re.findall(rb"<PartNumber>(\d+)</PartNumber>", self.body)
            body = b"".join(self.state.parts[number.decode()] for number in numbers)
            made = self.state.write(self.key, body, self.state.parts[""].decode())
            root = "CompleteMultipartUploadResult"
            self.reply(200, f"<{root}><ETag>{made.headers['ETag']}</ETag></{root}>".encode(), made.headers)
        else:
            self.stored(self.body, kind)


class _Azure(_Handler):
    """The protocol of Azure Blob Storage."""

    root = f"/{ACCOUNT}/{BUCKET}"
    signed = f"SharedKey {ACCOUNT}:"

    def container(self) -> None:
        if self.query.get("comp") == "batch":
            return self.batch()
        keys, folders, following = self.page(self.query.get("marker", ""))
        items = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties><Last-Modified>{stored.headers['Last-Modified']}</Last-Modified>"
            f"<Etag>{stored.headers['ETag']}</Etag><Content-Length>{len(stored.body)}</Content-Length>"
            f"<Content-Type>{stored.kind}</Content-Type></Properties></Blob>"
            for key, stored in ((key, self.state.objects[key]) for key in keys)
        )
        items += "".join(f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in folders)
        listing = f"<Blobs>{items}</Blobs><NextMarker>{escape(following)}</NextMarker>"
        return self.reply(200, f"<EnumerationResults>{listing}</EnumerationResults>".encode())

    def batch(self) -> None:
        """Delete what a batch of requests names."""
        replies = []
        for number, path in re.findall(rb"Content-ID: (\d+).*?DELETE (\S+) HTTP", self.body, re.DOTALL):
            key = unquote(path.decode()).partition(f"/{BUCKET}/")[2]
            status = b"202 Accepted" if self.state.objects.pop(key, None) else b"404 Not Found"
            replies.append(
                b"--batchreply\r\nContent-Type: application/http\r\nContent-ID: " + number + b"\r\n\r\n"
                b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n\r\n"
            )
        body = b"".join(replies) + b"--batchreply--\r\n"
        self.reply(202, body, {"Content-Type": "multipart/mixed; boundary=batchreply"})

    def write(self, found: Stored | None) -> None:
        kind = self.headers.get("x-ms-blob-content-type", "")
        if self.headers.get("If-None-Match") == "*" and found:
            self.refuse(409, "BlobAlreadyExists")
        elif (match := self.headers.get("If-Match")) and (not found or found.headers["ETag"] != match):
            self.refuse(412, "ConditionNotMet")
        elif self.query.get("comp") == "block":
            self.state.parts[self.query["blockid"]] = self.body
            self.reply(201)
        elif self.query.get("comp") == "blocklist":
            names = re.findall(r"<Uncommitted>([^<]+)</Uncommitted>", self.body.decode())
            self.stored(b"".join(self.state.parts[name] for name in names), kind)
        else:
            self.stored(self.body, kind)
