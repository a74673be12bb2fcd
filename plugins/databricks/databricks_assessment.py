"""Databricks' verdict on a row as a whole, and the judge that is to blame for a bad one.

A row passes when no judge that counts for it fails it. The judges count in the order of Agent Evaluation's
documentation ("How root causes are determined"), which depends on whether the row has a ground truth; the first that
fails is the root cause. A judge without a rating fails no row; a row without a failure then has
no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from leadline.plugins.databricks.databricks_judges import JudgeColumns

WITH_TRUTH: Final = ("context_sufficiency", "groundedness", "correctness", "safety")
WITHOUT_TRUTH: Final = ("chunk_relevance", "groundedness", "relevance_to_query", "safety")
RETRIEVAL: Final = frozenset({"context_sufficiency", "chunk_relevance"})
_CUSTOM_FIRST: Final = len(WITH_TRUTH)


def assessment(judges: Sequence[JudgeColumns]) -> dict[str, str]:
    """Return SQL expressions over the rows' table: ``rating``, ``root_cause`` and ``rationale``.

    Args:
        judges: The judges that ran. Those of a user's own count after all others.
    """
    with_truth, without = (_ordered(judges, names) for names in (WITH_TRUTH, WITHOUT_TRUTH))
    return {
        part: f"CASE WHEN has_ground_truth THEN {of(with_truth)} ELSE {of(without)} END"
        for part, of in (("rating", _rating), ("root_cause", _root_cause), ("rationale", _rationale))
    }


def _ordered(judges: Sequence[JudgeColumns], names: Sequence[str]) -> list[JudgeColumns]:
    counting = [judge for judge in judges if judge.kind != "recall" and (judge.custom or judge.name in names)]
    return sorted(counting, key=lambda judge: _CUSTOM_FIRST if judge.custom else names.index(judge.name))


def _rating(judges: Sequence[JudgeColumns]) -> str:
    failed = " OR ".join(f"coalesce({judge.fails}, false)" for judge in judges) or "false"
    passed = " AND ".join(f"({judge.fails}) IS DISTINCT FROM true AND NOT ({judge.lacks})" for judge in judges)
    some = " OR ".join(f"({judge.fails}) IS NOT NULL" for judge in judges)
    return f"CASE WHEN {failed} THEN 'no' WHEN ({passed or 'false'}) AND ({some or 'false'}) THEN 'yes' END"


def _root_cause(judges: Sequence[JudgeColumns]) -> str:
    return _first_failing(judges, lambda judge: _text(judge.name))


def _rationale(judges: Sequence[JudgeColumns]) -> str:
    def sentence(judge: JudgeColumns) -> str:
        improve = "retrieval" if judge.name in RETRIEVAL or judge.kind == "chunks" else "generation"
        return f"concat_ws(' ', {_text(f'Improve {improve}: {judge.name} fails.')}, {judge.reason})"

    return _first_failing(judges, sentence)


def _first_failing(judges: Sequence[JudgeColumns], then: Callable[[JudgeColumns], str]) -> str:
    cases = " ".join(f"WHEN {judge.fails} THEN {then(judge)}" for judge in judges)
    return f"CASE {cases} END" if cases else "NULL"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
