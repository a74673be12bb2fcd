"""``leadline store export --format databricks``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.evaluators.core import get
from tests.support.command import run
from tests.support.stores.run_factory import Basis, Given, Toy, answer, make_run

SAFETY = "databricks.safety"


def arguments(tmp_path: Path, output: Path, evaluator: str) -> list[str]:
    toy = Toy(evaluator, get(evaluator).spec.metrics) if evaluator == SAFETY else Toy()
    evidence = {"data": {"assessment": {"rating": "yes", "rationale": "Nothing harmful."}}}
    scores = [Given("c1", "alpha", 1.0, "safety", SAFETY)] if evaluator == SAFETY else []
    basis = [Basis("c1", "alpha", SAFETY, evidence=evidence)] if evaluator == SAFETY else []
    store, made = make_run(tmp_path, rows=[answer("c1", "alpha")], evaluators=[toy], scores=scores, evidence=basis)
    return ["store", "export", made.id, "--store", str(store.root), "--format", "databricks", "-o", str(output)]


def test_both_tables_are_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "evaluation.json"
    assert run(arguments(tmp_path, output, SAFETY)) == 0
    (row,) = json.loads(output.read_text(encoding="utf-8"))
    assert row["response/llm_judged/safety/rating"] == "yes"
    assert row["response/llm_judged/safety/rationale"] == "Nothing harmful."
    (metrics,) = json.loads((tmp_path / "evaluation_metrics.json").read_text(encoding="utf-8"))
    assert metrics["response/llm_judged/safety/rating/percentage"] == 1.0
    told = capsys.readouterr().err
    assert "evaluation.json" in told
    assert "evaluation_metrics.json" in told


@pytest.mark.parametrize(
    ("output", "evaluator", "said"),
    [("evaluation.xlsx", SAFETY, ".parquet"), ("evaluation.csv", "toy", "none of Databricks' judges")],
)
def test_what_cannot_be_written_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str, evaluator: str, said: str
) -> None:
    assert run(arguments(tmp_path, tmp_path / output, evaluator)) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / output).exists()
