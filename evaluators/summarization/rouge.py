"""ROUGE-1, ROUGE-2 and ROUGE-L of an answer against its acceptable answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated

from pydantic import Field

from leadline.evaluators.core import EvalContext, Metric, Params, Spec, register
from leadline.evaluators.data import DataKind, Reason, RowField, RowScore, Unscored
from leadline.evaluators.summarization._overlap import OverlapEvaluator
from leadline.evaluators.text.alignment import lcs_length, union_lcs
from leadline.evaluators.text.ngrams import NGrams, matches
from leadline.evaluators.text.tokens import rouge_words


class RougeText:
    """A text with its words, counted n-grams and, for ROUGE-Lsum, the words of its lines."""

    def __init__(self, text: str, *, stem: bool) -> None:
        self._text = text
        self._stem = stem
        self.grams = NGrams(rouge_words(text, stem=stem))

    @cached_property
    def lines(self) -> list[list[str]]:
        """The words of each line; ``rouge-score`` takes lines for sentences here."""
        return [rouge_words(line, stem=self._stem) for line in self._text.split("\n") if line]


def f1(matched: int, ours: int, theirs: int) -> float:
    """Return the harmonic mean of precision and recall, 0 where nothing matches or a side is empty.

    Args:
        matched: Units that both texts share.
        ours: Units of the answer.
        theirs: Units of the reference.
    """
    precision, recall = matched / max(ours, 1), matched / max(theirs, 1)
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def rouge_n(answer: RougeText, reference: RougeText, n: int) -> float:
    """Return the F1 of the clipped n-gram matches (Lin 2004, section 2).

    Args:
        reference: The acceptable answer.
        n: Words of an n-gram.
    """
    matched = matches(answer.grams, [reference.grams], n)
    return f1(matched, answer.grams.total(n), reference.grams.total(n))


def rouge_l(answer: RougeText, reference: RougeText) -> float:
    """Return the F1 of the longest common subsequence of the full texts (Lin 2004, section 3.1).

    Args:
        reference: The acceptable answer.
    """
    ours, theirs = answer.grams.tokens, reference.grams.tokens
    if not ours or not theirs:
        return 0.0
    return f1(lcs_length(ours, theirs), len(ours), len(theirs))


def rouge_lsum(answer: RougeText, reference: RougeText) -> float:
    """Return the F1 of the union of the lines' common subsequences (Lin 2004, section 3.2).

    Lines count as sentences. A token counts at most as often as it occurs in either text, as in ROUGE 1.5.5.

    Args:
        reference: The acceptable answer.
    """
    ours, theirs = answer.grams.counts(1), reference.grams.counts(1)
    n, m = answer.grams.total(1), reference.grams.total(1)
    if not n or not m:
        return 0.0
    found: dict[str, int] = {}
    for tokens in union_lcs(reference.lines, answer.lines):
        for token in tokens:
            found[token] = found.get(token, 0) + 1
    return f1(sum(min(count, ours[token], theirs[token]) for token, count in found.items()), n, m)


def best(compare: Callable[[RougeText, RougeText], float], answer: RougeText, references: Sequence[RougeText]) -> float:
    """Return the highest F1 over the acceptable answers, as ``RougeScorer.score_multi`` does.

    Args:
        compare: Compares an answer with one reference.
        references: The acceptable answers.
    """
    return max(compare(answer, reference) for reference in references)


def best_or_unscored(
    compare: Callable[[RougeText, RougeText], float], answer: RougeText, references: Sequence[RougeText]
) -> float | Unscored:
    """Return :func:`best`, or the reason why two huge texts were not compared.

    Args:
        compare: Compares an answer with one reference.
        references: The acceptable answers.
    """
    try:
        return best(compare, answer, references)
    except OverflowError as error:
        return Unscored(Reason.UNSCORABLE, f"Not compared: {error}.")


class RougeParams(Params):
    """Parameters of ROUGE."""

    use_stemmer: Annotated[
        bool,
        Field(description="Cut English words of more than three letters to their stems before comparing."),
    ] = False


@register
class Rouge(OverlapEvaluator[RougeText]):
    """ROUGE: the F1 of words (ROUGE-1), pairs of words (ROUGE-2) and the longest common subsequence (ROUGE-L).

    Method: words are the lower-case runs of ASCII letters and digits, as in ``rouge-score``, whose default without
    stemming is kept. Precision is the share of the answer's n-grams that stand in the expected answer (each counted
    at most as often as there), recall the reverse, and the score is their harmonic mean. With several acceptable
    answers each metric takes its own highest F1.

    Edge cases: a text without an ASCII letter or digit (empty, or in another script) scores 0. ROUGE-L of two texts
    of several hundred thousand words each is not computed but ``unscored(unscorable)``.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", https://aclanthology.org/W04-1013;
    https://github.com/google-research/google-research/tree/master/rouge.
    """

    spec = Spec(
        id="rouge",
        name="ROUGE Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric("rouge_1", "ROUGE-1", True, description="F1 of the words that answer and expected answer share."),
            Metric("rouge_2", "ROUGE-2", True, description="F1 of the pairs of words that they share."),
            Metric("rouge_l", "ROUGE-L", True, primary=True, description="F1 of their longest common subsequence."),
        ),
        insight_type="summarization",
        problem_type="summarization",
        keywords=("n-gram", "summarization"),
        suits=(DataKind.LIKE_LENGTHS,),
        source="Lin 2004, https://aclanthology.org/W04-1013; rouge-score",
    )
    parameters = RougeParams
    params: RougeParams

    def read(self, text: str, ctx: EvalContext) -> RougeText:
        """Tokenize a text."""
        return RougeText(text, stem=self.params.use_stemmer)

    def compare(self, answer: RougeText, references: Sequence[RougeText]) -> RowScore:
        """Return ROUGE-1, ROUGE-2 and ROUGE-L."""
        return RowScore(
            {
                "rouge_1": best(lambda a, b: rouge_n(a, b, 1), answer, references),
                "rouge_2": best(lambda a, b: rouge_n(a, b, 2), answer, references),
                "rouge_l": best_or_unscored(rouge_l, answer, references),
            }
        )
