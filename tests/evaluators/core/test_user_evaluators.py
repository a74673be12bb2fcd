"""Plain functions of a row as evaluators."""

from __future__ import annotations

import functools
import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.core import EvalContext, all_evaluators, get, registry
from leadline.evaluators.core.suites import suite, suites
from leadline.evaluators.core.user_evaluators import FunctionMetric, load_evaluator_file, metric
from leadline.evaluators.data import NotApplicable, Row, RowField, Unscored
from leadline.evaluators.ground import UsageError

ROW = Row("case", "model", question="Who?", actual_answer="Ada, please", metadata={"tone": "kind"})


def polite(row: Row) -> bool:
    """Say please.

    More about it.
    """
    return "please" in (row.actual_answer or "")


def scored(function: Any) -> Any:
    [score] = FunctionMetric(function).evaluator()().score([ROW], EvalContext())
    [value] = score.values.values()
    return value, score.evidence.message


@pytest.mark.parametrize(
    ("returned", "value"),
    [(True, 1.0), (False, 0.0), (3, 3.0), (-0.5, -0.5), (np.float32(0.5), 0.5), (np.int64(2), 2.0)],
)
def test_numbers_and_truths_are_scores(returned: Any, value: float) -> None:
    assert scored(lambda row: returned) == (value, "")


def test_a_sentence_says_why() -> None:
    assert scored(lambda row: (0.5, "half of it")) == (0.5, "half of it")


def test_nothing_means_that_it_does_not_apply() -> None:
    assert scored(lambda row: None)[0] == NotApplicable("")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda row: "good", "returned str, not a number"),
        (lambda row: math.nan, "returned NaN"),
        (lambda row: -math.inf, "returned infinity"),
        (lambda row: 1 / 0, "ZeroDivisionError"),
        (lambda row: row.case == "case", "cannot read row.case"),
        (lambda row: row.model == "model", "cannot read row.model"),
    ],
)
def test_what_is_no_score_leaves_the_row_unscored_with_the_reason(function: Any, message: str) -> None:
    value, _ = scored(function)
    assert isinstance(value, Unscored)
    assert message in value.message


def test_it_reads_every_field_so_that_its_key_covers_them() -> None:
    kind = FunctionMetric(polite).evaluator()
    assert set(kind.spec.reads) == set(RowField)
    assert kind.spec.required == (RowField.ACTUAL_ANSWER,)
    assert scored(lambda row: row.metadata["tone"] == "kind")[0] == 1.0


def test_a_function_that_returns_a_bool_is_a_share() -> None:
    [found] = FunctionMetric(polite).evaluator().spec.metrics
    assert (found.key, found.range, found.share, found.description) == ("polite", (0.0, 1.0), True, "Say please.")
    [other] = FunctionMetric(lambda row: 1.0, name="other").evaluator().spec.metrics
    assert (other.range, other.share, other.threshold) == ((-math.inf, math.inf), False, None)


def test_the_decorator_says_more_and_the_function_can_still_be_called() -> None:
    @metric(name="length", higher_is_better=False, low=0, high=100, threshold=20, inputs=["question", "actual_answer"])
    def characters(row: Row) -> int:
        return len(row.actual_answer or "")

    assert characters(ROW) == 11
    spec = characters.evaluator().spec
    assert spec.id == "length"
    assert spec.required == (RowField.QUESTION, RowField.ACTUAL_ANSWER)
    assert (spec.metrics[0].range, spec.metrics[0].threshold, spec.metrics[0].higher_is_better) == ((0, 100), 20, False)


def test_names_of_what_has_none() -> None:
    assert FunctionMetric(functools.partial(polite)).id == "polite"
    one, other = FunctionMetric(lambda row: 1.0), FunctionMetric(lambda row: 2.0)
    assert one.id.startswith("lambda_")
    assert one.id != other.id


async def waits(row: Row) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("function", "about", "message"),
    [
        (waits, {}, "coroutine function"),
        (lambda row, other: 1.0, {}, "cannot be called with a row: missing a required argument: 'other'"),
        (lambda: 1.0, {}, "cannot be called with a row"),
        (polite, {"name": "so polite"}, "cannot be the name"),
        (polite, {"inputs": ["answer"]}, "there is no field 'answer'"),
    ],
)
def test_what_makes_no_sense_is_refused(function: Any, about: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FunctionMetric(function, **about)


SHOUTING = """
import leadline

@leadline.register
class Shouting(leadline.RowEvaluator):
    '''Share of answers in capitals.'''

    spec = leadline.Spec.simple("shouting", inputs=["actual_answer"], higher_is_better=False)

    def score_row(self, row, ctx):
        return leadline.RowScore({"shouting": float(row.actual_answer.isupper())})
"""


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(all_evaluators()))


def write(folder: Path, text: str = SHOUTING, name: str = "shouting.py") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_file_of_nine_lines_makes_an_evaluator(tmp_path: Path) -> None:
    (kind,) = load_evaluator_file(write(tmp_path))
    assert get("shouting") is kind
    assert kind().score([Row("c", "m", actual_answer="HO")], EvalContext())[0].values == {"shouting": 1.0}
    assert (kind.spec.name, kind.spec.family, kind.spec.origin) == ("Shouting", "custom", "custom")
    assert kind.spec.inputs == (RowField.ACTUAL_ANSWER,)
    (metric,) = kind.spec.metrics
    assert (metric.name, metric.primary, metric.description) == ("Shouting", True, "Share of answers in capitals.")


def test_a_file_that_was_imported_as_a_module_may_be_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, name="imported_before.py")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("imported_before")
    (kind,) = load_evaluator_file(file)
    assert get("shouting") is kind


def test_its_module_is_nobody_elses(tmp_path: Path) -> None:
    (kind,) = load_evaluator_file(write(tmp_path, name="json.py"))
    import json

    assert json.loads("1") == 1
    assert kind.__module__.startswith("leadline_file_")


def test_it_lands_in_no_suite_of_another_system(tmp_path: Path) -> None:
    load_evaluator_file(write(tmp_path))
    assert "shouting" in suite("custom")
    assert [name for name in suites() if "shouting" in suite(name)] == ["default", "all", "no-judge", "rules", "custom"]


def test_a_copied_spec_does_not_bring_its_origin_along(tmp_path: Path) -> None:
    text = """
from dataclasses import replace
import leadline
from leadline.evaluators.summarization.bleu import Bleu

@leadline.register
class Mine(Bleu):
    spec = replace(Bleu.spec, id="mine")
"""
    load_evaluator_file(write(tmp_path, text))
    assert "mine" not in suite("h2o")
    assert get("bleu").spec.origin == "h2o"


def test_a_changed_file_is_another_evaluator(tmp_path: Path) -> None:
    file = write(tmp_path)
    (first,) = load_evaluator_file(file)
    assert load_evaluator_file(str(file)) == (first,)
    write(tmp_path, SHOUTING.replace("float(", "0.5 * float("))
    (second,) = load_evaluator_file(file)
    assert get("shouting") is second is not first
    identities = [kind().identity(EvalContext()) for kind in (first, second)]
    assert identities[0]["source"] != identities[1]["source"]
    write(tmp_path, SHOUTING.replace('"shouting"', '"screaming"'))
    load_evaluator_file(file)
    assert "shouting" not in all_evaluators()


def test_the_same_file_elsewhere_has_the_same_identity(tmp_path: Path) -> None:
    (here,) = load_evaluator_file(write(tmp_path / "a"))
    identity = here().identity(EvalContext())
    registry.unregister(here)
    (there,) = load_evaluator_file(write(tmp_path / "b"))
    assert there().identity(EvalContext()) == identity


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "registers no evaluator.*@leadline.register"),
        ("1 / 0", "line 1: ZeroDivisionError"),
        ("x = 1\nif", "line 2: SyntaxError"),
        ("import no_such_module", "line 1: ModuleNotFoundError"),
        (SHOUTING.replace('"shouting"', '"bleu"'), "line 4: Two evaluators are called 'bleu'"),
        (SHOUTING.replace('actual_answer"]', 'answer"]'), "there is no field 'answer'. Fields: question"),
        (SHOUTING + "\nraise ValueError(1)", "ValueError: 1"),
        (SHOUTING + "\nimport sys\nsys.exit(0)", "SystemExit: 0"),
        ("raise SystemExit", "SystemExit"),
        ("class Odd(BaseException): ...\nraise Odd('x')", "line 2: Odd: x"),
    ],
)
def test_a_broken_file_is_refused_in_one_line_and_registers_nothing(tmp_path: Path, text: str, message: str) -> None:
    before = set(all_evaluators())
    with pytest.raises(UsageError, match=message) as caught:
        load_evaluator_file(write(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert set(all_evaluators()) == before


def test_ctrl_c_while_a_file_is_run_is_the_users_own(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_evaluator_file(write(tmp_path, "raise KeyboardInterrupt"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere.py cannot be read: No such file"):
        load_evaluator_file(tmp_path / "nowhere.py")
