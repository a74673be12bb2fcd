"""Checks of a form run by default only where answers, expected answers or metadata have that form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.settings import Settings
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.selection import applicable_to, choose
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import as_jsonl, write

CHECKS = {
    "json_valid", "json_schema", "json_fields", "exact_match", "number_match", "regex", "format", "sql_equivalence",
    "citations", "quoted_spans", "code_execution", "contains", "levenshtein",
}  # fmt: skip
LONG = "Goods go back within the time that the terms of sale name, and not later than that"


def records(**fields: Any) -> list[dict[str, Any]]:
    return [
        {"question": f"What about {n}?"} | {name: text.format(n=n) if isinstance(text, str) else text
                                            for name, text in fields.items()}
        for n in range(8)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "runs"),
    [
        pytest.param({"expected_answer": LONG + " {n}.", "actual_answer": LONG + "."}, set(), id="prose"),
        pytest.param({"actual_answer": '{{"a": {n}}}'}, {"json_valid"}, id="json"),
        pytest.param({"actual_answer": '```json\n{{"a": {n}}}\n```'}, {"json_valid"}, id="fenced json"),
        pytest.param(
            {"expected_answer": '{{"a": {n}}}', "actual_answer": "I cannot say that."},
            {"json_valid", "json_fields"},
            id="json expected",
        ),
        pytest.param(
            {"expected_answer": "{n} days", "actual_answer": LONG + " in {n} days."}, {"number_match"}, id="numbers"
        ),
        pytest.param({"expected_answer": "Berth {n} north", "actual_answer": "berth {n}"}, {"exact_match"}, id="short"),
        pytest.param(
            {"expected_answer": "SELECT a FROM t WHERE n = {n}", "actual_answer": "SELECT a FROM t"},
            {"sql_equivalence"},
            id="sql",
        ),
        pytest.param({"actual_answer": LONG, "json_schema": {"type": "object"}}, {"json_schema"}, id="schema"),
        pytest.param({"actual_answer": LONG, "regex": "^Goods"}, {"regex"}, id="pattern"),
        pytest.param({"actual_answer": LONG, "format": {"words": "-9"}}, {"format"}, id="conditions"),
        pytest.param({"actual_answer": LONG + " [1].", "retrieved_context": [LONG]}, {"citations"}, id="cited"),
        pytest.param(
            {"actual_answer": LONG + "\n```\na[1]\n```\n`b[2]`", "retrieved_context": [LONG]}, set(), id="indexes"
        ),
        pytest.param(
            {"actual_answer": 'It says "goods go back within the time".', "retrieved_context": [LONG]},
            {"quoted_spans"},
            id="quoting",
        ),
    ],
)
def test_a_check_runs_by_default_where_the_data_has_its_form(
    tmp_path: Path, fields: dict[str, Any], runs: set[str]
) -> None:
    file = write(tmp_path, "d.jsonl", as_jsonl(records(**fields)))
    loaded = load_dataset(Store.open(tmp_path / "store"), file)
    choice = applicable_to(choose(None, (), {}, Settings(embedder="offline")), loaded.path)
    assert {evaluator.spec.id for evaluator in choice.evaluators} & CHECKS == runs
