"""Forges: one comment on a pull request of GitHub or GitLab, kept up to date by their REST APIs.

The comment is found again by a hidden marker and its author. Whatever goes wrong here is a warning: the check's verdict
decides the job, not the forge. What may be repeated is, a forge that asks to wait is waited for, and no token gets out:
a redirection is not followed, since the token would go along; nor is one sent without encryption but to this host.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, urlsplit

import httpx

from leadline.evaluators.ground import without_secrets
from leadline.evaluators.judge_client.http_client import trusted_authorities
from leadline.plugins.ci.checkout import Checkout

TOKEN: Final = "LEADLINE_FORGE_TOKEN"  # noqa: S105 - a variable's name
API: Final = "LEADLINE_FORGE_API"
_TOKENS: Final = {"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN"}
_GITHUB: Final = "https://api.github.com"
_GITHUB_HEADERS: Final = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
_GITLAB: Final = "https://gitlab.com/api/v4"
_BOT: Final = "github-actions[bot]"
"""Account of a workflow's own token, which may not ask for its name."""

ATTEMPTS: Final = 4
REPLY_S: Final = 20.0
"""Longest silence within a reply, and longest time for all of it."""
PATIENCE_S: Final = 90.0
"""Longest wait for a forge that asks for one; a job that pays by the minute does not wait for an hour."""
LARGEST: Final = 16 * 2**20
"""Bytes of a reply."""
MOST_PAGES: Final = 50

_LIMITED: Final = (403, 429)
_BUSY: Final = (500, 502, 503, 504)
_SAFE: Final = ("GET", "PATCH", "PUT")
"""Methods that may be repeated when nobody knows whether they were carried out."""
_NEXT: Final = re.compile(r'<([^>]+)>\s*;[^,]*\brel="?next"?')
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)

Done: TypeAlias = Literal["created", "updated", "unchanged", "refused", "not asked"]


@dataclass(frozen=True, slots=True)
class Posting:
    """Outcome of keeping a comment.

    Attributes:
        words: Why not, in one sentence, or "".
    """

    done: Done
    words: str = ""


def marker(title: str) -> str:
    """Return the first line of a comment, which nobody sees, and by which it is found again."""
    return f"<!-- leadline-ci {hashlib.sha256(title.encode('utf-8', 'replace')).hexdigest()[:16]} -->"


def keep_comment(checkout: Checkout, body: str, *, title: str, environment: Mapping[str, str]) -> Posting:
    """Write the comment of a pull request, or bring the one that is there up to date; never raises.

    Args:
        title: What tells this comment from others of Leadline.
        environment: The job's variables; the token is one of them.
    """
    if checkout.number is None or not checkout.forge:
        return Posting("not asked")
    token = (environment.get(TOKEN) or environment.get(_TOKENS[checkout.forge], "")).strip()
    if not token:
        return Posting("refused", _fork_or(checkout, f"{TOKEN} is not set"))
    try:
        return Posting(_keep(_pull(checkout, token, environment), f"{marker(title)}\n{body}", marker(title)))
    except ForgeRefusal as refusal:
        if checkout.fork and refusal.status in (401, 403, 404):
            return Posting("refused", _fork_or(checkout, ""))
        return Posting("refused", _fork_or(checkout, str(refusal), fork=False))


def _fork_or(checkout: Checkout, reason: str, *, fork: bool = True) -> str:
    what = "merge request" if checkout.forge == "gitlab" else "pull request"
    if checkout.fork and fork:
        return f"The {what} comes from a fork, whose jobs get no token that may write: it gets no comment."
    return f"The {what} got no comment: {reason}."


class ForgeRefusal(Exception):
    """A forge that refused, or could not be reached.

    Attributes:
        status: HTTP's status; 0 where there was no answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(without_secrets(message))
        self.status = status


@dataclass(frozen=True, slots=True)
class PullRequest:
    """The comments of a pull request, as the REST API of its forge has them.

    Attributes:
        comments: Path of the comments.
        query: Asks for the comments on many pages, oldest first.
        comment: Path that the number of a comment is put behind.
        change: Method that gives a comment another text.
        account: Field of a comment with the account that wrote it.
        name: Field of an account with its name.
        nameless: Account of a token that may not ask for its name; "" where each may.
    """

    client: RestClient
    comments: str
    query: str
    comment: str
    change: str
    account: str
    name: str
    nameless: str = ""

    def author(self) -> str:
        """Return the name of the account that the token belongs to."""
        try:
            return str(self.client.send("GET", "/user").content[self.name])
        except ForgeRefusal as refusal:
            if not self.nameless or refusal.status not in (403, 404):
                raise
        except (KeyError, TypeError):
            if not self.nameless:
                raise ForgeRefusal("it does not say whose token that is") from None
        return self.nameless

    def own_comment(self, mark: str) -> tuple[int, str] | None:
        """Return number and text of the first comment of the token's account that begins with a mark."""
        author = self.author()
        for item in self.client.pages(f"{self.comments}?{self.query}"):
            with suppress(KeyError, TypeError, ValueError):  # an account that was deleted has no name
                number, body = int(item["id"]), str(item["body"])
                if str(item[self.account][self.name]) == author and body.startswith(mark):
                    return number, body
        return None


def _pull(checkout: Checkout, token: str, environment: Mapping[str, str]) -> PullRequest:
    """Return the pull request of a checkout: of GitHub (``issues/comments``), or of GitLab (version 4, ``notes``).

    Raises:
        ForgeRefusal: The token, the API's address or the repository cannot be one.
    """
    if not token.isascii() or any(not sign.isprintable() for sign in token):
        raise ForgeRefusal("invalid token: it contains a line break or another character that no token has")
    if checkout.forge == "gitlab":
        api = environment.get(API) or environment.get("CI_API_V4_URL") or _GITLAB
        notes = f"/projects/{quote(checkout.repository, safe='')}/merge_requests/{checkout.number}/notes"
        query = "per_page=100&order_by=created_at&sort=asc"
        return PullRequest(RestClient(api, {"PRIVATE-TOKEN": token}), notes, query, notes, "PUT", "author", "username")
    api = environment.get(API) or environment.get("GITHUB_API_URL") or _GITHUB
    client = RestClient(api, _GITHUB_HEADERS | {"Authorization": f"Bearer {token}"})
    if not _REPOSITORY.fullmatch(checkout.repository):
        raise ForgeRefusal("the variable of the repository is not OWNER/NAME")
    issues = f"/repos/{checkout.repository}/issues"
    comments, one = f"{issues}/{checkout.number}/comments", f"{issues}/comments"
    return PullRequest(client, comments, "per_page=100", one, "PATCH", "user", "login", _BOT)


def _keep(pull: PullRequest, body: str, mark: str) -> Done:
    own = pull.own_comment(mark)
    if own is not None:
        number, text = own
        if text.replace("\r\n", "\n").rstrip() == body.rstrip():
            return "unchanged"
        try:
            pull.client.send(pull.change, f"{pull.comment}/{number}", {"body": body})
        except ForgeRefusal as refusal:
            if refusal.status != 404:  # somebody deleted it since
                raise
        else:
            return "updated"
    pull.client.send("POST", pull.comments, {"body": body})
    return "created"


@dataclass(frozen=True, slots=True)
class RestReply:
    """A reply: its status, its headers, and its JSON."""

    status: int
    headers: Mapping[str, str]
    content: Any


class RestClient:
    """Requests to one API.

    Args:
        api: Address that paths are put behind.
        headers: Headers of each request, the token among them.
        sleep: Waits for a number of seconds.
        clock: The time, in seconds since 1970.

    Raises:
        ForgeRefusal: The address is invalid, or a token would go over the network without encryption.
    """

    def __init__(
        self,
        api: str,
        headers: Mapping[str, str],
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        parts = urlsplit(api)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ForgeRefusal("invalid API address; expected https://HOST/PATH without credentials")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ForgeRefusal("the API's address is http://, and a token is sent by https:// only")
        self._api = api.rstrip("/")
        self._origin = (parts.scheme, parts.netloc)
        self._headers = {"User-Agent": "leadline", "Accept-Encoding": "identity"} | dict(headers)
        self._tls = trusted_authorities()
        self._sleep = sleep
        self._clock = clock

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> RestReply:
        """Send a request and return the reply to it.

        Args:
            path: Path behind the API's address, or a whole address of the same host.

        Raises:
            ForgeRefusal: The forge refused, could not be reached, or asks for too long a wait.
        """
        address = path if "://" in path else f"{self._api}{path}"
        waited = 0.0
        for attempt in range(1, ATTEMPTS + 1):
            reply, failure = self._attempt(method, address, body)
            if reply is not None and reply.status < 300:
                return reply
            wait = self._wait(reply, attempt, method)
            if wait is None or attempt == ATTEMPTS:
                break
            if waited + wait > PATIENCE_S:
                raise ForgeRefusal(f"it asks to wait for {wait:,.0f} s", reply.status if reply else 0)
            waited += wait
            self._sleep(wait)
        raise ForgeRefusal(failure or _said(reply), reply.status if reply else 0)

    def pages(self, path: str) -> Iterator[Any]:
        """Yield the items of a list, page after page.

        Args:
            path: Path of the first page.

        Raises:
            ForgeRefusal: As :meth:`send`; or a page is no list.
        """
        following = path
        for _ in range(MOST_PAGES):
            reply = self.send("GET", following)
            if not isinstance(reply.content, list):
                raise ForgeRefusal("it sent no list of comments", reply.status)
            yield from reply.content
            link = _NEXT.search(reply.headers.get("link", ""))
            if link is None or urlsplit(link[1])[:2] != self._origin:
                return
            following = link[1]

    def _attempt(self, method: str, address: str, body: Mapping[str, Any] | None) -> tuple[RestReply | None, str]:
        """Return the reply to one request, or why there is none."""
        try:
            with httpx.stream(
                method, address, json=body, headers=self._headers, timeout=REPLY_S, verify=self._tls
            ) as stream:
                content: Any = None
                with suppress(ValueError, OSError, httpx.HTTPError, RecursionError):  # a proxy's page is no JSON
                    content = json.loads(_body(stream))
                return RestReply(stream.status_code, stream.headers, content), ""
        except (OSError, ImportError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return None, f"it cannot be reached: {type(error).__name__}: {error}"

    def _wait(self, reply: RestReply | None, attempt: int, method: str) -> float | None:
        """Return the seconds after which to try again, ``None`` for not at all."""
        pause = 2.0 ** (attempt - 1)
        if reply is None or reply.status in _BUSY:
            asked = None if reply is None else _number(reply.headers.get("retry-after"))
            return max(pause, asked or 0.0) if method in _SAFE else None
        if reply.status not in _LIMITED:
            return None
        if (asked := _number(reply.headers.get("retry-after"))) is not None:
            return max(asked, 0.0)
        for name in ("x-ratelimit", "ratelimit"):
            reset = _number(reply.headers.get(f"{name}-reset"))
            if reply.headers.get(f"{name}-remaining") == "0" and reset is not None:
                return max(reset - self._clock(), 1.0)
        return pause if reply.status == 429 or "rate limit" in _said(reply).lower() else None


def _body(stream: httpx.Response) -> bytes:
    """Return a body that is neither too large nor comes too slowly.

    Raises:
        TimeoutError: It trickles.
    """
    until, body = time.monotonic() + REPLY_S, b""
    for part in stream.iter_raw():  # as it is sent: what is compressed, unasked, may be a bomb
        body += part
        if time.monotonic() > until:
            raise TimeoutError
        if len(body) >= LARGEST:
            break
    return body[:LARGEST]


def _said(reply: RestReply | None) -> str:
    """Return a refusal in words: the status and the forge's own message."""
    if reply is None:
        return "it cannot be reached"
    content = reply.content
    message = content.get("message") or content.get("error") if isinstance(content, dict) else ""
    return f"it answered {reply.status}" + (f": {json.dumps(message)[:200]}" if message else "")


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
