"""Conversations with tool calls in few words, and what other programs make of the same calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.core import EvalContext, Evaluator, get
from leadline.evaluators.data import MadeCall, Row, RowScore

CONFORMANCE: Final = Path(__file__).parent / "conformance"
KNOWN: Final = json.loads((CONFORMANCE / "calls.json").read_text(encoding="utf-8"))
POOL: Final = {case["case"]: case for case in KNOWN["cases"]}
SCORES: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = KNOWN["scores"]


def call(name: str, /, *, result: str | None = "ok", error: str | None = None, **arguments: Any) -> MadeCall:
    return MadeCall(name, arguments, result, error, 0, 1)


def row_of(*calls: MadeCall, together: bool = False, turn: int = 1, **fields: Any) -> Row:
    """Return a row whose calls are made in messages of their own, or all in one."""
    placed = [made._replace(message=1 if together else 1 + 2 * place, turn=turn) for place, made in enumerate(calls)]
    return Row("case", "model", tool_calls=placed, **fields)


def expect(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def pool_row(case: str, *, together: bool = False) -> Row:
    """Return a case that others were given, too."""
    known = POOL[case]
    calls = [call(one["name"], **one["arguments"]) for one in known["called"]]
    return row_of(*calls, together=together, expected_tool_calls=known["expected"])


def score(evaluator: str | type[Evaluator], row: Row, **params: Any) -> RowScore:
    kind = get(evaluator) if isinstance(evaluator, str) else evaluator
    return kind(kind.parameters.build(kind.spec.id, params)).score([row], EvalContext())[0]


def values(evaluator: str | type[Evaluator], row: Row, **params: Any) -> Mapping[str, Any]:
    return score(evaluator, row, **params).values


def too_many() -> Row:
    """Return a row of parallel calls that cannot be put in order in good time."""
    calls = [*[call("b")] * 150, *[call("a")] * 150]
    row = row_of(*calls, expected_tool_calls=[expect("a")] * 150 + [expect("b")] * 150)
    return replace(row, tool_calls=[one._replace(message=place // 150) for place, one in enumerate(calls)])
