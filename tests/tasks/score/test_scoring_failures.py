"""What becomes of rows when an evaluator fails, or says what it must not say."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.core import EvalContext, Evaluator, Metric, Spec
from leadline.evaluators.data import Evidence, Flag, Reason, Row, RowField, RowScore, Severity, Span, Unscored
from leadline.evaluators.ground import ModelUnavailable
from leadline.tasks.score.scoring import GIVE_UP_AFTER, log, score_rows
from leadline.tasks.store.segments import StoredScore


class Scripted(Evaluator):
    """Does with a row what the test says; a batch fails when one of its rows does."""

    spec = Spec(
        id="test.scripted",
        name="Scripted",
        family="generation",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(Metric("m", "M", higher_is_better=True, range=(0, 1e9), primary=True),),
    )

    def __init__(self, score_row: Callable[[Row], Any]) -> None:
        super().__init__()
        self.score_row = score_row
        self.asked: list[list[str]] = []

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        self.asked.append([row.case for row in rows])
        return [self.score_row(row) for row in rows]


def rows(*cases: str) -> list[Row]:
    return [Row(case, "m", actual_answer=case) for case in cases]


def reason(score: StoredScore) -> Reason | None:
    value = score.values["m"]
    return value.reason if isinstance(value, Unscored) else None


def message(score: StoredScore) -> str:
    value = score.values["m"]
    assert isinstance(value, Unscored)
    return value.message


BAD_RESULTS: list[Any] = [
    RowScore({"m": np.float32("nan")}),
    RowScore({"m": np.float64("inf")}),
    RowScore({"m": None}),  # type: ignore[dict-item]
    RowScore({"m": "abc"}),  # type: ignore[dict-item]
    RowScore({"m": Decimal(1)}),  # type: ignore[dict-item]
    RowScore({"m": np.array([1.0])}),  # type: ignore[dict-item]
    RowScore({"m": 10**400}),
    RowScore({"m": Unscored("no reason of ours")}),  # type: ignore[arg-type]
    RowScore({"m": Unscored(Reason.TIMEOUT, None)}),  # type: ignore[arg-type]
    RowScore({"m": 1.0, "n": 1.0}),
    RowScore({"m": 1.0}, Evidence(data={"set": {1, 2}})),  # type: ignore[dict-item]
    RowScore({"m": 1.0}, Evidence(spans=(Span("nowhere", 0, 1),))),  # type: ignore[arg-type]
    RowScore({"m": 1.0}, flags=(Flag("evaluation", "awful", "x"),)),  # type: ignore[arg-type]
    RowScore({"m": 1.0}, payload=object()),  # type: ignore[arg-type]
    None,
]


@pytest.mark.parametrize("bad", BAD_RESULTS, ids=range(len(BAD_RESULTS)))
def test_a_result_that_breaks_the_contract_costs_its_row_and_no_other(bad: Any) -> None:
    evaluator = Scripted(lambda row: bad if row.case == "bad" else RowScore({"m": 1.0}))
    scores = score_rows(evaluator, rows("a", "bad", "b"), EvalContext())
    assert [reason(score) for score in scores] == [None, Reason.EVALUATOR_ERROR, None]
    assert evaluator.asked == [["a", "bad", "b"]], "asked again it would say the same"


def test_an_evaluator_that_breaks_the_contract_on_every_row_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        score_rows(Scripted(lambda row: RowScore({"m": float("nan")})), rows(*"abcdef"), EvalContext())
    assert [record.getMessage() for record in caplog.records] == [
        "test.scripted broke its contract on 6 rows: test.scripted returned nan for m"
    ]


def test_after_some_failures_in_a_row_the_others_are_not_tried_and_say_so() -> None:
    def fail(row: Row) -> RowScore:
        raise ValueError(f"cannot stand {row.case}")

    scores = score_rows(Scripted(fail), rows(*"abcdefgh"), EvalContext())
    assert {reason(score) for score in scores} == {Reason.EVALUATOR_ERROR}
    tried, others = scores[:GIVE_UP_AFTER], scores[GIVE_UP_AFTER:]
    assert [message(score) for score in tried] == [f"ValueError: cannot stand {case}" for case in "abcde"]
    assert {message(score) for score in others} == {
        "Not tried: 5 rows before it failed one after the other, the last with this: ValueError: cannot stand e"
    }


def test_failures_among_rows_that_work_cost_only_themselves() -> None:
    def fail_every_second(row: Row) -> RowScore:
        if int(row.case) % 2:
            raise ValueError("odd")
        return RowScore({"m": 1.0})

    scores = score_rows(Scripted(fail_every_second), rows(*map(str, range(20))), EvalContext())
    assert [reason(score) for score in scores] == [None, Reason.EVALUATOR_ERROR] * 10


def test_a_model_that_is_missing_is_that_also_when_rows_are_tried_alone() -> None:
    def fail(row: Row) -> RowScore:
        if row.case == "a":
            raise ValueError("the batch fails by this")
        raise ModelUnavailable("No weights.", hint="Fetch them with: leadline evaluators models pull x")

    scores = score_rows(Scripted(fail), rows(*"abcdefgh"), EvalContext())
    assert [reason(score) for score in scores] == [Reason.EVALUATOR_ERROR] + [Reason.MODEL_UNAVAILABLE] * 7
    assert message(scores[1]) == "No weights. Fetch them with: leadline evaluators models pull x"
    assert message(scores[-1]).startswith("Not tried: ")


def test_a_failure_whose_text_no_file_can_hold_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "disabled", True)  # pytest's report of what was logged is such a file

    def fail(row: Row) -> RowScore:
        raise ValueError("half a \ud83d smile")

    (score,) = score_rows(Scripted(fail), rows("a"), EvalContext())
    assert message(score) == "ValueError: half a ? smile"


def test_evidence_is_kept_as_it_was() -> None:
    said = RowScore({"m": 1.0}, Evidence("seen"), (Flag("evaluation", Severity.LOW, "odd"),), {"n": 1})
    (score,) = score_rows(Scripted(lambda row: said), rows("a"), EvalContext())
    assert (score.evidence, score.payload) == ('{"message":"seen"}', '{"n":1}')
