"""Leadline's evaluators as scorers of ``mlflow.genai.evaluate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leadline.api.metric_choice import Metrics
from leadline.bridges.answer_scorer import AnswerScorer, answer_scorer, context_chunks
from leadline.evaluators.data import ContextChunk, Row
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.load.field_names import names_of, normalized

if TYPE_CHECKING:
    from mlflow.entities import Feedback
    from mlflow.genai.scorers import Scorer

_FACTS: Final = "expected_facts"
_RETRIEVER: Final = "RETRIEVER"


def scorer(metric: Metrics, *, name: str = "", judge: Any = None, **settings: Any) -> Scorer:
    """Return an evaluator as a scorer of MLflow, whose values have a rationale and whether they pass.

    Question, answer, contexts and expectation are looked for in ``inputs``, ``outputs`` and ``expectations`` under the
    names that datasets use for them; contexts also in the trace's spans of retrievers. An answer that cannot be
    measured gets feedback with an error; one that lacks an input gets none.

    Args:
        metric: An id, an id with one of its metrics (``bleu:bleu_2``), ``leadline.metrics.…``, a class, or a function.
        name: Name of the assessment. Default: the evaluator's id.
        judge: The judge, as :func:`leadline.evaluate` takes it.
        **settings: Further settings of :func:`~leadline.bridges.answer_scorer.answer_scorer`.

    Raises:
        UsageError: MLflow is not installed, or there is no such metric, judge or setting.
    """
    try:
        from mlflow.genai.scorers import scorer
    except ImportError:
        raise missing_mlflow() from None
    own = answer_scorer(metric, judge=judge, **settings)
    called = name or own.name.replace(".", "_")

    def score(inputs: Any = None, outputs: Any = None, expectations: Any = None, trace: Any = None) -> Feedback | None:
        return _feedback(own, called, _row(inputs, outputs, expectations, trace))

    made: Scorer = scorer(score, name=called, description=own.metric.description or own.evaluator.spec.name)
    return made


def missing_mlflow() -> UsageError:
    """Return the error of a bridge whose library is not here."""
    return UsageError(
        "This needs the package mlflow, version 3 or newer.",
        hint="Install it: pip install 'mlflow>=3'",
        code=ErrorCode.CONFIG_PACKAGE,
    )


def _feedback(own: AnswerScorer, name: str, row: Row) -> Feedback | None:
    from mlflow.entities import AssessmentError, AssessmentSource, Feedback

    found = own.score(row)
    if found.state == "not_applicable":
        return None
    source = AssessmentSource(
        source_type="LLM_JUDGE" if own.evaluator.spec.judge else "CODE", source_id=f"leadline/{own.name}"
    )
    if found.value is None:
        code, _, message = found.reason.partition(": ")
        return Feedback(name=name, error=AssessmentError(code.upper(), message or None), source=source)
    about = {f"leadline.{key}": f"{value:.6g}" for key, value in found.values.items()}
    if found.passes is not None:
        about["leadline.passes"] = str(found.passes).lower()
    return Feedback(name=name, value=found.value, rationale=found.explanation or None, source=source, metadata=about)


def _row(inputs: Any, outputs: Any, expectations: Any, trace: Any) -> Row:
    expected = _text(expectations, "expected_answer") or _text(expectations, "actual_answer")
    facts = expectations.get(_FACTS) if isinstance(expectations, Mapping) else None
    several = facts if isinstance(facts, Sequence) and not isinstance(facts, str) else ()
    context = context_chunks(_named(outputs, "retrieved_context") or _named(inputs, "retrieved_context"))
    return Row(
        case="answer",
        model="answer",
        question=_question(inputs),
        expected_answers=(expected,) if expected is not None else tuple(map(str, several)),
        retrieved_context=context or tuple(_retrieved(trace)),
        actual_answer=_text(outputs, "actual_answer"),
    )


def _question(inputs: Any) -> str | None:
    found = _text(inputs, "question")
    if found is None and isinstance(inputs, Mapping) and len(inputs) == 1:
        [only] = inputs.values()
        found = only if isinstance(only, str) else None
    return found


def _text(holder: Any, field: str) -> str | None:
    """Return the text of a field: the whole if that is a text, else a member with one of the field's names."""
    found = _named(holder, field) if isinstance(holder, Mapping) else holder
    if isinstance(found, Sequence) and not isinstance(found, str):
        messages = [each for each in found if isinstance(each, Mapping) and isinstance(each.get("content"), str)]
        wanted = [each for each in messages if (each.get("role") == "user") == (field == "question")]
        found = wanted[-1]["content"] if wanted else None
    return found if isinstance(found, str) else None


def _named(holder: Any, field: str) -> Any:
    if not isinstance(holder, Mapping):
        return None
    known = {normalized(str(name)): value for name, value in holder.items() if value is not None}
    clear, weak = names_of(field)
    return next((known[key] for name in (*clear, *weak) if (key := normalized(name)) in known), None)


def _retrieved(trace: Any) -> Iterator[ContextChunk]:
    """Yield what the retrievers of a trace found, in the order of their spans."""
    if trace is None:
        return
    for span in trace.search_spans(span_type=_RETRIEVER):
        yield from context_chunks(span.outputs)
