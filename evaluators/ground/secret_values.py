"""The secrets that this process was given, and texts without them: one list for every place that texts go to.

Secrets come from environment variables only: those that are named like secrets, those that a judge, a target or a
webhook names for its key, and the passwords in addresses such as that of a ledger. Errors of Leadline, log records,
run records, what Prefect is told and replies of judges and models go through :func:`masked`.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote, unquote

from leadline.evaluators.ground.text import one_line

MASK: Final = "[key]"

_NAMED_LIKE_SECRETS: Final = re.compile(
    r"(?<!MON)(?<!TUR)(?<!DON)KEY(?!BOARD|MAP|WORD)|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH(?!OR(?!IZ))|WEBHOOK|NOTIF|APPRISE"
    r"|CONNECTION_STRING|HEADERS",
    re.IGNORECASE,
)
_NAMED_LIKE_SETTINGS: Final = re.compile(
    r"_(?:COUNT|LIMIT|MODE|TYPE|METHOD|BACKEND|ENABLED|SIZE|LENGTH|TTL|TIMEOUT|SECONDS|ALGORITHM|PARALLELISM|BUDGET)$",
    re.IGNORECASE,
)
"""What says how many tokens there are, or how somebody signs in, holds no secret: ``TOKEN_COUNT``, ``AUTH_METHOD``."""

_PASSWORD: Final = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_FIELD: Final = re.compile(r"(?:AccountKey|SharedAccessSignature|password|passwd|pwd|sig)=([^;&\s]+)", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"[\s@]")  # an address with a password counts, too
_SHORTEST: Final = 8
LONG: Final = 12
"""Characters from which on a value is surely no ordinary word: only such are taken out of texts that scores depend on,
and refused in settings."""

_variables: Final[set[str]] = set()
_LOOKS_SECRET: Final = re.compile(
    r"""
      \b (?:sk|rk|gsk) [-_] (?=[\w\-./+]*[\d*]) [\w\-./+*]{8,}
    | \b (?:pk|key) [-_] [\w\-./+*]*? (?=[A-Za-z*]*[\d*]) [A-Za-z0-9*]{12,} [\w\-./+*]*
    | \b hf_ [A-Za-z0-9*]{20,}
    | \b AIza [\w\-*]{20,}
    | (?<![a-z]) key \s (?=[\w\-./+]*[\d*]) [\w\-./+*]{12,}              # not: key findings
    | (?<![a-z]) (?:key\s?[:=]|bearer) \s? (?: (?=[\w\-./+]*[\d*]) [\w\-./+*]{6,} | [\w\-./+*]{20,} )
    | (?-i:(?<![A-Za-z])[Bb]earer \s (?![a-z]+\b) [\w\-./+*]{6,})            # not: bearer tokens
    | // [^/\s:@]+ : [^/\s@]+ @                                           # a password in an address
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""What may be a key by its prefix or by the word before it: words alone are none, keys are long or have digits."""

LONGEST: Final = 300


def remember_variable(name: str) -> None:
    """Treat the value of an environment variable as a secret, however it is named."""
    _variables.add(name)


def holds_secret(name: str, value: str) -> bool:
    """Return whether an environment variable holds a secret."""
    return _is_named_for_secret(name) or bool(_PASSWORD.search(value))


def masked(text: str, *, shortest: int = _SHORTEST) -> str:
    """Return a text in which the secrets of this process are replaced.

    Args:
        shortest: Characters of the shortest secret that is looked for.
    """
    found = _secrets().pattern(shortest)
    first = None if found is None else found.search(text)
    if found is None or first is None:
        return text
    parts, end = [], 0
    for start, stop in _merged(_any_place(found.pattern).finditer(text, first.start())):
        parts += [text[end:start], MASK]
        end = stop
    return "".join([*parts, text[end:]])


def _merged(places: Iterator[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """Yield where secrets begin and end, those that overlap as one: what is left of the second would be its tail."""
    start = stop = -1
    for place in places:
        if place.start() >= stop:
            if start >= 0:
                yield start, stop
            start = place.start()
        stop = max(stop, place.end(1))
    if start >= 0:
        yield start, stop


@lru_cache(maxsize=8)
def _any_place(pattern: str) -> re.Pattern[str]:
    """Return what finds the longest match at every place, within another one too."""
    return re.compile(f"(?=({pattern}))")


def masked_value(value: Any) -> Any:
    """Return a JSON value in whose texts the secrets are replaced.

    Numbers stay. Keys, and texts of one word such as an id or a status, lose long secrets only: a record whose status
    is the word that somebody took for a password would be none.
    """
    text = json.dumps(value, ensure_ascii=False)
    return value if masked(text) == text else _without_secrets(value)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value, shortest=_SHORTEST if _SENTENCE.search(value) else LONG)
    if isinstance(value, Mapping):
        return {masked(str(name), shortest=LONG): _without_secrets(each) for name, each in value.items()}
    return [_without_secrets(each) for each in value] if isinstance(value, list | tuple) else value


def variable_in(text: str) -> str | None:
    """Return the environment variable whose secret a text holds, ``None`` for none."""
    if masked(text, shortest=LONG) == text:
        return None
    holders = (name for name, secret in _named_secrets() if any(form in text for form in _forms(secret)))
    return next(holders, None)


def clean_error(error: BaseException) -> bool:
    """Take secrets out of an error, its notes and its causes in place; return whether its text has none now."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        each.args = tuple(masked(part) if isinstance(part, str) else part for part in each.args)
        if notes := getattr(each, "__notes__", None):
            each.__notes__ = [masked(note) for note in notes]
        left += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
    return masked(str(error)) == str(error)


@dataclass(frozen=True, slots=True)
class _Known:
    """The secrets of one environment, kept since reading it takes half a millisecond.

    Attributes:
        environment: The environment, and how many variables were remembered by then.
        patterns: What matches secrets of a length or longer; ``None`` where there are none.
    """

    environment: tuple[dict[bytes, bytes], int] | None
    patterns: dict[int, re.Pattern[str] | None]

    def current(self) -> bool:
        """Return whether the environment is as it was."""
        kept = getattr(os.environ, "_data", None)
        return self.environment is not None and self.environment == (kept, len(_variables))

    def pattern(self, shortest: int) -> re.Pattern[str] | None:
        """Return what matches the secrets from a length on."""
        if shortest not in self.patterns:
            secrets = {form for _, secret in _named_secrets() if len(secret) >= shortest for form in _forms(secret)}
            longest_first = sorted(secrets, key=lambda secret: (-len(secret), secret))
            self.patterns[shortest] = re.compile("|".join(map(re.escape, longest_first))) if secrets else None
        return self.patterns[shortest]


_known = _Known(None, {})


def _secrets() -> _Known:
    global _known
    known = _known
    if not known.current():
        kept = getattr(os.environ, "_data", None)
        known = _known = _Known(None if kept is None else (dict(kept), len(_variables)), {})
    return known


def _named_secrets() -> Iterator[tuple[str, str]]:
    """Yield the secrets in the environment with the variables that hold them."""
    for name, value in os.environ.items():
        if _is_named_for_secret(name):
            secret = value.strip()  # a key is sent without a line's end
            if secret and not _is_path(secret):
                for part in (secret, *_header_values(name, secret)):
                    yield name, part
                    kind, _, rest = part.partition(" ")
                    if rest and kind.lower() in ("bearer", "basic", "token"):
                        yield name, rest.strip()
        for password in (*_PASSWORD.findall(value), *_FIELD.findall(value)):
            yield name, unquote(password)


def _header_values(name: str, value: str) -> list[str]:
    """Return the values of headers that a variable holds, as JSON or as ``name=value,…`` with escapes.

    They are what is sent, and so what a server repeats.
    """
    if not name.upper().endswith("HEADERS"):
        return []
    try:
        found = json.loads(value)
    except ValueError:
        pairs = [part.partition("=") for part in value.split(",")]
        return [unquote(held).strip() for _, _, held in pairs if held.strip()]
    return [held for held in found.values() if isinstance(held, str)] if isinstance(found, Mapping) else []


def _is_named_for_secret(name: str) -> bool:
    """Return whether an environment variable is named like one with a secret, or was named for one."""
    return name in _variables or bool(_NAMED_LIKE_SECRETS.search(name) and not _NAMED_LIKE_SETTINGS.search(name))


@lru_cache(maxsize=256)
def _is_path(value: str) -> bool:
    """Return whether a value names a file, such as one with credentials: its name is no secret."""
    try:
        return value.startswith(("/", "~", "./")) and Path(value).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


@lru_cache(maxsize=1024)
def _forms(secret: str) -> frozenset[str]:
    """Return how a secret may be written: as it is, in JSON, in an address, or in a header of basic authentication."""
    forms = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    forms |= {quote(secret), quote(secret, safe="")}
    if len(secret) >= LONG:
        forms.add(base64.b64encode(secret.encode("utf-8", "surrogateescape")).decode())
    return frozenset(forms)


def without_secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a process that needs no keys but Prefect's."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith("PREFECT_") or not holds_secret(name, value)
    }


def looks_secret(text: str) -> bool:
    """Return whether something in a text looks like a key."""
    return _LOOKS_SECRET.search(text) is not None


def without_secrets(text: str, *, longest: int = LONGEST) -> str:
    """Return another's error text, which may be logged then: one short line without keys or control characters.

    Taken out are the secrets of this process and whatever looks like a key.

    Args:
        text: The error text, of any length.
        longest: Where the line is cut.
    """
    return one_line(" ".join(_LOOKS_SECRET.sub(MASK, masked(text)[: 20 * longest]).split()))[:longest]


_installed = False


def mask_logs() -> None:
    """Make this process's log records without secrets from now on, and print uncaught errors without them."""
    global _installed
    if _installed:
        return
    _installed = True
    make = logging.getLogRecordFactory()

    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        return _masked(make(*args, **kwargs))

    logging.setLogRecordFactory(record)
    sys.excepthook = _print
    threading.excepthook = _print_of_thread


def masked_traceback(error: BaseException) -> str:
    """Return an error with its traceback, without secrets."""
    return masked("".join(traceback.format_exception(error)))


def _masked(record: logging.LogRecord) -> logging.LogRecord:
    try:
        said = record.getMessage()
    except Exception:  # a message that does not fit its arguments; the handler says so
        return record
    hidden = masked(said)
    if hidden != said:
        record.msg, record.args = hidden, None
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text = masked_traceback(record.exc_info[1]).rstrip("\n")
    return record


def _print(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    sys.stderr.write(masked("".join(traceback.format_exception(kind, error, trace))))


def _print_of_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is None or issubclass(failed.exc_type, SystemExit):
        return
    name = failed.thread.name if failed.thread else "?"
    sys.stderr.write(f"Exception in thread {name}:\n{masked_traceback(failed.exc_value)}")
