"""Translation scores that count what texts share: chrF, TER and METEOR.

sacrebleu's scores have each row's counts as its payload, and the score of many rows' counts at once.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from pydantic import Field

from leadline.evaluators.core import (
    INF,
    DataKind,
    EvalContext,
    Params,
    RowEvaluator,
    Spec,
    one_metric,
    register,
)
from leadline.evaluators.data import Details, Evidence, Json, Reason, Row, RowField, RowScore, clip
from leadline.evaluators.ground import package_version
from leadline.evaluators.text.sentences import nltk_folders
from leadline.evaluators.text.tokens import nltk_words

if TYPE_CHECKING:
    import numpy.typing as npt


class SacrebleuEvaluator(RowEvaluator):
    """A metric of sacrebleu: a row's value is that of the row alone, a model's that of all rows' counts together."""

    @abstractmethod
    def metric(self) -> Any:
        """Return sacrebleu's metric under these parameters."""

    @abstractmethod
    def values(self, counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the scores of sums of counts.

        Args:
            counts: Array of shape ``(b, k)``, in the order of sacrebleu's statistics.

        Returns:
            Array of shape ``(b,)``.
        """

    def too_long(self, row: Row) -> str:
        """Return why a row's texts are too long to be compared, ``""`` if they are not."""
        return ""

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Count one row, and score its counts."""
        problem = self.too_long(row)
        if problem:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, problem)
        answer, expected = row.actual_answer or "", [[text] for text in row.expected_answers]
        [counts] = self.metric()._extract_corpus_statistics([answer], expected)
        [key], [metric] = self.row_metrics, self.metrics
        value = float(self.values(np.array([counts], dtype=np.float64))[0])
        return RowScore({key: clip(value, *metric.range)}, payload=[len(row.expected_answers), *map(float, counts)])

    def prepare(self, payloads: Sequence[Json]) -> npt.NDArray[np.float64]:
        """Return for each payload the number of expected answers, and the counts."""
        return np.array(cast("Sequence[Sequence[float]]", payloads), dtype=np.float64)

    def aggregate(
        self, payloads: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return the score of all rows together for each weighting of them."""
        [key] = self.row_metrics
        return {key: self.values(weights @ payloads[:, 1:])}

    def details(
        self, prepared: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], cases: Sequence[str]
    ) -> Details:
        """Return sacrebleu's signature, which says all that the score depends on."""
        metric = self.metric()
        numbers = {int(number) for number in prepared[:, 0]}
        metric.num_refs = numbers.pop() if len(numbers) == 1 else -1  # as sacrebleu writes that they differ
        return {"notes": [f"Signature of sacrebleu: {metric.get_signature()}."]}


class ChrfParams(Params):
    """Parameters of chrF."""

    char_order: int = Field(6, ge=1, le=20, description="Longest run of characters that is compared.")
    word_order: int = Field(
        0, ge=0, le=10, description="Longest run of words that is compared; 0 for chrF, 2 for chrF++."
    )
    beta: int = Field(2, ge=1, le=10, description="How many times as much recall weighs as precision.")
    lowercase: bool = Field(False, description="Whether capital and small letters are the same.")


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
        metrics=one_metric(
            "chrf",
            "F-measure of the runs of characters shared with the expected answer, from 0 to 100.",
            name="chrF",
            range=(0.0, 100.0),
            threshold=None,
            pooled=True,
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


MOST_WORDS: Final = 300
"""Words of a text that TER compares: beyond, a single row can take minutes."""

MOST_EXPECTED: Final = 5_000
"""Words of all expected answers of a row together, for TER."""


class TerParams(Params):
    """Parameters of TER."""

    normalized: bool = Field(False, description="Whether punctuation is set apart from words, as Tercom does.")
    no_punct: bool = Field(False, description="Whether punctuation is left out.")
    asian_support: bool = Field(
        False, description="Whether Chinese and Japanese characters count as words; needs normalized."
    )
    case_sensitive: bool = Field(False, description="Whether capital and small letters differ.")


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
        metrics=one_metric(
            "ter",
            "Edits for each 100 words of the expected answer; lower is better.",
            name="TER",
            range=(0.0, INF),
            threshold=None,
            pooled=True,
            higher_is_better=False,
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


_loading: Final = threading.Lock()
"""NLTK's lazy loader of WordNet is for one thread."""


class MeteorParams(Params):
    """Parameters of METEOR."""

    alpha: float = Field(0.9, gt=0, lt=1, description="Weight of precision in the harmonic mean.")
    beta: float = Field(3.0, gt=0, le=20, description="Exponent of the penalty for order.")
    gamma: float = Field(0.5, ge=0, le=1, description="Greatest penalty for order.")
    synonyms: bool = Field(
        True, description="Whether words match by meaning too, where NLTK's WordNet data is installed."
    )


class _NoSynonyms:
    """Stands for a WordNet that knows no word."""

    def synsets(self, word: str) -> list[Any]:
        """Return no meanings."""
        return []


def wordnet_folder() -> Path | None:
    """Return where NLTK's WordNet data is, ``None`` if it is not installed; nothing is downloaded."""
    for folder in nltk_folders():
        if any((folder / "corpora" / name).is_file() for name in ("wordnet/lexnames", "wordnet.zip")):
            return folder
    return None


@register
class Meteor(RowEvaluator):
    """METEOR: the words that an answer shares with the expected one, by form, stem or meaning, less for odd order.

    **Method.** NLTK's ``meteor_score`` on NLTK's words in small letters. Words of answer and expected answer are
    matched in stages: equal ones, those with the same Porter stem, and those that are synonyms in WordNet. With P and R
    the shares of the answer's and the expected answer's words that are matched, F = P R / (alpha P + (1 - alpha) R).
    The matches form chunks, runs that stand together in both texts; the score is F (1 - gamma (chunks / matches)^beta),
    from 0 to 1. NLTK gives the parameters of 2007: 0.9, 3 and 0.5.

    **WordNet** is data that NLTK fetches with ``python -m nltk.downloader wordnet``. Nothing is downloaded here. Where
    it is not installed, or with ``synonyms=false``, the first two stages are made alone; each row's evidence names the
    stages, and the score's key holds them, so that scores with and without it are never taken for the same.

    **Edge cases.**

    * With several expected answers the highest score counts.
    * Texts without a word in common score 0, empty ones too. Equal texts score a little less than 1: they are one
      chunk.
    * The stems and WordNet are English; other languages match by form alone, as a rule.

    **Source.** Lavie and Agarwal 2007, "Meteor: An Automatic Metric for MT Evaluation with High Levels of Correlation
    with Human Judgments", https://aclanthology.org/W07-0734; NLTK ``nltk.translate.meteor_score``.
    """

    spec = Spec(
        id="meteor",
        name="METEOR",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=one_metric(
            "meteor",
            "Words in common with the expected answer by form, stem or meaning, less for odd order.",
            name="METEOR",
            threshold=None,
        ),
        sentences=True,
        suits=(DataKind.LIKE_LENGTHS,),
        keywords=("translation", "WordNet", "synonyms", "stems"),
        source="Lavie and Agarwal 2007, https://aclanthology.org/W07-0734; NLTK",
    )
    parameters = MeteorParams
    params: MeteorParams

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return all that a score's key covers: NLTK computes it, and this machine may have no synonyms."""
        found = {"wordnet": True} if self.params.synonyms and wordnet_folder() else {}
        return super().identity(ctx) | {"nltk": package_version("nltk")} | found

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score each row; WordNet is loaded once, if it is there."""
        if not rows:
            return []
        wordnet = _wordnet() if self.params.synonyms else None
        return [self._guarded(row, ctx, lambda row, ctx: self._scored(row, ctx, wordnet)) for row in rows]

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Score one row alone."""
        return self.score([row], ctx)[0]

    def _scored(self, row: Row, ctx: EvalContext, wordnet: Any) -> RowScore:
        from nltk.translate.meteor_score import meteor_score

        answer, *expected = (
            nltk_words(sentence.text for sentence in ctx.sentences(text))
            for text in (row.actual_answer or "", *row.expected_answers)
        )
        params = self.params
        value = meteor_score(
            expected, answer, wordnet=wordnet or _NoSynonyms(), alpha=params.alpha, beta=params.beta, gamma=params.gamma
        )
        stages = ["form", "stem", *(["meaning"] if wordnet else [])]
        message = (
            "WordNet is not installed: words match by form and stem alone (python -m nltk.downloader wordnet)."
            if params.synonyms and not wordnet
            else ""
        )
        return RowScore({"meteor": clip(value, 0.0, 1.0)}, evidence=Evidence(message, data={"stages": stages}))


def _wordnet() -> Any:
    """Return NLTK's WordNet, loaded, or ``None`` if its data is not installed."""
    if wordnet_folder() is None:
        return None
    from nltk.corpus import wordnet

    with _loading:
        try:
            wordnet.ensure_loaded()
        except (LookupError, OSError):  # not there, or not all of it
            return None
    return wordnet
