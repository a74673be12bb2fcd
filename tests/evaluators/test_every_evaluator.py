"""What holds for every registered evaluator: complete metadata, the published contract, scores that survive anything.

Whoever adds an evaluator need not write these tests again: it is found here by its registration.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from leadline.evaluators.core.base import Evaluator, describe
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.metric import Metric
from leadline.evaluators.core.registry import all_evaluators
from leadline.evaluators.core.row import ContextChunk, NotApplicable, Row, RowField, RowScore, Source, Unscored
from leadline.evaluators.core.settings import Settings
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

PLAIN = Row(
    case="case",
    model="model",
    question="When does the pump start?",
    expected_answers=("The pump starts at seven.", "At seven."),
    retrieved_context=(
        ContextChunk("The pump starts at seven. It stops at nine.", "manual.pdf"),
        ContextChunk("Pumps are loud."),
    ),
    actual_answer="It starts at seven, and it stops at nine. Call 555-0199.",
    condition='"seven" AND NOT "ten"',
    categories=("pumps",),
    expected_documents=("manual.pdf", "guide.pdf"),
    expected_annotations=(
        {"labels": [{"key": "class", "value": "engine room"}]},
        {"labels": [{"key": "class", "value": "pump"}], "box": [10, 20, 60, 80]},
        {"labels": [{"key": "class", "value": "floor"}], "raster": {"size": [4, 5], "counts": [6, 8, 6]}},
    ),
    predicted_annotations=(
        {"labels": [{"key": "class", "value": "engine room", "score": 0.9}]},
        {"labels": [{"key": "class", "value": "pump", "score": 0.7}], "box": [12, 20, 60, 84]},
        {"labels": [{"key": "class", "value": "floor", "score": 1.0}], "raster": {"size": [4, 5], "counts": [8, 8, 4]}},
    ),
)

ABSURD = {
    "nothing": "",
    "white space": " \n\t\u00a0\u2028 ",
    "one letter": "a",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x85 seven",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈 7️⃣ seven 🙂" * 3,
    "right to left": "\u202eمرحبا بالعالم. كيف حالك؟\u202c שלום",
    "combining": "Z\u0351\u0321a\u0300\u0301\u0302\u0303lgo. " * 5,
    "lone surrogates": "\ud800 seven. \udfff\ud83d",
    "markup": "<script>alert('seven')</script> {{ 7*7 }} ${jndi:ldap://x} %s %n \\u0000 '; DROP TABLE rows; --",
    "quotes": "\"\"''``“”«»" * 20,
    "brackets": "(((([[[[{{{{" * 50,
    "full stops": "." * 2000,
    "base64": "c2V2ZW4=" * 100,
    "one word": "seven" * 2000,
    "a loop": "The pump starts at seven. " * 400,
}
TEXT_FIELDS = ("question", "expected_answers", "retrieved_context", "actual_answer")


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


def with_text(field: str, text: str) -> Row:
    value = {"expected_answers": (text,), "retrieved_context": (ContextChunk(text),)}.get(field, text)
    return replace(PLAIN, case=f"{field} {hash(text)}", **{field: value})


def everywhere(text: str) -> Row:
    return replace(
        PLAIN,
        question=text,
        expected_answers=(text, text),
        retrieved_context=(ContextChunk(text),) * 2,
        actual_answer=text,
    )


def spans_text(row: Row, source: Source, index: int) -> str:
    if source is Source.EXPECTED_ANSWER:
        return row.expected_answers[index]
    if source is Source.RETRIEVED_CONTEXT:
        return row.retrieved_context[index].content
    return (row.question if source is Source.QUESTION else row.actual_answer) or ""


def in_range(value: float, metric: Metric) -> bool:
    low, high = metric.range
    return not math.isnan(value) and low <= value <= high


def assert_valid(evaluator: Evaluator, rows: list[Row], scores: list[RowScore]) -> None:
    """One valid result per row: exactly its metrics, in range, with evidence that points into the texts."""
    assert len(scores) == len(rows)
    metrics = {metric.key: metric for metric in evaluator.metrics}
    for row, score in zip(rows, scores, strict=True):
        assert set(score.values) == set(evaluator.row_metrics)
        for key, value in score.values.items():
            measured = not isinstance(value, Unscored | NotApplicable)
            assert not measured or in_range(value, metrics[key]), (row.case, key, value)
            if metrics[key].share and measured:
                assert value in (0.0, 1.0)
        for span in score.evidence.spans:
            assert 0 <= span.start <= span.end <= len(spans_text(row, span.source, span.index)), (row.case, span)
        flags = [flag.to_json() for flag in score.flags]
        json.dumps([score.evidence.to_json(), score.payload, flags], allow_nan=False)


def numbers(score: RowScore) -> dict[str, float | str]:
    return {
        key: value.reason if isinstance(value, Unscored) else "n/a" if isinstance(value, NotApplicable) else value
        for key, value in score.values.items()
    }


def assert_same(evaluator: Evaluator, first: list[RowScore], second: list[RowScore]) -> None:
    if evaluator.spec.lane == "gpu":  # a batch's padding moves the last digits of a float32
        for one, other in zip(first, second, strict=True):
            assert numbers(one) == {
                key: value if isinstance(value, str) else pytest.approx(value, abs=1e-4, rel=1e-5)
                for key, value in numbers(other).items()
            }
    else:
        assert first == second


def test_every_evaluator_of_the_references_is_registered():
    assert set(CONTRACT) <= set(all_evaluators())


@pytest.mark.parametrize("evaluator", EVERY)
def test_description_equals_the_contract(evaluator):
    ours = describe(evaluator)
    contract = CONTRACT.get(evaluator.spec.id)
    if contract is None:  # one that Leadline has beyond the references
        return
    metrics = [{key: metric[key] for key in contract["metrics"][0]} for metric in ours["metrics"]]
    assert metrics == contract["metrics"]
    assert set(contract.get("parameters", ())) <= set(ours["parameters"])
    for fact in contract.keys() - {"metrics", "parameters"}:
        assert ours[fact] == contract[fact], fact


@pytest.mark.parametrize("evaluator", EVERY)
def test_metadata_is_complete(evaluator):
    spec = evaluator.spec
    assert spec.id == spec.id.lower()
    assert spec.name
    assert spec.inputs
    assert spec.optional < set(spec.inputs)
    assert evaluator.__module__.split(".")[1:3] == ["evaluators", spec.family]
    assert spec.source, "say where the method is published"
    assert len(evaluator.__doc__ or "") > 300, "the docstring states the method and its edge cases"
    assert json.loads(json.dumps(describe(evaluator), allow_nan=False))["id"] == spec.id


@pytest.mark.parametrize("evaluator", EVERY)
def test_metrics_are_well_defined(evaluator):
    metrics = evaluator.spec.metrics
    assert metrics == evaluator().metrics
    assert len({metric.key for metric in metrics}) == len(metrics)
    assert sum(metric.primary for metric in metrics) == 1
    for metric in metrics:
        assert metric.name
        assert metric.description
        assert metric.range[0] < metric.range[1]
        assert metric.threshold is None or math.isinf(metric.threshold) or in_range(metric.threshold, metric)
        assert not metric.share or metric.range == (0.0, 1.0)


@pytest.mark.parametrize("evaluator", EVERY)
def test_parameters_are_described_and_have_defaults(evaluator):
    for parameter in describe(evaluator)["parameter_details"]:
        assert parameter["description"], parameter["name"]
    assert evaluator.parameters.build(evaluator.spec.id, {}) == evaluator().params


@pytest.mark.parametrize("evaluator", EVERY)
def test_thresholds_change_no_score_key(evaluator):
    params = evaluator.parameters(metric_threshold=0.123, save_llm_result=False, min_test_cases=7)
    assert params.identity() == evaluator.parameters().identity()


@pytest.mark.parametrize("evaluator", RUN)
def test_a_plain_row_is_scored(evaluator, built):
    instance = built(evaluator)
    scores = instance.score([PLAIN], ctx(evaluator.spec.judge))
    assert_valid(instance, [PLAIN], scores)
    assert scores[0].complete, scores[0].values


@pytest.mark.parametrize("evaluator", RUN)
def test_no_rows_give_no_results(evaluator, built):
    assert built(evaluator).score([], ctx(evaluator.spec.judge)) == []


@pytest.mark.parametrize("evaluator", RUN)
def test_absurd_texts_are_survived(evaluator, built):
    instance = built(evaluator)
    size = 1_500 if evaluator.spec.lane in SLOW_LANES else None
    texts = [text[:size] for text in ABSURD.values()]
    rows = [with_text(field, text) for field in TEXT_FIELDS for text in texts]
    rows += [everywhere(text) for text in texts]
    scores = instance.score(rows, ctx(evaluator.spec.judge))
    assert_valid(instance, rows, scores)
    broken = [score.values for score in scores for value in score.values.values() if _is_crash(value)]
    assert not broken


def _is_crash(value) -> bool:
    return isinstance(value, Unscored) and value.reason in ("evaluator_error", "timeout")


@pytest.mark.parametrize("evaluator", ONE_OF_A_KIND)
def test_a_megabyte_is_survived(evaluator, built):
    instance = built(evaluator)
    size = 30_000 if evaluator.spec.lane in SLOW_LANES else 1_000_000
    texts = ("a" * size, "seven. " * (size // 7), "x@y.z, 4111 1111 1111 1111; " * (size // 29))
    rows = [with_text("actual_answer", text) for text in texts]
    scores = instance.score(rows, ctx(evaluator.spec.judge))
    assert_valid(instance, rows, scores)
    assert all(score.complete for score in scores), [score.values for score in scores]


@pytest.mark.parametrize("evaluator", ONE_OF_A_KIND)
def test_thousands_of_chunks_and_expected_answers_are_survived(evaluator, built):
    instance = built(evaluator)
    rows = [
        replace(PLAIN, retrieved_context=(ContextChunk("The pump starts at seven."), ContextChunk("")) * 2000),
        replace(PLAIN, expected_answers=("At seven.", "At nine.") * 1000),
    ]
    assert_valid(instance, rows, instance.score(rows, ctx(evaluator.spec.judge)))


@pytest.mark.parametrize("evaluator", RUN)
def test_a_row_of_nothing_but_its_required_fields_is_scored(evaluator, built):
    instance = built(evaluator)
    names = {RowField.EXPECTED_ANSWER: "expected_answers", RowField.RETRIEVED_DOCUMENTS: "retrieved_context"}
    needed = {names.get(field, field.value) for field in instance.required}
    row = Row("case", "model", **{name: getattr(PLAIN, name) for name in needed})
    scores = instance.score([row], ctx(evaluator.spec.judge))
    assert_valid(instance, [row], scores)
    assert scores[0].complete


@pytest.mark.parametrize("evaluator", RUN)
def test_scores_depend_on_the_row_alone(evaluator, built):
    """The same twice, alone or in a batch, in any order, by the same or another instance."""
    instance = built(evaluator)
    texts = [text for text in ABSURD.values() if len(text) < 500]
    rows = [
        PLAIN,
        *(with_text(field, text) for field in ("actual_answer", "expected_answers") for text in texts),
        PLAIN,
    ]
    together = instance.score(rows, ctx(evaluator.spec.judge))
    assert_same(instance, together, built(evaluator).score(rows, ctx(evaluator.spec.judge)))
    assert_same(instance, together, instance.score(rows[::-1], ctx(evaluator.spec.judge))[::-1])
    fresh = fresh_tools(evaluator.spec.judge)
    assert_same(instance, together, [instance.score([row], fresh)[0] for row in rows])


def test_the_registry_imports_nothing_heavy():
    code = (
        "import sys; from leadline.evaluators.core.registry import all_evaluators; all_evaluators();"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'nltk', 'sklearn', 'scipy', 'pandas', 'duckdb',"
        " 'prefect', 'litellm', 'rouge_score', 'click', 'rich', 'umap', 'numba'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
