"""GPTScore of translations: does the answer say what the expected translation says, and well?"""

from __future__ import annotations

from leadline.evaluators.core import Spec, register
from leadline.evaluators.data import RowField
from leadline.evaluators.generation._gptscore import Aspect, BothWays, metrics_of

ASPECTS = (
    Aspect(
        "accuracy",
        "Accuracy",
        "Are there inaccuracies, missing, or unfactual content in the answer?",
        "Rewrite the following text with its core information and consistent facts:",
    ),
    Aspect(
        "fluency",
        "Fluency",
        "Is the answer well-written and grammatical?",
        "Rewrite the following text to make it more grammatical and well-written:",
    ),
    Aspect(
        "multidimensional_quality_metrics",
        "Multidimensional Quality Metrics",
        "How is the overall quality of the answer?",
        "Rewrite the following text into high-quality text with its core information:",
    ),
)


@register
class GptScoreMachineTranslation(BothWays):
    """Assesses a translation against an expected one by the likelihood that a language model gives them.

    Each metric is GPTScore's average negative log-likelihood per token (https://arxiv.org/abs/2302.04166; lower is
    better) of ``{hypo_ref}`` in ``INSTRUCTION {ref_hypo} In other words, {hypo_ref}``: once with the expected answer as
    ``{ref_hypo}`` and the answer as ``{hypo_ref}``, once the other way round, averaged. Only the tokens that follow
    ``In other words,`` count. With several expected answers it is the best of them. A blank answer or expected answer
    has no token to be scored: unscored.
    """

    spec = Spec(
        id="gptscore_machine_translation",
        name="Machine Translation (GPTScore) Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=metrics_of(ASPECTS),
        gpu=True,
        keywords=("GPTScore", "language model", "translation"),
        source="H2O Sonar evaluator reference: Machine Translation (GPTScore) Evaluator; https://arxiv.org/abs/2302.04166",
    )
    aspects = ASPECTS
