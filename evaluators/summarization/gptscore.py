"""GPTScore of summaries, with an expected summary and without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leadline.evaluators.core import DataKind, Spec, register
from leadline.evaluators.data import Row, RowField
from leadline.evaluators.generation.likelihood import BothWays, GptScore, gptscore_metrics
from leadline.evaluators.models.results import Passage

_REWRITE: Final = {
    "semantic_coverage": "Rewrite the following text with the same semantics.",
    "factuality": "Rewrite the following text with consistent facts.",
    "informativeness": "Rewrite the following text with its core information.",
    "coherence": "Rewrite the following text into a coherent text.",
    "relevance": "Rewrite the following text with consistent details.",
    "fluency": "Rewrite the following text into a fluent and grammatical text.",
}
_SUM_UP: Final = {
    "semantic_coverage": "Generate a summary with as much semantic coverage as possible for the following text: ",
    "factuality": "Generate a summary with consistent facts for the following text: ",
    "consistency": "Generate factually consistent summary for the following text: ",
    "informativeness": "Generate an informative summary that captures the key points of the following text: ",
    "coherence": "Generate a coherent summary for the following text: ",
    "relevance": "Generate a relevant summary with consistent details for the following text: ",
    "fluency": "Generate a fluent and grammatical summary for the following text: ",
}
"""What stands before a text, by the metric that it asks for."""


@register
class GptScoreSummarizationWithReference(BothWays):
    """Assesses a summary against an expected one by the likelihood that a language model gives them.

    Each metric is GPTScore's average negative log-likelihood per token (https://arxiv.org/abs/2302.04166; lower is
    better) of ``{hypo_ref}`` in ``INSTRUCTION {ref_hypo} In other words, {hypo_ref}``: once with the expected answer as
    ``{ref_hypo}`` and the answer as ``{hypo_ref}``, once the other way round, averaged. Only the tokens that follow
    ``In other words,`` count. With several expected answers it is the best of them. A blank answer or expected answer
    has no token to be scored: unscored.
    """

    spec = Spec(
        id="gptscore_summarization_with_reference",
        name="Summarization with reference (GPTScore) Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=gptscore_metrics(_REWRITE),
        gpu=True,
        keywords=("GPTScore", "language model", "summarization"),
        suits=(DataKind.DOCUMENTS,),
        source="H2O Sonar evaluator reference: Summarization with reference (GPTScore) Evaluator; "
        "https://arxiv.org/abs/2302.04166",
    )
    instructions = _REWRITE


@register
class GptScoreSummarizationWithoutReference(GptScore):
    """Assesses a summary by the likelihood that a language model gives it after the text that it sums up.

    Each metric is GPTScore's average negative log-likelihood per token (https://arxiv.org/abs/2302.04166; lower is
    better) of ``{target}`` in ``INSTRUCTION {src}``, ``Tl;dr`` and ``{target}``, each on a line of its own, where
    ``{src}`` is the question and ``{target}`` the answer. Only the tokens that follow ``Tl;dr`` and its line end count.
    A blank answer has no token to be scored and a blank question no text to be summed up: unscored. When the text is
    longer than the model reads, its end and the instruction are kept, and the row's evidence says so.
    """

    spec = Spec(
        id="gptscore_summarization_without_reference",
        name="Summarization without reference (GPTScore) Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=gptscore_metrics(_SUM_UP),
        gpu=True,
        keywords=("GPTScore", "language model", "summarization"),
        suits=(DataKind.DOCUMENTS,),
        source="H2O Sonar evaluator reference: Summarization without reference (GPTScore) Evaluator; "
        "https://arxiv.org/abs/2302.04166",
    )
    instructions = _SUM_UP

    def missing(self, row: Row) -> str:
        """Return which text is blank."""
        if not (row.actual_answer or "").strip():
            return "The answer is blank, so that no token can be scored."
        return "" if (row.question or "").strip() else "The question, which is the text to be summed up, is blank."

    def passages(self, row: Row, instruction: str) -> Sequence[Sequence[Passage]]:
        """Return the one passage whose target is the answer."""
        context = f"{instruction}{row.question or ''}\nTl;dr\n"
        return [(Passage(row.actual_answer or "", context, len(instruction)),)]
