"""TER: how much an answer would have to be edited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
from pydantic import Field

from leadline.evaluators.core import INF, Metric, Params, Spec, register
from leadline.evaluators.data import DataKind, Row, RowField
from leadline.evaluators.generation._sacrebleu import SacrebleuEvaluator

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_WORDS: Final = 300
"""Words of a text that is compared: beyond, a single row can take minutes."""

MOST_EXPECTED: Final = 5_000
"""Words of all expected answers of a row together."""


class TerParams(Params):
    """Parameters of TER."""

    normalized: Annotated[bool, Field(description="Whether punctuation is set apart from words, as Tercom does.")] = (
        False
    )
    no_punct: Annotated[bool, Field(description="Whether punctuation is left out.")] = False
    asian_support: Annotated[
        bool, Field(description="Whether Chinese and Japanese characters count as words; needs normalized.")
    ] = False
    case_sensitive: Annotated[bool, Field(description="Whether capital and small letters differ.")] = False


@register
class Ter(SacrebleuEvaluator):
    """Translation edit rate: edits that turn an answer into the expected one, for each 100 words of the latter.

    **Method.** Through sacrebleu, which follows Tercom: an edit inserts, deletes or replaces a word, or moves a run of
    up to ten words elsewhere. TER = 100 * edits / words of the expected answer. 0 is no edit; an answer that is far
    too long has more than 100. Lower is better.

    A row's value is that of its answer. The model's value is not their mean but all edits by all words, as sacrebleu's
    for a corpus, with a bootstrap interval. The details hold sacrebleu's signature.

    **Edge cases.**

    * With several expected answers the fewest edits count, by the mean number of words of the expected answers.
    * Where the expected answer has no word, an empty answer has 0 and any other 100.
    * An answer or expected answer of more than 300 words is unscorable: moves make its search take minutes.

    **Source.** Snover et al. 2006, "A Study of Translation Edit Rate with Targeted Human Annotation",
    https://aclanthology.org/2006.amta-papers.25; Post 2018, https://aclanthology.org/W18-6319.
    """

    spec = Spec(
        id="ter",
        name="Translation Edit Rate (TER)",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.lower(
                "ter",
                "Edits for each 100 words of the expected answer; lower is better.",
                name="TER",
                range=(0.0, INF),
                threshold=None,
                pooled=True,
            ),
        ),
        packages=("sacrebleu",),
        suits=(DataKind.LIKE_LENGTHS,),
        keywords=("translation", "edit distance", "post-editing", "sacrebleu"),
        source="Snover et al. 2006, https://aclanthology.org/2006.amta-papers.25; sacrebleu",
    )
    parameters = TerParams
    params: TerParams

    def metric(self) -> Any:
        """Return sacrebleu's TER."""
        from sacrebleu.metrics.ter import TER

        params = self.params
        return TER(params.normalized, params.no_punct, params.asian_support, params.case_sensitive)

    def too_long(self, row: Row) -> str:
        """Return why a row's texts are too long to be compared."""
        texts = (row.actual_answer or "", *row.expected_answers)
        lengths = [len(text.split()) for text in texts]
        if self.params.normalized and max(map(len, texts)) <= 100 * MOST_WORDS:  # words are what that makes of a text
            metric = self.metric()
            lengths = [len(metric._preprocess_segment(text).split()) for text in texts]
        elif self.params.normalized:
            lengths = [len(text) for text in texts]
        if max(lengths) <= MOST_WORDS and sum(lengths) <= MOST_WORDS + MOST_EXPECTED:
            return ""
        return f"The answer or an expected answer has more than {MOST_WORDS} words: moves would take minutes to find."

    def values(self, counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the rates of sums of edits and words."""
        edits, words = counts[:, 0], counts[:, 1]
        without = np.where(edits > 0, 100.0, 0.0)
        return np.divide(100 * edits, words, out=without, where=words > 0)
