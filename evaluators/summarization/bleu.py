"""BLEU of an answer against its acceptable answers: orders alone as in H2O Sonar, their mean as in Valor.

N-grams are counted once for all orders. The base of BLEU and ROUGE prepares each text once, and then compares answers
with what was expected.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Generic, TypeVar

from pydantic import AfterValidator, Field

from leadline.evaluators.core import DataKind, EvalContext, Metric, Params, RowEvaluator, Spec, one_metric, register
from leadline.evaluators.data import Row, RowField, RowScore, clip
from leadline.evaluators.text.tokens import nltk_words, valor_words

T = TypeVar("T")


class OverlapEvaluator(RowEvaluator, Generic[T]):
    """Compares an answer with its acceptable answers, after preparing (tokenizing, counting) each text.

    Rows are scored in the order of their expected answers, so that the references of a case are prepared once for
    all the models that answered it, while only one case's references are in memory.
    """

    @abstractmethod
    def read(self, text: str, ctx: EvalContext) -> T:
        """Prepare a text for ``compare``."""

    @abstractmethod
    def compare(self, answer: T, references: Sequence[T]) -> RowScore:
        """Score an answer."""

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score each row; one row's failure leaves that row unscored and no other."""
        scores: dict[int, RowScore] = {}
        references: dict[str, T] = {}

        def score_one(row: Row, ctx: EvalContext) -> RowScore:
            for text in row.expected_answers:
                if text not in references:
                    references[text] = self.read(text, ctx)
            answer = self.read(row.actual_answer or "", ctx)
            return self.compare(answer, [references[text] for text in row.expected_answers])

        before: tuple[str, ...] = ()
        for index in sorted(range(len(rows)), key=lambda i: rows[i].expected_answers):
            if rows[index].expected_answers != before:
                before = rows[index].expected_answers
                references.clear()
            scores[index] = self._guarded(rows[index], ctx, score_one)
        return [scores[index] for index in range(len(rows))]

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Score one row alone."""
        return self.score([row], ctx)[0]


_NO_MATCH: Final = math.log(sys.float_info.min)
"""NLTK takes the smallest normal float for a precision of zero, unless it is the one of the unigrams."""
_NOTHING: Final = 1e-50
"""BLEU below which an order had no match: matches of the longest texts that are read give more."""


class NGrams:
    """The tokens of one text and, counted when first asked for, its n-grams."""

    __slots__ = ("_counts", "tokens")

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self._counts: dict[int, Counter[str] | Counter[tuple[str, ...]]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def total(self, n: int) -> int:
        """Return the number of n-grams."""
        return max(0, len(self.tokens) - n + 1)

    def counts(self, n: int) -> Mapping[object, int]:
        """Return how often each n-gram occurs; the keys are strings for n = 1, else tuples."""
        found = self._counts.get(n)
        if found is None:
            tokens = self.tokens
            found = Counter(tokens) if n == 1 else Counter(zip(*(tokens[i:] for i in range(n)), strict=False))
            self._counts[n] = found
        return found  # type: ignore[return-value]


def matches(hypothesis: NGrams, references: Sequence[NGrams], n: int) -> int:
    """Return how many n-grams of the hypothesis stand in a reference, each counted at most as often as there."""
    ours = hypothesis.counts(n)
    if len(references) == 1:
        theirs = references[0].counts(n)
        return sum(min(ours[gram], theirs[gram]) for gram in ours.keys() & theirs.keys())
    best: dict[object, int] = {}
    for reference in references:
        theirs = reference.counts(n)
        for gram in ours.keys() & theirs.keys():
            best[gram] = max(best.get(gram, 0), theirs[gram])
    return sum(min(ours[gram], count) for gram, count in best.items())


def bleu(hypothesis: NGrams, references: Sequence[NGrams], weightings: Sequence[Sequence[float]]) -> list[float]:
    """Return sentence BLEU without smoothing for several weightings of the n-gram orders at once.

    Papineni et al. 2002, https://aclanthology.org/P02-1040, as ``nltk.translate.bleu_score.sentence_bleu`` computes
    it, edge cases included: the reference length is the one closest to the hypothesis (the shorter of two equally
    close), no common unigram gives 0, and an order n > 1 without a match has NLTK's precision of 2.2e-308. What comes
    of that, far below any BLEU of matches, is 0.

    Args:
        hypothesis: The text to score.
        references: At least one reference.
        weightings: The weight of unigrams, bigrams, ... in the geometric mean, each of any length.
    """
    highest = max(len(weights) for weights in weightings)
    matched = matches(hypothesis, references, 1)
    if matched == 0:
        return [0.0] * len(weightings)
    logs = []
    for n in range(1, highest + 1):
        if n > 1 and matched:  # where no (n-1)-gram matches, no n-gram does
            matched = matches(hypothesis, references, n)
        logs.append(math.log(matched / hypothesis.total(n)) if matched else _NO_MATCH)
    length = len(hypothesis)
    closest = min((len(reference) for reference in references), key=lambda other: (abs(other - length), other))
    brevity = 1.0 if length > closest else math.exp(1 - closest / length)
    values = (
        brevity * math.exp(math.fsum(weight * log for weight, log in zip(weights, logs, strict=False)))
        for weights in weightings
    )
    return [value if value > _NOTHING else 0.0 for value in values]


VALOR_TEXT_SOURCE: Final = "Striveworks Valor, metrics reference, non-LLM-guided text comparison metrics"

ORDERS: Final = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
"""NLTK's weights of BLEU-1 to BLEU-4: each order of n-grams alone."""
_GRAMS: Final = ("single words", "pairs of words", "triples of words", "runs of four words")


@register
class Bleu(OverlapEvaluator[NGrams]):
    """BLEU-n: the precision of the answer's n-grams in the expected answer, with a penalty for brevity.

    Method: the texts are cut into sentences and those into words with NLTK's word tokenizer. BLEU-n is the number of
    the answer's n-grams that stand in the expected answer too, divided by the number of all n-grams of the answer,
    times ``min(1, exp(1 - r/c))``, where c is the number of words of the answer and r that of the acceptable answer
    closest in length. An n-gram counts at most as often as the expected answer has it; with several acceptable
    answers it may match in any of them. This is NLTK's ``sentence_bleu`` without smoothing, with all weight on the
    order n: (1, 0, 0, 0) for BLEU-1 to (0, 0, 0, 1) for BLEU-4, as H2O Sonar calls it.

    **Not the cumulative BLEU.** The papers on translation, and ``valor.bleu`` here, mean by BLEU-4 the geometric mean
    of the precisions of all orders from 1 to 4. Here each order stands alone, as the reference describes it, so that
    BLEU-2 to BLEU-4 are lower than their cumulative namesakes, as a rule; BLEU-1 is the same. For "the cat sat on the
    red mat today" where "the cat sat on the mat" is expected, the four are 6/8, 4/7, 3/6 and 2/5; cumulative BLEU-4 is
    their geometric mean, 0.54.

    Edge cases: an answer without a word in common (an empty one too) scores 0; an answer that shares words but, for
    example, no run of three scores 0 in BLEU-3 and BLEU-4, where NLTK gives 2.2e-308 or less; so does a text shorter
    than n words, even a right one.

    Source: H2O Sonar evaluator reference, "BLEU Evaluator"; Papineni et al. 2002, "BLEU: a Method for Automatic
    Evaluation of Machine Translation", https://aclanthology.org/P02-1040;
    https://www.nltk.org/_modules/nltk/translate/bleu_score.html.
    """

    spec = Spec(
        id="bleu",
        name="BLEU Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=tuple(
            Metric.higher(
                f"bleu_{n}",
                f"Share of the answer's {_GRAMS[n - 1]} that stand in the expected answer too, with a "
                "penalty for brevity.",
                name=f"BLEU-{n}",
                primary=n == 1,
            )
            for n in range(1, 5)
        ),
        version="3",
        sentences=True,
        insight_type="summarization",
        problem_type="summarization",
        keywords=("n-gram", "summarization"),
        suits=(DataKind.LIKE_LENGTHS,),
        source="Papineni et al. 2002, https://aclanthology.org/P02-1040; NLTK sentence_bleu",
    )

    def read(self, text: str, ctx: EvalContext) -> NGrams:
        """Tokenize a text, sentence by sentence."""
        return NGrams(nltk_words(sentence.text for sentence in ctx.sentences(text)))

    def compare(self, answer: NGrams, references: Sequence[NGrams]) -> RowScore:
        """Return BLEU-1 to BLEU-4."""
        values = bleu(answer, references, ORDERS)
        return RowScore({f"bleu_{n}": clip(value, 0.0, 1.0) for n, value in enumerate(values, 1)})


def _weights(weights: tuple[float, ...]) -> tuple[float, ...]:
    if not all(weight >= 0 for weight in weights):
        raise ValueError("weights must not be negative")
    if not math.isclose(math.fsum(weights), 1.0, abs_tol=1e-9):
        raise ValueError(f"weights must sum to 1, these sum to {math.fsum(weights):g}")
    return weights


class ValorBleuParams(Params):
    """Parameters of Valor's BLEU."""

    bleu_weights: Annotated[
        tuple[float, ...],
        Field(min_length=1, max_length=100, description="Weights of 1-grams, 2-grams, ...; they sum to 1."),
        AfterValidator(_weights),
    ] = (0.25, 0.25, 0.25, 0.25)


@register
class ValorBleu(OverlapEvaluator[NGrams]):
    r"""BLEU of Valor: the weighted precision of the answer's n-grams in the acceptable answers.

    Method: ``nltk.translate.bleu_score.sentence_bleu`` without smoothing, all acceptable answers as references, on
    the tokens ``\w+|\$[\d]+|[^\s\.]+`` of the full text, case kept. By default the orders 1 to 4 weigh the same.

    Edge cases: no word in common scores 0; an order of positive weight without a match (also one longer than the
    text) brings the score near 0, because NLTK then takes the smallest float as its precision.

    Source: Striveworks Valor, metrics reference; Papineni et al. 2002, https://aclanthology.org/P02-1040.
    """

    spec = Spec(
        id="valor.bleu",
        version="2",
        name="BLEU (Valor)",
        origin="valor",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=one_metric(
            "bleu",
            "Weighted precision of the answer's n-grams, with a penalty for brevity.",
            name="BLEU",
            threshold=None,
        ),
        insight_type="summarization",
        problem_type="summarization",
        keywords=("n-gram", "summarization"),
        suits=(DataKind.LIKE_LENGTHS,),
        source=VALOR_TEXT_SOURCE,
    )
    parameters = ValorBleuParams
    params: ValorBleuParams

    def read(self, text: str, ctx: EvalContext) -> NGrams:
        """Tokenize a text."""
        return NGrams(valor_words(text))

    def compare(self, answer: NGrams, references: Sequence[NGrams]) -> RowScore:
        """Return BLEU."""
        return RowScore({"bleu": clip(bleu(answer, references, [self.params.bleu_weights])[0], 0.0, 1.0)})
