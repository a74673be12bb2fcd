"""A forge on loopback: the comments of one pull request by GitHub's and GitLab's APIs, and refusals on order."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.support.processes.http_servers import QuietHandler, serving_http

TOKEN: Final = "forge-token-f0r-tests-only"
_GITHUB: Final = re.compile(r"/repos/harbour/bot/issues/(?:(7)/comments|comments/(\d+))")
_GITLAB: Final = re.compile(r"/projects/42/merge_requests/7/notes(?:/(\d+))?")


@dataclass(frozen=True)
class Refusal:
    """What a request gets instead of its answer: a status, headers and a message; 0 closes the connection."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "Refused"
    method: str = ""


@dataclass
class ScriptedForge:
    """A forge.

    Attributes:
        url: Its API.
        login: The account of the token; "" if the token may not ask.
        comments: Author and text by number, oldest first.
        refusals: Taken one by one by the requests that they are for.
        requests: Methods and paths, with queries.
        per_page: Most comments on a page, whatever was asked for.
        elsewhere: Address of another host that each page names as that of the next one; "" for none.
        trickles_s: For how many seconds each reply comes byte by byte before it ends.
        compresses: Whether replies are compressed although nobody asked for it.
    """

    url: str = ""
    login: str = "github-actions[bot]"
    comments: dict[int, tuple[str, str]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    per_page: int = 100
    elsewhere: str = ""
    trickles_s: float = 0.0
    compresses: bool = False

    def own(self) -> list[str]:
        """Return the texts of the token's account."""
        return [text for author, text in self.comments.values() if author == (self.login or "github-actions[bot]")]

    def taken(self, method: str) -> Refusal | None:
        """Return the first refusal that is for a method, and forget it."""
        found = next((each for each in self.refusals if each.method in ("", method)), None)
        if found:
            self.refusals.remove(found)
        return found


class _Handler(QuietHandler):
    forge: ScriptedForge

    def _answer(self) -> None:
        forge, parts = self.forge, urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        sent = json.loads(self.rfile.read(size)) if size else {}
        forge.requests.append(f"{self.command} {self.path}")
        if (refusal := forge.taken(self.command)) is not None:
            if not refusal.status:
                self.close_connection = True
                return
            self._send(refusal.status, {"message": refusal.message}, refusal.headers)
        elif TOKEN not in (
            self.headers.get("Authorization", "").removeprefix("Bearer "),
            self.headers.get("PRIVATE-TOKEN"),
        ):
            self._send(401, {"message": "Bad credentials"})
        elif parts.path == "/user":
            known = {"login": forge.login, "username": forge.login}
            self._send(200 if forge.login else 403, known if forge.login else {"message": "not accessible"})
        elif found := _GITHUB.fullmatch(parts.path) or _GITLAB.fullmatch(parts.path):
            self._comments(found.groups()[-1], sent, parse_qs(parts.query))
        else:
            self._send(404, {"message": "Not Found"})

    def _comments(self, number: str | None, sent: Mapping[str, Any], query: Mapping[str, list[str]]) -> None:
        forge = self.forge
        author = forge.login or "github-actions[bot]"
        if self.command == "GET":
            page, size = int(query.get("page", ["1"])[0]), forge.per_page
            shown = list(forge.comments.items())[(page - 1) * size : page * size]
            more = len(forge.comments) > page * size
            host = forge.elsewhere or (forge.url if more else "")
            link = {"Link": f'<{host}{urlsplit(self.path).path}?page={page + 1}>; rel="next"'} if host else {}
            self._send(200, [_item(id_, *comment) for id_, comment in shown], link)
        elif len(sent["body"]) > 65_536:
            self._send(422, {"message": "body is too long (maximum is 65536 characters)"})
        elif self.command == "POST":
            forge.comments[max(forge.comments, default=0) + 1] = (author, sent["body"])
            self._send(201, {})
        elif int(number or 0) in forge.comments:
            forge.comments[int(number or 0)] = (author, sent["body"])
            self._send(200, {})
        else:
            self._send(404, {"message": "Not Found"})

    def _send(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        if self.forge.compresses:
            body = gzip.compress(body)
        self.send_response(status)
        for name, value in {
            **({} if self.forge.trickles_s else {"Content-Length": str(len(body))}),
            **({"Content-Encoding": "gzip"} if self.forge.compresses else {}),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        until = time.monotonic() + self.forge.trickles_s
        with suppress(OSError):  # whoever asked may have left
            while time.monotonic() < until:
                self.wfile.write(b" ")
                time.sleep(0.02)
            self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_PUT = _answer


def _item(number: int, author: str, body: str) -> dict[str, Any]:
    """Return a comment with the fields of both forges."""
    return {"id": number, "user": {"login": author}, "author": {"username": author}, "body": body}


@contextmanager
def scripted_forge() -> Iterator[ScriptedForge]:
    """Serve a forge until the block ends."""
    forge = ScriptedForge()
    with serving_http(type("Handler", (_Handler,), {"forge": forge})) as forge.url:
        yield forge
