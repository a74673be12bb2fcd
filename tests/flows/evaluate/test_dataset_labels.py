"""Runs of a dataset that brings people's labels: no score is computed anew, and they stand beside the scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.tasks.db import open_run
from leadline.tasks.store.store import Store
from tests.support.stores.run_factory import table

ROWS = 80


def _evaluate(folder: Path, labelled: int, *, name: str = "exact_match.exact_match") -> EvaluateResult:
    """Evaluate answers of which every fourth is wrong, and people say so."""
    rows: list[dict[str, Any]] = [
        {"question": f"q{n}", "answer": f"no {n}" if n % 4 == 0 else f"yes {n}", "expected_answer": f"yes {n}"}
        for n in range(ROWS)
    ]
    for number, row in enumerate(rows[:labelled]):
        row["labels"] = {name: "fail" if number % 4 == 0 else "pass"}
    file = folder / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    config = EvaluateConfig(dataset=str(file), evaluators=["exact_match"], store=str(folder / "store"))
    return Evaluate()(config)


def _tables(folder: Path, result: EvaluateResult) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    store = Store.open(str(folder / "store"))
    with open_run(store, store.run(result.run), read_only=True) as connection:
        return table(connection, "corrections"), table(connection, "certificates")


def test_labels_cost_no_score_anew_and_certify_only_where_all_rows_have_them(tmp_path: Path) -> None:
    plain, part, whole = (_evaluate(tmp_path, labelled) for labelled in (0, ROWS - 10, ROWS))
    assert plain.computed == ROWS
    assert [(each.computed, each.reused) for each in (part, whole)] == [(0, ROWS)] * 2
    assert _tables(tmp_path, plain) == ([], [])
    [[correction], [certificate]] = _tables(tmp_path, part)
    assert (correction["value"], correction["n_labels"], certificate["state"]) == (None, ROWS - 10, "not drawn")
    [[correction], [certificate]] = _tables(tmp_path, whole)
    assert (correction["value"], correction["judge"], correction["n_labels"]) == (0.75, 0.75, ROWS)
    assert (certificate["state"], certificate["kappa"]) == ("valid", 1.0)


def test_labels_of_a_name_that_nothing_has_are_a_warning_of_the_run(tmp_path: Path) -> None:
    result = _evaluate(tmp_path, 3, name="exact_mach")
    record = Store.open(str(tmp_path / "store")).run(result.run).read()
    assert any("labels of 'exact_mach' are left out" in warning for warning in record["dataset_warnings"])
    assert _tables(tmp_path, result) == ([], [])
