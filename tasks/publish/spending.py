"""The judge calls of a run and their cost, by evaluator, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leadline.tasks.runs.run_sentences import price


@dataclass(frozen=True, slots=True)
class Spending:
    """The calls of one evaluator, or of all of them.

    Attributes:
        evaluator: Id of the evaluator that asked first, ``""`` for all together.
        asked: Calls begun.
        answered: Calls with a reply.
        failed: Calls that ended without one.
        lost: Calls whose process was gone before the reply was on record; they may have been paid for.
        retries: Attempts beyond the first one of a call.
        input_tokens: Tokens sent, as far as the provider counted them; ``None`` where it gave no counts.
        output_tokens: Tokens received.
        price: What they cost, with what is not known of it; never "$0" for an unknown price.
    """

    evaluator: str
    asked: int
    answered: int
    failed: int
    lost: int
    retries: int
    input_tokens: int | None
    output_tokens: int | None
    price: str


def spending(record: Mapping[str, Any]) -> list[Spending]:
    """Return the calls in a run's record (``judge_calls``), by evaluator and then the sum; empty without calls."""
    counted = record.get("judge_calls") or {}
    parts = counted.get("by_evaluator") or []
    return [_line(part) for part in (*parts, counted)] if parts else []


def _line(part: Mapping[str, Any]) -> Spending:
    counted = bool(part["input_tokens"] or part["output_tokens"])
    return Spending(
        evaluator=part.get("evaluator", ""),
        asked=part["asked"],
        answered=part["answered"],
        failed=part["failed"],
        lost=part["lost"],
        retries=part["repeated_attempts"],
        input_tokens=part["input_tokens"] if counted else None,
        output_tokens=part["output_tokens"] if counted else None,
        price=price(part["cost_usd"], part["answered"], part["unknown_price"]),
    )
