"""Perplexity: how surprising is the answer to a language model?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from leadline.evaluators.core import INF, Metric, Params, Spec, register
from leadline.evaluators.core.model_evaluator import ModelEvaluator
from leadline.evaluators.data import Evidence, Row, RowField, RowScore
from leadline.evaluators.models.catalogue import DISTILGPT2
from leadline.evaluators.models.language_models import likelihood
from leadline.evaluators.models.language_models.likelihood import Likelihood, Passage

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext


class PerplexityParams(Params):
    """Parameters of :class:`Perplexity`."""

    perplexity_model: Annotated[
        str | None,
        Field(
            description="Language model: a Hugging Face id, optionally ID@REVISION, or a directory. By default "
            "distilgpt2."
        ),
    ] = None


@register
class Perplexity(ModelEvaluator[Passage, Likelihood]):
    """Measures how well a language model predicts the answer; lower means more predictable.

    ``perplexity = exp(mean over the answer's tokens of -ln p(token | tokens before it))`` by ``distilgpt2``, as the
    package ``lmppl`` computes it: the first token is given and not predicted, since GPT-2 has no start mark. A model
    whose tokenizer puts one before the text (OPT) predicts the first token too.

    An answer that is longer than the model reads (1,024 tokens) is scored in sliding windows: every token counts
    once, after at least the 512 tokens before it; ``lmppl`` would cut it off. The evidence says so. An answer of no
    token or of one has no token to be predicted, so that its perplexity is not defined (``lmppl`` gives NaN or fails):
    unscored. A mean too large for its power to be a finite float gives infinity.
    """

    spec = Spec(
        id="perplexity",
        name="Perplexity Evaluator",
        origin="h2o",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(
            Metric.lower(
                "perplexity",
                "Number of tokens among which the language model hesitates on average when it predicts "
                "the next token of the answer. 1 is the least that can be reached.",
                range=(0.0, INF),
                threshold=0.5,
            ),
        ),
        gpu=True,
        keywords=("fluency", "language model"),
        source="H2O Sonar evaluator reference: Perplexity Evaluator; https://github.com/asahi417/lmppl",
    )
    parameters = PerplexityParams
    default_model = DISTILGPT2
    model_parameter = "perplexity_model"

    def requests(self, row: Row, ctx: EvalContext) -> Sequence[Passage]:
        """Return the answer."""
        return [Passage(row.actual_answer or "")]

    def answers(self, requests: Sequence[Passage], ctx: EvalContext) -> Sequence[Likelihood]:
        """Return how likely each answer is."""
        return likelihood.likelihoods(self.model(ctx), requests, settings=ctx.settings)

    def measure(self, row: Row, results: Sequence[Likelihood], ctx: EvalContext) -> RowScore:
        """Score one row."""
        found = results[0]
        if found.mean is None:
            return self.unscorable(f"The answer has {found.length} tokens, none of which can be predicted.")
        message = (
            ""
            if found.whole
            else f"The answer has {found.length} tokens and was read in sliding windows of {found.limit}: each token "
            f"was predicted from at least the {found.limit // 2} tokens before it, not from all."
        )
        try:
            value = math.exp(found.mean)
        except OverflowError:
            value = INF
        return RowScore({"perplexity": value}, Evidence(message, data={"tokens": found.tokens}))
