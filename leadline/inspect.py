"""The bridge to inspect_ai: evaluators become its scorers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leadline.api.answer_scorer import AnswerScorer, answer_scorer, context_chunks
from leadline.api.metric_choice import Metrics
from leadline.evaluators.data import Row
from leadline.evaluators.ground import ErrorCode, UsageError

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer


__all__ = ["scorer"]


def scorer(metric: Metrics, *, judge: Any = None, context: str = "retrieved_context", **settings: Any) -> Scorer:
    """Return an evaluator as a scorer of inspect_ai; its mean and standard error are the task's metrics.

    The question is the sample's input, the expected answers its targets. An answer that cannot be measured is unscored
    with a reason, which inspect leaves out of metrics; one that lacks an input has no score.

    Args:
        metric: An id, an id with one of its metrics (``bleu:bleu_2``), ``leadline.metrics.…``, a class, or a function.
        judge: The judge, as :func:`leadline.evaluate` takes it.
        context: Key of the retrieved chunks in the sample's store, or else in its metadata.
        **settings: Further settings of :func:`~leadline.api.answer_scorer.answer_scorer`.

    Raises:
        UsageError: inspect_ai is not installed, or there is no such metric, judge or setting.
    """
    try:
        from inspect_ai.scorer import mean, scorer, stderr
    except ImportError:
        raise UsageError(
            "Scorers of inspect_ai need the package inspect-ai.",
            hint="Install it: pip install inspect-ai",
            code=ErrorCode.CONFIG_PACKAGE,
        ) from None
    own = answer_scorer(metric, judge=judge, **settings)

    def leadline() -> Scorer:
        return _scoring(own, context)

    made: Scorer = scorer(metrics=[mean(), stderr()], name=own.name)(leadline)()
    return made


def _scoring(own: AnswerScorer, context: str) -> Scorer:
    from anyio.to_thread import run_sync
    from inspect_ai.scorer import Score, Target
    from inspect_ai.solver import TaskState

    async def score(state: TaskState, target: Target) -> Score | None:
        answer = state.output.completion
        row = Row(
            case=str(state.sample_id),
            model=str(state.model),
            question=_question(state),
            expected_answers=tuple(text for text in target if text),
            retrieved_context=context_chunks(state.store.get(context) or state.metadata.get(context)),
            actual_answer=answer,
            metadata=state.metadata,
        )
        found = await run_sync(own.score, row)
        about = {"evaluator": own.name, "metric": own.metric.key, "passes": found.passes, "values": dict(found.values)}
        if found.state == "not_applicable":
            return None
        if found.value is None:
            return Score.unscored(reason="scoring_failed", answer=answer, explanation=found.reason, metadata=about)
        return Score(value=found.value, answer=answer, explanation=found.explanation or None, metadata=about)

    return score


def _question(state: Any) -> str | None:
    try:
        return str(state.input_text)
    except ValueError:  # a conversation without a message of the user
        return None
