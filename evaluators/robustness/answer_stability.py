"""Answer stability: are the answers to copies of a question alike?"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from leadline.evaluators.core import Metric, RowEvaluator, Spec, register
from leadline.evaluators.core.model_evaluator import EmbeddingParams, quote
from leadline.evaluators.data import Evidence, Json, Row, RowField, RowScore, clip
from leadline.evaluators.models import weights
from leadline.evaluators.models.weights import BGE_SMALL_EN_V15

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext
    from leadline.evaluators.ground import ModelRef


class StabilityParams(EmbeddingParams):
    """Parameters of answer stability."""

    likeness: Annotated[
        Literal["words", "embedding"],
        Field(description="What makes two answers alike: words in common, or embeddings that are near."),
    ] = "words"


def normalized(text: str) -> list[str]:
    """Return a text's words in one form: small letters, without punctuation and accents' variants."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(letter if letter.isalnum() else " " for letter in plain).split()


def word_f1(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the F1 of the words that two texts share, each as often as both have it; 1 for two without words.

    Args:
        one: Words of a text.
        other: Words of another.
    """
    if not one or not other:
        return float(not one and not other)
    shared = sum((Counter(one) & Counter(other)).values())
    return 2 * shared / (len(one) + len(other))


@register
class AnswerStability(RowEvaluator):
    """Likeness of an answer to the same model's answer to the original question, of which this one is a copy.

    **Method.** A copy is a case that is linked to its original, as ``perturb`` makes them, or one that asks and expects
    the same as a case before it, as in a suite whose questions are put several times. Its answer is compared with the
    model's answer to the original (to the first one, of equal questions). ``answer_stability`` is by default the F1 of
    the words that both share, in small letters and without punctuation, each as often as both have it; with
    ``likeness=embedding`` the cosine of their embeddings, a negative one counting as 0. ``same_answer`` is the share of
    copies with the very same words in the same order.

    Means are over the copies, whose number a model's row count tells; an original is compared with nothing and not
    applicable. Whether an answer was right before and is wrong after is what perturbation flips tell; this metric needs
    no expected answer.

    **Edge cases.**

    * Two answers without a word are the same; one without a word is unlike any other.
    * An original whose host returned an error leaves its copies not applicable.

    **Source.** Rajpurkar et al. 2016, "SQuAD", https://aclanthology.org/D16-1264, for the F1 of words; consistency over
    reworded questions: Elazar et al. 2021, https://aclanthology.org/2021.tacl-1.60.
    """

    spec = Spec(
        id="answer_stability",
        name="Answer stability",
        inputs=(RowField.ORIGINAL_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "answer_stability",
                "Likeness of the answers to copies of a question to the answer to the original.",
                threshold=None,
                primary=True,
            ),
            Metric.higher(
                "same_answer",
                "Share of copies whose answer has the very same words as that to the original.",
                threshold=None,
                share=True,
            ),
        ),
        insight_type="robustness",
        problem_type="robustness",
        keywords=("consistency", "perturbation", "repeat", "determinism", "variance"),
        source="Rajpurkar et al. 2016, https://aclanthology.org/D16-1264; Elazar et al. 2021",
    )
    parameters = StabilityParams
    params: StabilityParams

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return the embedder, where embeddings are compared."""
        if self.params.likeness == "words":
            return ()
        return (weights.embedder(self.params.embedding_model, BGE_SMALL_EN_V15, ctx.settings),)

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return what keys cover: the model by what it is, not by how it was named."""
        out = super().identity(ctx)
        out["params"] = {name: value for name, value in self.params.identity().items() if name != "embedding_model"}
        return out

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        """Return the answers, where embeddings are compared."""
        return {ref: _answers(rows) for ref in self.models(ctx)}

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score each row; where embeddings are compared, all answers are encoded at once.

        Raises:
            ModelUnavailable: The embedder's weights are not here.
        """
        cosines: dict[tuple[str, str], float] = {}
        for ref in self.models(ctx) if rows else ():
            texts = _answers(rows)
            place = {text: number for number, text in enumerate(texts)}
            vectors = ctx.embed(ref, texts)
            for row in rows:
                one, other = row.original_answer or "", row.actual_answer or ""
                cosines[one, other] = float(vectors[place[one]] @ vectors[place[other]])
        return [self._guarded(row, ctx, lambda row, _: _compared(row, cosines)) for row in rows]

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Score one row alone."""
        return self.score([row], ctx)[0]


def _answers(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(text or "" for row in rows for text in (row.original_answer, row.actual_answer)))


def _compared(row: Row, cosines: Mapping[tuple[str, str], float]) -> RowScore:
    original, answer = row.original_answer or "", row.actual_answer or ""
    ours, theirs = normalized(answer), normalized(original)
    likeness = cosines.get((original, answer))
    value = word_f1(ours, theirs) if likeness is None else clip(likeness, 0.0, 1.0)
    same = ours == theirs
    message = "" if same else f"The answer to the original is: {quote(original)}"
    return RowScore({"answer_stability": value, "same_answer": float(same)}, Evidence(message))
