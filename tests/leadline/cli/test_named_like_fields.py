"""Metrics that are named like fields of a row are written beside them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from leadline.cli.main import run


@pytest.mark.slow
def test_metrics_named_like_a_field_of_the_row_have_a_column_of_their_own(tmp_path: Path) -> None:
    rows = [
        {
            "case": f"c{n}",
            "model": "m",
            "question": "q",
            "actual_answer": "a",
            "output_tokens": n,
            "input_tokens": 2 * n,
        }
        for n in range(1, 4)
    ]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    chosen = ["-e", "tokens", "--set", "results=sonar", "--server", "none"]
    assert run(["--store", str(tmp_path / "s"), "evaluate", str(tmp_path / "d.jsonl"), *chosen]) == 0
    (found,) = tmp_path.glob("s/runs/*/results/tokens_*/global_llm_eval_results/text_csv/*.csv")
    with found.open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert [float(line["output_tokens"]) for line in written] == [1, 2, 3]
    assert [float(line["input_tokens"]) for line in written] == [2, 4, 6]
