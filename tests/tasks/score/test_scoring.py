"""Rows are scored one way: in the order of the asks, judges all at once, and what one fails at costs no other."""

from __future__ import annotations

import threading
from typing import ClassVar

from leadline.evaluators.core import EvalContext, Metric, RowEvaluator, Spec
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore
from leadline.tasks.score.scoring import Ask, score_together
from leadline.tasks.store.segments import calls_of


def _spec(id_: str, lane: str) -> Spec:
    metrics = (Metric("m", "M", higher_is_better=True, primary=True),)
    inputs = (RowField.ACTUAL_ANSWER,)
    return Spec(id=f"test.{id_}", name=id_, family="generation", inputs=inputs, metrics=metrics, lane=lane)  # type: ignore[arg-type]


class Patient(RowEvaluator):
    """Gives its trial, once two of its kind are at work."""

    spec = _spec("patient", "judge")
    both: ClassVar[threading.Barrier]

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        self.both.wait(20)
        return RowScore({"m": float(ctx.trial)}, Evidence(data={"calls": [f"{row.case} {ctx.cache_salt}"]}))


class Picky(RowEvaluator):
    """Breaks on one case."""

    spec = _spec("picky", "cpu")

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        if row.case == "b":
            raise ValueError("no")
        return RowScore({"m": 5.0})


def test_asks_are_answered_in_their_order_and_those_of_judges_at_the_same_time() -> None:
    Patient.both = threading.Barrier(2)
    row = Row("a", "bot", actual_answer="Yes.")
    asks = [Ask(Patient(), [row], 1), Ask(Picky(), [row]), Ask(Patient(), [row], 2)]
    found = score_together(asks, EvalContext(cache_salt="check/1"))
    assert [scored.scores[0].values["m"] for scored in found] == [1.0, 5.0, 2.0]
    assert calls_of(found[0].scores[0].evidence) == ("a check/1",)
    assert calls_of(found[1].scores[0].evidence) == ()


def test_a_row_at_which_an_evaluator_breaks_costs_no_other_and_no_rows_are_no_fault() -> None:
    rows = [Row(case, "bot", actual_answer="Yes.") for case in "abc"]
    [scored, none] = score_together([Ask(Picky(), rows), Ask(Picky(), [])], EvalContext())
    assert [score.complete for score in scored.scores] == [True, False, True]
    assert [failure.reason for failure in scored.scores[1].failures] == [Reason.EVALUATOR_ERROR]
    assert none.scores == []
    assert score_together([], EvalContext()) == []
