"""An evaluator: one small class, scored row by row, with a key that covers all that its scores depend on."""

import json
import logging

import numpy as np
import pytest

from leadline.evaluators.core import EvalContext, JudgeKey, Metric, Params, RowEvaluator, Spec, describe
from leadline.evaluators.data import Reason, Row, RowField, RowScore, Unscored
from leadline.evaluators.ground import LeadlineError, ModelRef
from leadline.evaluators.settings import Settings

TOOLS = EvalContext(Settings(splitter="rules"))


class ShoutingParams(Params):
    weight: float = 1.0


class Shouting(RowEvaluator):
    """Share of capital letters."""

    spec = Spec(
        id="shouting",
        name="Shouting",
        family="generation",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.QUESTION}),
        also_reads=(RowField.CONDITION,),
        metrics=(
            Metric("shouting", "Shouting", higher_is_better=False, primary=True),
            Metric("overall", "Overall", higher_is_better=False, dataset_level=True),
        ),
    )
    parameters = ShoutingParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        if row.actual_answer == "slow":
            raise TimeoutError("took too long")
        letters = [character for character in row.actual_answer or "" if character.isalpha()]
        return RowScore({"shouting": sum(map(str.isupper, letters)) / len(letters)})


def test_rows_are_scored_in_order_and_one_failure_stays_alone(caplog):
    rows = [Row(str(number), "m", actual_answer=text) for number, text in enumerate(["ABcd", "", "slow", "abcD"])]
    with caplog.at_level(logging.ERROR, "leadline.evaluators"):
        scores = Shouting().score(rows, TOOLS)
    assert [score.values["shouting"] for score in (scores[0], scores[3])] == [0.5, 0.25]
    assert scores[1].values == {"shouting": Unscored(Reason.EVALUATOR_ERROR, "ZeroDivisionError: division by zero")}
    assert scores[2].values["shouting"] == Unscored(Reason.TIMEOUT, "took too long")
    assert "shouting failed on case '1' of model 'm' (test_base.py, line " in caplog.text
    assert caplog.text.endswith("): ZeroDivisionError: division by zero\n")  # a line for a row, without a traceback


def test_errors_of_evaluators_cannot_drive_a_terminal(caplog):
    class Angry(Shouting):
        def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
            raise ValueError("no\n\x1b[31mred")

    Angry().score([Row("1", "m", actual_answer="A")], TOOLS)
    assert r"ValueError: no \x1b[31mred" in caplog.text
    assert "\x1b" not in caplog.text


def test_required_and_read_fields_follow_the_spec():
    evaluator = Shouting()
    assert evaluator.required == (RowField.ACTUAL_ANSWER,)
    assert evaluator.reads == (RowField.QUESTION, RowField.ACTUAL_ANSWER, RowField.CONDITION)
    assert evaluator.row_metrics == ("shouting",)


def test_identity_covers_version_parameters_sentences_and_models(monkeypatch):
    plain = Shouting().identity(TOOLS)
    assert plain == {"evaluator": "shouting", "version": "1", "params": {"weight": 1.0}}
    assert Shouting(ShoutingParams(weight=2)).identity(TOOLS)["params"] == {"weight": 2.0}

    class Splitting(Shouting):
        spec = Spec(**{name: getattr(Shouting.spec, name) for name in Spec.__slots__} | {"sentences": True})

        def models(self, ctx):
            return (ModelRef("embedder", "some/model", "abc"),)

    monkeypatch.setattr(EvalContext, "model_identity", lambda self, ref: str(ref))
    assert Splitting().identity(TOOLS) == plain | {"sentences": TOOLS.splitter.identity, "models": ["some/model@abc"]}


def test_a_dataset_level_metric_without_aggregation_is_an_error():
    with pytest.raises(LeadlineError, match="shouting"):
        Shouting().aggregate([None], np.ones((1, 1)))


def test_the_description_is_json_with_parameters_and_metrics():
    out = json.loads(json.dumps(describe(Shouting)))
    assert out["inputs"] == ["question", "actual_answer"]
    assert out["required"] == ["actual_answer"]
    assert out["parameters"] == ["metric_threshold", "min_test_cases", "save_llm_result", "weight"]
    assert [metric["key"] for metric in out["metrics"]] == ["shouting", "overall"]
    assert {detail["name"]: detail["affects_value"] for detail in out["parameter_details"]}["weight"] is True
    assert out["description"] == "Share of capital letters."


def test_a_parameter_is_described_by_what_it_changes():
    class Asking(Shouting):
        parameters = JudgeKey

        def judge_key(self) -> str:
            return ""

    class Deaf(Shouting):
        parameters = JudgeKey

    def effects(evaluator):
        return {detail["name"]: detail["effect"] for detail in describe(evaluator)["parameter_details"]}

    assert effects(Asking)["custom_eval_judge_config_key"].startswith("Another judge gives other scores")
    assert effects(Deaf)["custom_eval_judge_config_key"] == "Has no effect here"
    assert "so the gate" in effects(Deaf)["metric_threshold"]
