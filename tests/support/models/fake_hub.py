"""A Hugging Face hub on loopback, and its cache as a folder, both with a made-up model."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.processes.http_servers import QuietHandler, serving_http

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def safetensors(values: bytes = b"\0\1\2\3\4\5\6\7") -> bytes:
    """Return a well-formed safetensors file with one tensor of bytes."""
    header = json.dumps({"x": {"dtype": "U8", "shape": [len(values)], "data_offsets": [0, len(values)]}}).encode()
    return struct.pack("<Q", len(header)) + header + values


def model_files(weights: bytes | None = None) -> dict[str, bytes]:
    """Return the files of a model that is complete in form."""
    return {
        "config.json": b"{}",
        "tokenizer.json": b'{"version": "1.0"}',
        "1_Pooling/config.json": b'{"pooling": "mean"}',
        "model.safetensors": safetensors() if weights is None else weights,
    }


def write_folder(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def write_cache(cache: Path, source: str, files: Mapping[str, bytes], commit: str = COMMIT) -> Path:
    """Write a snapshot as the hub's library does: files are links to blobs, large ones named by their sha256."""
    repository = cache / f"models--{source.replace('/', '--')}"
    write_folder(repository / "refs", {"main": commit.encode()})
    snapshot = repository / "snapshots" / commit
    (repository / "blobs").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        large = name.endswith((".safetensors", ".bin"))
        blob = repository / "blobs" / (hashlib.sha256 if large else hashlib.sha1)(content).hexdigest()
        blob.write_bytes(content)
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).symlink_to(blob)
    return snapshot


class FakeHub:
    """What the server serves and what it was asked.

    Attributes:
        files: Files of the one model, by path.
        spoil: How many downloads of weights arrive with a flipped byte.
        cut: How many downloads of weights break off half way.
        downloads: Paths whose content was asked for, in order, with the first byte asked for.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.spoil = 0
        self.cut = 0
        self.downloads: list[tuple[str, int]] = []
        self.url = ""


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """Serve a hub on loopback for the time of the block."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._file(body=False)

        def do_GET(self) -> None:
            if "/tree/" in self.path:
                self._json([_entry(path, content) for path, content in hub.files.items()])
            elif "/revision/" in self.path:
                siblings = [{"rfilename": path} for path in hub.files]
                self._json({"id": "tiny/model", "sha": COMMIT, "siblings": siblings})
            else:
                self._file(body=True)

        def _json(self, value: Any) -> None:
            self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"}, body=True)

        def _file(self, *, body: bool) -> None:
            match = re.fullmatch(r"/tiny/model/resolve/[^/]+/(.+)", self.path)
            content = hub.files.get(match[1]) if match else None
            if match is None or content is None:
                self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, body=False)
                return
            headers = {"ETag": f'"{_etag(match[1], content)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
            if not body:
                self._send(200, content, headers, body=False)
                return
            asked = re.fullmatch(r"bytes=(\d+)-\d*", self.headers.get("Range", ""))
            first = int(asked[1]) if asked else 0
            hub.downloads.append((match[1], first))
            sent = content[first:]
            if match[1].endswith(".safetensors") and hub.spoil:
                hub.spoil -= 1
                sent = sent[:-1] + bytes([sent[-1] ^ 1])
            if match[1].endswith(".safetensors") and hub.cut:
                hub.cut -= 1
                self.send_response(200)
                for name, value in (headers | {"Content-Length": str(len(sent))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(sent[: len(sent) // 2])
                self.close_connection = True
                return
            if asked:
                headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            self._send(206 if asked else 200, sent, headers, body=True)

        def _send(self, status: int, content: bytes, headers: Mapping[str, str], *, body: bool) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

    with serving_http(Handler) as hub.url:
        yield hub


def _etag(path: str, content: bytes) -> str:
    return (hashlib.sha256 if path.endswith(".safetensors") else hashlib.sha1)(content).hexdigest()


def _entry(path: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "file",
        "path": path,
        "size": len(content),
        "oid": hashlib.sha1(content).hexdigest(),
    }
    if path.endswith(".safetensors"):
        entry["lfs"] = {"oid": _etag(path, content), "size": len(content), "pointerSize": 130}
    return entry
