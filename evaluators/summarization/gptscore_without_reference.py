"""GPTScore of summaries without a reference: how likely is the answer as a summary of the question's text?"""

from __future__ import annotations

from collections.abc import Sequence

from leadline.evaluators.core import Spec, register
from leadline.evaluators.data import DataKind, Row, RowField
from leadline.evaluators.generation._gptscore import Aspect, GptScore, metrics_of
from leadline.evaluators.models.language_models.likelihood import Passage

ASPECTS = (
    Aspect(
        "semantic_coverage",
        "Semantic Coverage",
        "How many semantic content units from the reference text are covered by the answer?",
        "Generate a summary with as much semantic coverage as possible for the following text: ",
    ),
    Aspect(
        "factuality",
        "Factuality",
        "Does the answer preserve the factual statements of the source text?",
        "Generate a summary with consistent facts for the following text: ",
    ),
    Aspect(
        "consistency",
        "Consistency",
        "Is the answer consistent in the information it provides?",
        "Generate factually consistent summary for the following text: ",
    ),
    Aspect(
        "informativeness",
        "Informativeness",
        "How well does the answer capture the key ideas of its source text?",
        "Generate an informative summary that captures the key points of the following text: ",
    ),
    Aspect(
        "coherence",
        "Coherence",
        "How much does the answer make sense?",
        "Generate a coherent summary for the following text: ",
    ),
    Aspect(
        "relevance",
        "Relevance",
        "How well is the answer relevant to its source text?",
        "Generate a relevant summary with consistent details for the following text: ",
    ),
    Aspect(
        "fluency",
        "Fluency",
        "Is the answer well-written and grammatical?",
        "Generate a fluent and grammatical summary for the following text: ",
    ),
)


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
        metrics=metrics_of(ASPECTS),
        gpu=True,
        keywords=("GPTScore", "language model", "summarization"),
        suits=(DataKind.DOCUMENTS,),
        source="H2O Sonar evaluator reference: Summarization without reference (GPTScore) Evaluator; "
        "https://arxiv.org/abs/2302.04166",
    )
    aspects = ASPECTS

    def missing(self, row: Row) -> str:
        """Return which text is blank."""
        if not (row.actual_answer or "").strip():
            return "The answer is blank, so that no token can be scored."
        return "" if (row.question or "").strip() else "The question, which is the text to be summed up, is blank."

    def passages(self, row: Row, instruction: str) -> Sequence[Sequence[Passage]]:
        """Return the one passage whose target is the answer."""
        context = f"{instruction}{row.question or ''}\nTl;dr\n"
        return [(Passage(row.actual_answer or "", context, len(instruction)),)]
