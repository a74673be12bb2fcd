"""chrF and chrF++: shared runs of characters, and of words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from leadline.evaluators.core import Metric, Params, Spec, register
from leadline.evaluators.data import DataKind, RowField
from leadline.evaluators.generation._sacrebleu import SacrebleuEvaluator

if TYPE_CHECKING:
    import numpy.typing as npt


class ChrfParams(Params):
    """Parameters of chrF."""

    char_order: Annotated[int, Field(ge=1, le=20, description="Longest run of characters that is compared.")] = 6
    word_order: Annotated[
        int, Field(ge=0, le=10, description="Longest run of words that is compared; 0 for chrF, 2 for chrF++.")
    ] = 0
    beta: Annotated[int, Field(ge=1, le=10, description="How many times as much recall weighs as precision.")] = 2
    lowercase: Annotated[bool, Field(description="Whether capital and small letters are the same.")] = False


@register
class Chrf(SacrebleuEvaluator):
    """chrF: precision and recall of the runs of up to six characters that answer and expected answer share.

    **Method.** Through sacrebleu. For each length from 1 to ``char_order`` the share of the answer's runs of characters
    that the expected answer has too (precision), and of the expected answer's runs that the answer has (recall), blanks
    left out. With ``word_order`` runs of words are counted as well: 2 makes it chrF++. Both shares are averaged over
    the lengths, and the score is their F-measure with ``beta``, from 0 to 100. Characters need no tokenizer, and forms
    of a word count in part, so that it suits languages with many forms and translations.

    A row's value is the score of its answer. The model's value is not their mean but that of all rows' counts together,
    as sacrebleu's for a corpus, with a bootstrap interval. The details hold sacrebleu's signature.

    **Edge cases.**

    * With several expected answers a row counts with the one that gives the highest score, as in sacrebleu.
    * An empty answer scores 0.

    **Source.** Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation",
    https://aclanthology.org/W15-3049; Popović 2017, "chrF++", https://aclanthology.org/W17-4770; Post 2018, "A Call for
    Clarity in Reporting BLEU Scores", https://aclanthology.org/W18-6319.
    """

    spec = Spec(
        id="chrf",
        name="chrF",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "chrf",
                "F-measure of the runs of characters shared with the expected answer, from 0 to 100.",
                name="chrF",
                range=(0.0, 100.0),
                threshold=None,
                pooled=True,
            ),
        ),
        packages=("sacrebleu",),
        suits=(DataKind.LIKE_LENGTHS,),
        keywords=("translation", "n-gram", "chrF++", "sacrebleu"),
        source="Popović 2015, https://aclanthology.org/W15-3049; sacrebleu",
    )
    parameters = ChrfParams
    params: ChrfParams

    def metric(self) -> Any:
        """Return sacrebleu's chrF."""
        from sacrebleu.metrics.chrf import CHRF

        params = self.params
        return CHRF(params.char_order, params.word_order, params.beta, params.lowercase)

    def values(self, counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the F-measure of sums of counts: of the answers', the expected answers' and the shared runs."""
        ours, theirs, shared = counts[:, 0::3], counts[:, 1::3], counts[:, 2::3]
        compared = (ours > 0) & (theirs > 0)
        lengths = np.maximum(compared.sum(axis=1), 1)
        precision = (np.divide(shared, ours, out=np.zeros_like(shared), where=compared)).sum(axis=1) / lengths
        recall = (np.divide(shared, theirs, out=np.zeros_like(shared), where=compared)).sum(axis=1) / lengths
        factor = self.params.beta**2
        below = factor * precision + recall
        above = 100 * (1 + factor) * precision * recall
        return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))
