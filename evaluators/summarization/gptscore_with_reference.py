"""GPTScore of summaries with a reference: does the answer have the content of the expected summary, well written?"""

from __future__ import annotations

from leadline.evaluators.core import Spec, register
from leadline.evaluators.data import DataKind, RowField
from leadline.evaluators.generation._gptscore import Aspect, BothWays, metrics_of

ASPECTS = (
    Aspect(
        "semantic_coverage",
        "Semantic Coverage",
        "How many semantic content units from the reference text are covered by the answer?",
        "Rewrite the following text with the same semantics.",
    ),
    Aspect(
        "factuality",
        "Factuality",
        "Does the answer preserve the factual statements of the source text?",
        "Rewrite the following text with consistent facts.",
    ),
    Aspect(
        "informativeness",
        "Informativeness",
        "How well does the answer capture the key ideas of its source text?",
        "Rewrite the following text with its core information.",
    ),
    Aspect(
        "coherence",
        "Coherence",
        "How much does the answer make sense?",
        "Rewrite the following text into a coherent text.",
    ),
    Aspect(
        "relevance",
        "Relevance",
        "How well is the answer relevant to its source text?",
        "Rewrite the following text with consistent details.",
    ),
    Aspect(
        "fluency",
        "Fluency",
        "Is the answer well-written and grammatical?",
        "Rewrite the following text into a fluent and grammatical text.",
    ),
)


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
        metrics=metrics_of(ASPECTS),
        gpu=True,
        keywords=("GPTScore", "language model", "summarization"),
        suits=(DataKind.DOCUMENTS,),
        source="H2O Sonar evaluator reference: Summarization with reference (GPTScore) Evaluator; "
        "https://arxiv.org/abs/2302.04166",
    )
    aspects = ASPECTS
