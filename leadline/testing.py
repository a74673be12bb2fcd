"""Checks that every evaluator passes, for evaluators of your own.

::

    from leadline.testing import check_evaluator

    def test_shouting() -> None:
        assert not [check for check in check_evaluator(Shouting) if check.problem]

Each single check raises :class:`CheckFailed` where an evaluator does not keep the contract.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Final, NamedTuple

from leadline.evaluators.core import EvalContext, Evaluator, describe
from leadline.evaluators.data import (
    ContextChunk,
    Messages,
    NotApplicable,
    Reason,
    RivalAnswer,
    Row,
    RowField,
    RowScore,
    Source,
    Unscored,
    calls_of,
)
from leadline.evaluators.ground import LeadlineError, ModelUnavailable
from leadline.evaluators.settings import Settings

_SAID: Final[Messages] = (
    {"role": "user", "content": "When does the pump start?"},
    {
        "role": "assistant",
        "content": "",
        "reasoning": "I look it up, then I answer.",
        "tool_calls": [{"id": "1", "name": "find_hours", "arguments": {"machine": "pump"}}],
    },
    {"role": "tool", "tool_call_id": "1", "name": "find_hours", "content": "07:00 to 09:00"},
    {"role": "assistant", "content": "It starts at seven, and it stops at nine. Call 555-0199."},
)

PLAIN: Final = Row(
    case="plain",
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
    duration_s=1.25,
    cost_usd=0.002,
    input_tokens=120,
    output_tokens=18,
    original_answer="It starts at seven. Call 555-0199.",
    rival_answers=(RivalAnswer("other", "At seven."), RivalAnswer("third", "It starts at eight.")),
    messages=_SAID,
    history=({"role": "user", "content": "I am Ada."}, {"role": "assistant", "content": "Good morning."}),
    tool_calls=calls_of(_SAID),
    tools=({"name": "find_hours", "description": "When a machine runs.", "parameters": {"type": "object"}},),
    steps=({"step": 0, "kind": "agent", "name": "answer"}, {"step": 1, "parent": 0, "kind": "tool", "name": "find"}),
    expected_tool_calls=({"name": "find_hours", "arguments": {"machine": "pump"}},),
    expected_outcome="The user knows when the pump starts.",
    scenario={
        "scenario": "Somebody asks about the pump.",
        "chatbot_role": "the voice of the engine room",
        "topics": ["pumps"],
        "policy": ["Tell no telephone numbers."],
    },
)
"""A row that has everything."""

ABSURD: Final = {
    "nothing": "",
    "white space": " \n\t\u00a0\u2028 ",
    "one letter": "a",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x85 seven",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈 7️⃣ seven 🙂" * 3,
    "right to left": "\u202eمرحبا بالعالم. كيف حالك؟\u202c שלום",  # noqa: RUF001
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
"""Texts that have broken evaluators, by what is odd about them."""

TEXT_FIELDS: Final = ("question", "expected_answers", "retrieved_context", "actual_answer", "messages")

_CRASHES: Final = (Reason.EVALUATOR_ERROR, Reason.TIMEOUT)


class Check(NamedTuple):
    """One check of an evaluator.

    Attributes:
        name: What was checked.
        problem: What is wrong, ``""`` when nothing is.
        skipped: Why it could not be checked, ``""`` when it could.
    """

    name: str
    problem: str = ""
    skipped: str = ""


class CheckFailed(AssertionError):
    """An evaluator does not keep the contract."""


def check_evaluator(kind: type[Evaluator], ctx: EvalContext | None = None) -> list[Check]:
    """Return what was checked of an evaluator, in order.

    Args:
        ctx: The context that it scores in; one with a judge, for an evaluator that asks one.
    """
    checks: dict[str, Callable[[], None]] = {
        "its metadata is complete": lambda: check_metadata(kind),
        "its metrics are well defined": lambda: check_metrics(kind),
        "its parameters have defaults and descriptions": lambda: check_parameters(kind),
    }
    context = ctx or EvalContext(Settings(embedder="offline", splitter="rules", device="cpu"))
    scoring: dict[str, Callable[[], None]] = {
        "no rows give no scores": lambda: check_no_rows(kind(), context),
        "a plain row is scored": lambda: check_plain_row(kind(), context),
        "a row of nothing but its required inputs is scored": lambda: check_required_inputs(kind(), context),
        "inputs that it does not declare change nothing": lambda: check_declared_inputs(kind(), context),
        "absurd texts are survived": lambda: check_absurd_texts(kind(), context),
        "a megabyte is survived": lambda: check_large_texts(kind(), context),
        "scores depend on the row alone": lambda: check_determinism(kind, context, context),
    }
    silent = "it asks a judge" if kind.spec.judge and not context.settings.judges else ""
    with _quiet():
        found = [_checked(name, check) for name, check in checks.items()]
        return found + [
            Check(name, skipped=silent) if silent else _checked(name, check) for name, check in scoring.items()
        ]


def _checked(name: str, check: Callable[[], None]) -> Check:
    try:
        check()
    except ModelUnavailable as error:
        return Check(name, skipped=str(error))
    except (CheckFailed, LeadlineError) as error:
        return Check(name, str(error))
    except Exception as error:
        return Check(name, f"{type(error).__name__}: {error}")
    return Check(name)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep tracebacks of failing rows off the terminal: the check's line says what happened."""
    log = logging.getLogger("leadline")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def check_metadata(kind: type[Evaluator]) -> None:
    """Check what is known of an evaluator before it runs."""
    spec = kind.spec
    _require(spec.id == spec.id.lower(), f"the id {spec.id!r} is not in small letters")
    _require(bool(spec.inputs), "it names no inputs")
    _require(spec.optional < set(spec.inputs), "all its inputs are optional, or an optional one is not among them")
    _require((spec.judge is None) == (spec.lane != "judge"), "an evaluator that asks a judge is in the lane 'judge'")
    json.dumps(describe(kind), allow_nan=False)


def check_metrics(kind: type[Evaluator]) -> None:
    """Check the metrics that an evaluator declares."""
    metrics = kind.spec.metrics
    _require(metrics == kind().metrics, "without parameters its metrics are not those of its spec")
    _require(len({metric.key for metric in metrics}) == len(metrics), "two metrics have the same key")
    _require(sum(metric.primary for metric in metrics) == 1, "exactly one metric must be the primary one")
    for metric in metrics:
        low, high = metric.range
        _require(bool(metric.name), f"{metric.key} has no name")
        _require(bool(metric.description), f"{metric.key} has no description, and the class no docstring")
        _require(low < high, f"the range of {metric.key} is empty")
        limit = metric.threshold
        _require(limit is None or math.isinf(limit) or low <= limit <= high, f"{metric.key}: its threshold is no value")
        _require(not metric.share or (low, high) == (0.0, 1.0), f"{metric.key} is a share, whose range is 0 to 1")


def check_parameters(kind: type[Evaluator]) -> None:
    """Check that an evaluator can be made without parameters, and that each is described."""
    for name, field in kind.parameters.model_fields.items():
        _require(bool(field.description), f"the parameter {name} has no description")
    _require(kind.parameters.build(kind.spec.id, {}) == kind().params, "its parameters have other defaults")


def check_no_rows(evaluator: Evaluator, ctx: EvalContext) -> None:
    """Check that nothing is made of nothing."""
    _require(evaluator.score([], ctx) == [], "there are scores without rows")


def check_plain_row(evaluator: Evaluator, ctx: EvalContext) -> None:
    """Check that a row which has everything is scored."""
    _complete(_valid_scores(evaluator, [PLAIN], ctx))


def check_required_inputs(evaluator: Evaluator, ctx: EvalContext) -> None:
    """Check that a row is scored which has only what the evaluator requires."""
    _complete(_valid_scores(evaluator, [_only(evaluator.required, PLAIN)], ctx))


def check_declared_inputs(evaluator: Evaluator, ctx: EvalContext) -> None:
    """Check that a row's score does not change with fields that the evaluator does not declare."""
    alone, full = _valid_scores(evaluator, [_only(evaluator.reads, PLAIN), PLAIN], ctx)
    _require(_alike(evaluator, alone, full), "the score changes: name all that it reads in inputs or also_reads")


def check_absurd_texts(evaluator: Evaluator, ctx: EvalContext, longest: int | None = None) -> None:
    """Check that odd texts, in each field and in all at once, crash nothing.

    Args:
        longest: Characters after which the texts are cut off, for slow evaluators.
    """
    rows = [with_text(field, name, text[:longest]) for field in TEXT_FIELDS for name, text in ABSURD.items()]
    rows += [everywhere(name, text[:longest]) for name, text in ABSURD.items()]
    for row, score in zip(rows, _valid_scores(evaluator, rows, ctx), strict=True):
        for value in score.values.values():
            crashed = isinstance(value, Unscored) and value.reason in _CRASHES
            _require(not crashed, f"{row.case}: {getattr(value, 'message', '')}")


def check_large_texts(evaluator: Evaluator, ctx: EvalContext, size: int = 1_000_000) -> None:
    """Check that large answers are scored."""
    texts = ("a" * size, "seven. " * (size // 7), "x@y.z, 4111 1111 1111 1111; " * (size // 29))
    rows = [with_text("actual_answer", f"{size:,} characters", text) for text in texts]
    _complete(_valid_scores(evaluator, rows, ctx))


def check_determinism(make: Callable[[], Evaluator], ctx: EvalContext, fresh: EvalContext) -> None:
    """Check that rows score the same twice, alone or in a batch, in any order, by the same or another instance.

    Args:
        ctx: The context that batches are scored in.
        fresh: Another one, for rows alone.
    """
    evaluator = make()
    texts = {name: text for name, text in ABSURD.items() if len(text) < 500}
    changed = ("actual_answer", "expected_answers")
    rows = [PLAIN, *(with_text(field, name, text) for field in changed for name, text in texts.items()), PLAIN]
    together = evaluator.score(rows, ctx)
    for how, others in {
        "by another instance": make().score(rows, ctx),
        "in another order": evaluator.score(rows[::-1], ctx)[::-1],
        "alone": [evaluator.score([row], fresh)[0] for row in rows],
    }.items():
        for row, one, other in zip(rows, together, others, strict=True):
            _require(_alike(evaluator, one, other), f"{row.case}: it scores otherwise {how}")


def check_scores(evaluator: Evaluator, rows: Sequence[Row], scores: Sequence[RowScore]) -> None:
    """Check that there is one valid result per row.

    It has exactly the evaluator's metrics, in their ranges, and evidence that points into the row's texts.
    """
    _require(len(scores) == len(rows), f"{len(rows)} rows got {len(scores)} scores")
    metrics = {metric.key: metric for metric in evaluator.metrics}
    expected = sorted(evaluator.row_metrics)
    for row, score in zip(rows, scores, strict=True):
        _require(sorted(score.values) == expected, f"{row.case}: the score has {sorted(score.values)}, not {expected}")
        for key, value in score.values.items():
            if isinstance(value, Unscored | NotApplicable):
                continue
            low, high = metrics[key].range
            _require(low <= value <= high, f"{row.case}: {key} is {value}, outside of {low} to {high}")
            _require(not metrics[key].share or value in (0.0, 1.0), f"{row.case}: {key} is {value}, neither 0 nor 1")
        for span in score.evidence.spans:
            inside = 0 <= span.start <= span.end <= len(_text_of(row, span.source, span.index))
            _require(inside, f"{row.case}: a span lies outside of its text ({span})")
        flags = [flag.to_json() for flag in score.flags]
        json.dumps([score.evidence.to_json(), score.payload, flags], allow_nan=False)


def with_text(field: str, name: str, text: str) -> Row:
    """Return the plain row with another text in one field.

    Args:
        field: One of :data:`TEXT_FIELDS`.
    """
    changed: dict[str, object] = {field: text}
    if field == "expected_answers":
        changed = {field: (text,)}
    elif field == "retrieved_context":
        changed = {field: (ContextChunk(text),)}
    elif field == "messages":
        said = _conversation(text)
        changed = {"messages": said, "history": said, "tool_calls": calls_of(said)}
    return replace(PLAIN, case=f"{name} as {field}", **changed)  # type: ignore[arg-type]


def _conversation(text: str) -> Messages:
    return (
        {"role": "user", "content": text},
        {"role": "assistant", "content": text, "tool_calls": [{"id": "1", "name": text, "arguments": {text: text}}]},
        {"role": "tool", "tool_call_id": "1", "name": text, "content": text, "error": text},
        {"role": "assistant", "content": text},
    )


def everywhere(name: str, text: str) -> Row:
    """Return the plain row with the same text in all its fields."""
    return replace(
        PLAIN,
        case=f"{name} everywhere",
        question=text,
        expected_answers=(text, text),
        retrieved_context=(ContextChunk(text),) * 2,
        actual_answer=text,
    )


def _valid_scores(evaluator: Evaluator, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
    scores = evaluator.score(rows, ctx)
    check_scores(evaluator, rows, scores)
    return scores


def _complete(scores: Sequence[RowScore]) -> None:
    for score in scores:
        why = [f"{key}: {value.message}" for key, value in score.values.items() if isinstance(value, Unscored)]
        _require(score.complete, f"it is unscored ({'; '.join(why)})")


def _only(wanted: Sequence[RowField], row: Row) -> Row:
    names = {field.attribute for field in wanted}
    kept = {field.name: getattr(row, field.name) for field in fields(row) if field.name in names}
    return Row(row.case, row.model, **kept)


def _text_of(row: Row, source: Source, index: int) -> str:
    if source is Source.EXPECTED_ANSWER:
        return row.expected_answers[index]
    if source is Source.RETRIEVED_CONTEXT:
        return row.retrieved_context[index].content
    if source is Source.MESSAGE:
        return row.messages[index]["content"]
    if source is Source.TOOL_CALL:
        return (row.tool_calls or ())[index].name
    return (row.question if source is Source.QUESTION else row.actual_answer) or ""


def _alike(evaluator: Evaluator, one: RowScore, other: RowScore) -> bool:
    if evaluator.spec.lane != "gpu":
        return one == other
    ours, theirs = _numbers(one), _numbers(other)
    return ours.keys() == theirs.keys() and all(_close(value, theirs[key]) for key, value in ours.items())


def _numbers(score: RowScore) -> dict[str, float | str]:
    return {
        key: value.reason if isinstance(value, Unscored) else "n/a" if isinstance(value, NotApplicable) else value
        for key, value in score.values.items()
    }


def _close(one: float | str, other: float | str) -> bool:
    """Return whether two numbers are equal but for the last digits of a float32, which a batch's padding moves."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-4)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckFailed(message)
