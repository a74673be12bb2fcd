"""What holds for every registered evaluator: complete metadata, the published contract, scores that survive anything.

Whoever adds an evaluator need not write these tests again: it is found here by its registration.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from leadline import testing
from leadline.evaluators.core import EvalContext, Evaluator, all_evaluators, describe
from leadline.evaluators.data import ContextChunk
from leadline.evaluators.settings import Settings
from tests.support.judges.agreeable_judge import AgreeableJudge, tools_with
from tests.support.models.tiny_checkpoints import TINY

CONTRACT = {
    entry["id"]: entry for entry in json.loads((Path(__file__).parent / "contract.json").read_text(encoding="utf-8"))
}
"""The public description of each evaluator of the references; what is registered must match it."""

SLOW_LANES = {"gpu"}
EVERY = [pytest.param(each, id=name) for name, each in all_evaluators().items()]
RUN = [
    pytest.param(each, id=name, marks=[pytest.mark.slow] if each.spec.lane in SLOW_LANES else [])
    for name, each in all_evaluators().items()
]
"""Each evaluator with what it needs to run: those that ask a judge get one that always gives a proper reply."""
BY_BASE = {}
for each in RUN:
    BY_BASE.setdefault((each.values[0].__mro__[1], each.values[0].spec.lane), each)
ONE_OF_A_KIND = list(BY_BASE.values())
"""One evaluator of each base class and lane: how large inputs are walked through is the base's business."""
PLAIN_OR_ONE = [each for each in RUN if not each.marks or each in ONE_OF_A_KIND]
"""All that run no model, and one of each kind that does: how texts become a model's tokens is the base's business."""


@cache
def ctx(judge: str | None = None) -> EvalContext:
    return fresh_tools(judge)


def fresh_tools(judge: str | None) -> EvalContext:
    if judge:
        return tools_with(AgreeableJudge())
    return EvalContext(Settings(embedder="offline", splitter="rules", device="cpu"))


@pytest.fixture(scope="session")
def built(tiny: Callable[[str], Path]) -> Callable[[type[Evaluator]], Evaluator]:
    """Return an evaluator as users get it; one that runs a model gets a tiny one."""

    def build(kind: type[Evaluator]) -> Evaluator:
        values = {parameter: str(tiny(name)) for parameter, name in TINY.get(kind.spec.id, {}).items()}
        return kind(kind.parameters.build(kind.spec.id, values))

    return build


def test_every_evaluator_of_the_references_is_registered():
    assert set(CONTRACT) <= set(all_evaluators())


@pytest.mark.parametrize("evaluator", [each for each in EVERY if each.id in CONTRACT])
def test_description_equals_the_contract(evaluator):
    ours = describe(evaluator)
    contract = CONTRACT[evaluator.spec.id]
    metrics = [{key: metric[key] for key in contract["metrics"][0]} for metric in ours["metrics"]]
    assert metrics == contract["metrics"]
    assert set(contract.get("parameters", ())) <= set(ours["parameters"])
    for fact in contract.keys() - {"metrics", "parameters"}:
        assert ours[fact] == contract[fact], fact


@pytest.mark.parametrize("evaluator", EVERY)
def test_metadata_is_complete_and_metrics_and_parameters_are_well_defined(evaluator):
    spec = evaluator.spec
    testing.check_metadata(evaluator)
    testing.check_metrics(evaluator)
    testing.check_parameters(evaluator)
    assert evaluator.__module__.split(".")[1:3] == ["evaluators", spec.family]
    assert spec.origin != "custom"
    assert spec.source, "say where the method is published"
    assert len(evaluator.__doc__ or "") > 300, "the docstring states the method and its edge cases"


@pytest.mark.parametrize("evaluator", EVERY)
def test_thresholds_change_no_score_key(evaluator):
    params = evaluator.parameters(metric_threshold=0.123, save_llm_result=False, min_test_cases=7)
    assert params.identity() == evaluator.parameters().identity()


@pytest.mark.parametrize("evaluator", RUN)
def test_rows_are_scored_be_they_plain_of_required_fields_only_or_none(evaluator, built):
    instance, tools = built(evaluator), ctx(evaluator.spec.judge)
    testing.check_plain_row(instance, tools)
    testing.check_required_inputs(instance, tools)
    testing.check_no_rows(instance, tools)


@pytest.mark.parametrize("evaluator", PLAIN_OR_ONE)
def test_absurd_texts_are_survived(evaluator, built):
    longest = 1_500 if evaluator.spec.lane in SLOW_LANES else None
    testing.check_absurd_texts(built(evaluator), ctx(evaluator.spec.judge), longest)


@pytest.mark.parametrize("evaluator", ONE_OF_A_KIND)
def test_a_megabyte_is_survived(evaluator, built):
    size = 30_000 if evaluator.spec.lane in SLOW_LANES else 1_000_000
    testing.check_large_texts(built(evaluator), ctx(evaluator.spec.judge), size)


@pytest.mark.parametrize("evaluator", ONE_OF_A_KIND)
def test_thousands_of_chunks_and_expected_answers_are_survived(evaluator, built):
    instance = built(evaluator)
    rows = [
        replace(testing.PLAIN, retrieved_context=(ContextChunk("The pump starts at seven."), ContextChunk("")) * 2000),
        replace(testing.PLAIN, expected_answers=("At seven.", "At nine.") * 1000),
    ]
    testing.check_scores(instance, rows, instance.score(rows, ctx(evaluator.spec.judge)))


@pytest.mark.parametrize("evaluator", RUN)
def test_scores_depend_on_the_row_alone(evaluator, built):
    judge = evaluator.spec.judge
    testing.check_declared_inputs(built(evaluator), ctx(judge))
    testing.check_determinism(lambda: built(evaluator), ctx(judge), fresh_tools(judge))


def test_the_registry_imports_nothing_heavy():
    code = (
        "import sys; from leadline.evaluators.core.registry import all_evaluators; all_evaluators();"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'nltk', 'sklearn', 'scipy', 'pandas', 'duckdb',"
        " 'prefect', 'litellm', 'rouge_score', 'click', 'rich', 'umap', 'numba'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
