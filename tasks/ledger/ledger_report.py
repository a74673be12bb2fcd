"""Reports of the ledger: calls, their cost, and those lost with their process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.db import sql
from leadline.tasks.ground.processes import is_gone
from leadline.tasks.ledger import postgres, sqlite
from leadline.tasks.ledger.operations import unpack

_AT_A_TIME: Final = 500
"""Calls that one query asks for."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over judge calls.

    Attributes:
        evaluator: Id of the evaluator that asked first, or ``""`` for all together.
        lost: Calls whose process was gone before the reply was on record; they may have been paid for.
        input_tokens: Tokens sent, where the providers reported them.
        cost_usd: Price of the calls whose price is known.
        unknown_price: Answered calls whose price is not known.
        repeated_attempts: Attempts beyond the first one of a call.
    """

    run: str
    evaluator: str
    asked: int = 0
    answered: int = 0
    failed: int = 0
    lost: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unknown_price: int = 0
    repeated_attempts: int = 0


class LedgerReader:
    """Reads a ledger beside the processes that write it.

    Args:
        place: The database: a file or an address. Where there is none, nothing was ever asked.
    """

    def __init__(self, place: Path | str) -> None:
        self._place = place

    def asks(self, run: str | None = None, *, failed: bool = False, limit: int | None = None) -> list[dict[str, Any]]:
        """Return calls, newest first; each with ``lost`` beside the columns of ``ledger/asks``.

        Args:
            failed: Only those that failed, were lost, or whose reply could not be read.
        """
        out = []
        for line in self._read("asks", run=run):
            line["lost"] = line["state"] == "intended" and _is_lost(line)
            del line["seen_at"]
            if not failed or line["lost"] or line["state"] == "failed" or line["problem"]:
                out.append(line)
            if limit is not None and len(out) == limit:
                break
        return out

    def one(self, digest: str) -> dict[str, Any]:
        """Return a question by a prefix of its digest, with messages, reply and verdicts.

        Raises:
            UsageError: There is none, or there are several.
        """
        found = self._read("one", digest=digest) if re.fullmatch("[0-9a-f]{4,32}", digest) else []
        if len(found) != 1:
            what = "no call" if not found else "more than one call"
            raise UsageError(
                f"The ledger has {what} {digest!r}.",
                hint="List calls: leadline judges calls",
                code=ErrorCode.LEDGER_NO_CALL,
            )
        call = found[0]
        for name in ("identity", "messages", "schema"):
            call[name] = None if call[name] is None else json.loads(call[name])
        call["text"] = None if call["text"] is None else unpack(call["text"])
        verdicts = self._read("verdicts", digest=call["digest"])
        return call | {"verdicts": [line | {"verdict": json.loads(line["verdict"])} for line in verdicts]}

    def mentioning(self, text: str, most: int) -> list[dict[str, Any]]:
        """Return the calls of all runs in whose messages a text stands, by purpose: ``evaluator:prompt``.

        Args:
            text: Without characters that JSON escapes.
        """
        pattern = re.sub(r"([!%_])", r"!\1", text)
        return self._read("mentioning", pattern=f"%{pattern}%", most=most)

    def totals(self, run: str | None = None) -> list[Totals]:
        """Return the sums over calls by run and evaluator."""
        lost: dict[tuple[str, str], int] = {}
        for line in self.lost(run):
            key = line["run"], line["purpose"].partition(":")[0]
            lost[key] = lost.get(key, 0) + 1
        parts: dict[tuple[str, str], list[Totals]] = {}
        for line in self._read("totals", run=run):
            part = Totals(evaluator=line.pop("purpose").partition(":")[0], **line)
            parts.setdefault((part.run, part.evaluator), []).append(part)
        return [
            replace(add_up(run_id, found), evaluator=evaluator, lost=lost.get((run_id, evaluator), 0))
            for (run_id, evaluator), found in parts.items()
        ]

    def total(self, run: str) -> Totals:
        """Return the sum over the calls of a run."""
        return add_up(run, self.totals(run))

    def lost(self, run: str | None = None) -> list[dict[str, Any]]:
        """Return the calls that were begun by processes that are gone, and whose replies never came to record."""
        return [line for line in self._read("open", run=run) if _is_lost(line)]

    def made_again(self, run: str) -> int:
        """Return how many calls a run made again because they were lost with an earlier process."""
        return sum(map(_is_lost, self._read("open_before", run=run)))

    def call_times(self, run: str, most: int) -> list[dict[str, Any]]:
        """Return when the first calls of a run began and ended, by time."""
        return self._read("call_times", run=run, most=most)

    def replies(self, digests: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return what the first replies to calls cost and how long they took, by digest."""
        wanted, found = sorted(set(digests)), {}
        for start in range(0, len(wanted), _AT_A_TIME):
            values = {f"d{place}": digest for place, digest in enumerate(wanted[start : start + _AT_A_TIME])}
            places = ", ".join(f":{name}" for name in values)
            for line in self._lines(sql("ledger/replies").format(digests=places), values):
                found[line.pop("digest")] = line
        return found

    def by_model(self) -> list[dict[str, Any]]:
        """Return the sums over all calls that have ended by judge or model, those with the most calls first."""
        return self._read("by_model")

    def open_calls(self) -> int:
        """Return how many calls have no end on record."""
        return sum(int(line["calls"]) for line in self._read("open_calls"))

    def unreadable(self) -> int:
        """Return how many replies no parser could read."""
        return sum(int(line["replies"]) for line in self._read("unreadable"))

    def drift_checks(self, judge: str | None = None) -> list[dict[str, Any]]:
        """Return checks of whether a judge is still the same, youngest first.

        Args:
            judge: Only of this judge: the digest of its identity without the epoch.
        """
        return self._read("drift_checks", judge=judge)

    def told(self, run: str) -> dict[str, dict[str, Any]]:
        """Return ``output_tokens``, ``served_model`` and ``fingerprint`` of a run's replies by the call's digest."""
        return {line.pop("digest"): line for line in self._read("told", run=run)}

    def served(self, run: str) -> list[dict[str, Any]]:
        """Return each ``identity`` of a judge with a ``served_model`` and ``fingerprint`` of a run's replies."""
        return [line | {"identity": json.loads(line["identity"])} for line in self._read("served", run=run)]

    def teams(self, month: str | None = None) -> list[dict[str, Any]]:
        """Return ``team``, ``month``, ``calls`` and ``usd`` of the teams that were charged, youngest month first.

        Args:
            month: Only this month, as ``2026-11``.
        """
        return self._read("teams", month=month)

    def faults(self) -> list[str]:
        """Return how the ledger contradicts itself, one line per call; an SQLite file is read through as well."""
        found = []
        if isinstance(self._place, Path):
            lines = sqlite.read(self._place, "PRAGMA integrity_check(100)", {})
            found += [str(line["integrity_check"]) for line in lines if line["integrity_check"] != "ok"]
        return found + [f"call {line['digest']}: {line['fault']}" for line in self._read("faults")]

    def _read(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        return self._lines(sql(f"ledger/{statement}"), values)

    def _lines(self, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        if isinstance(self._place, Path):
            return sqlite.read(self._place, statement, values)
        return postgres.read(self._place, statement, values)


def _is_lost(line: Mapping[str, Any]) -> bool:
    return is_gone(line["process"], line["intended_at"], seen_at=line["seen_at"])


def add_up(run: str, parts: Sequence[Totals]) -> Totals:
    """Return the sum over a run's evaluators."""
    names = [name for name in Totals.__slots__ if name not in ("run", "evaluator")]
    return Totals(run, "", **{name: sum(getattr(part, name) for part in parts) for name in names})
