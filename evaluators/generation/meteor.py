"""METEOR: words in common, by form, stem or meaning, and in what order."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from leadline.evaluators.core import EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import DataKind, Evidence, Json, Row, RowField, RowScore, clip
from leadline.evaluators.ground import package_version
from leadline.evaluators.text.sentences import nltk_folders
from leadline.evaluators.text.tokens import nltk_words

_loading: Final = threading.Lock()


class MeteorParams(Params):
    """Parameters of METEOR."""

    alpha: Annotated[float, Field(gt=0, lt=1, description="Weight of precision in the harmonic mean.")] = 0.9
    beta: Annotated[float, Field(gt=0, le=20, description="Exponent of the penalty for order.")] = 3.0
    gamma: Annotated[float, Field(ge=0, le=1, description="Greatest penalty for order.")] = 0.5
    synonyms: Annotated[
        bool, Field(description="Whether words match by meaning too, where NLTK's WordNet data is installed.")
    ] = True


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
        metrics=(
            Metric.higher(
                "meteor",
                "Words in common with the expected answer by form, stem or meaning, less for odd order.",
                name="METEOR",
                threshold=None,
            ),
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

    with _loading:  # NLTK's lazy loader is for one thread
        try:
            wordnet.ensure_loaded()
        except (LookupError, OSError):  # not there, or not all of it
            return None
    return wordnet
