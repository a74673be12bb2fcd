"""ROUGE of an answer against its acceptable answers, as H2O Sonar and as Valor compute it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from leadline.evaluators.core import DataKind, EvalContext, Metric, Params, Spec, register
from leadline.evaluators.data import Reason, RowField, RowScore, Unscored
from leadline.evaluators.summarization.bleu import VALOR_TEXT_SOURCE, NGrams, OverlapEvaluator, matches
from leadline.evaluators.text.tokens import rouge_words

_TOO_LONG: Final = 3 * 10**11
"""Product of two lengths above which :func:`lcs_length` refuses: 5 to 90 seconds of work."""

_SHORT: Final = 1_000_000
"""Product of two lengths below which turning tokens into characters costs more than it saves."""

_TOO_MUCH: Final = 4 * 10**7
"""Words times lines above which :func:`union_lcs` refuses: up to half a minute of work."""

_ROW_BITS: Final = 2_000_000_000
"""Bits of stored rows above which :func:`union_lcs` refuses: 250 MB."""


def lcs_length(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two token lists.

    ``rapidfuzz`` finds it bit-parallel (Hyyrö 2004): ``len(a) * len(b) / 64`` steps in C++, and memory that grows
    with the lengths only.

    Raises:
        OverflowError: The texts are so long that this could take minutes.
    """
    if len(a) * len(b) > _TOO_LONG:
        raise OverflowError(f"texts of {len(a):,} and {len(b):,} words are too long for a common subsequence")
    from rapidfuzz.distance import LCSseq

    if len(a) * len(b) < _SHORT:
        return LCSseq.similarity(a, b)
    shared = {token: chr(number) for number, token in enumerate(set(a) & set(b))}
    first = "".join([shared[token] for token in a if token in shared])
    second = "".join([shared[token] for token in b if token in shared])
    return LCSseq.similarity(first, second)


def union_lcs(lines: Sequence[Sequence[str]], others: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return, for each line, its tokens that belong to its longest common subsequence with some of the other lines.

    This is the union LCS of ROUGE-Lsum (Lin 2004, section 3.2). Where a longest common subsequence is not unique the
    result depends on the choice, so the choice of ``rouge-score`` is kept: it walks back from the ends through the
    table of lengths, takes equal tokens, else drops a token of the other line if that is strictly better, else one
    of the line.

    Raises:
        OverflowError: The texts have so many or so long lines that this could take minutes or gigabytes.
    """
    mine = list(dict.fromkeys(tuple(line) for line in lines))
    theirs = [(other, frozenset(other)) for other in dict.fromkeys(tuple(other) for other in others)]
    work = sum(map(len, mine)) * len(theirs) + sum(len(other) for other, _ in theirs) * len(mine)
    longest = max(map(len, mine), default=0) * max((len(other) for other, _ in theirs), default=0)
    if work > _TOO_MUCH or longest > _ROW_BITS:
        raise OverflowError(f"{len(mine):,} by {len(theirs):,} lines are too much for a common subsequence by lines")
    known: dict[tuple[str, ...], list[str]] = {}
    for line in mine:
        union: set[int] = set()
        for other, words in theirs:
            if not words.isdisjoint(line):
                union.update(_lcs_indices(line, other))
        known[line] = [line[index] for index in sorted(union)]
    return [known[tuple(line)] for line in lines]


def _lcs_indices(line: Sequence[str], other: Sequence[str]) -> list[int]:
    """Return the positions in ``line`` of the common subsequence that ``rouge-score`` chooses.

    Row i of the table of lengths is kept as one integer (Hyyrö 2004): bit j is 0 where the length grows from column
    j to j + 1. The length at column j is then the number of zeros below bit j.
    """
    places: dict[str, int] = {}
    for j, token in enumerate(other):
        places[token] = places.get(token, 0) | (1 << j)
    full = (1 << len(other)) - 1
    row = full
    rows = [row]
    for token in line:
        hit = row & places.get(token, 0)
        row = ((row + hit) | (row - hit)) & full
        rows.append(row)
    found = []
    i, j = len(line), len(other)
    while i and j:
        if line[i - 1] == other[j - 1]:
            found.append(i - 1)
            i -= 1
            j -= 1
        elif _length(rows[i], j - 1) > _length(rows[i - 1], j):
            j -= 1
        else:
            i -= 1
    return found


def _length(row: int, column: int) -> int:
    return column - (row & ((1 << column) - 1)).bit_count()


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
    """Return the harmonic mean of precision and recall, 0 where nothing matches or a side is empty."""
    precision, recall = matched / max(ours, 1), matched / max(theirs, 1)
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def rouge_n(answer: RougeText, reference: RougeText, n: int) -> float:
    """Return the F1 of the clipped n-gram matches (Lin 2004, section 2)."""
    matched = matches(answer.grams, [reference.grams], n)
    return f1(matched, answer.grams.total(n), reference.grams.total(n))


def rouge_l(answer: RougeText, reference: RougeText) -> float:
    """Return the F1 of the longest common subsequence of the full texts (Lin 2004, section 3.1)."""
    ours, theirs = answer.grams.tokens, reference.grams.tokens
    if not ours or not theirs:
        return 0.0
    return f1(lcs_length(ours, theirs), len(ours), len(theirs))


def rouge_lsum(answer: RougeText, reference: RougeText) -> float:
    """Return the F1 of the union of the lines' common subsequences (Lin 2004, section 3.2).

    Lines count as sentences. A token counts at most as often as it occurs in either text, as in ROUGE 1.5.5.
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


def best(
    compare: Callable[[RougeText, RougeText], float], answer: RougeText, references: Sequence[RougeText]
) -> float | Unscored:
    """Return the highest F1 over the acceptable answers, as ``RougeScorer.score_multi`` does.

    Two texts that are too long to be compared have the reason instead.
    """
    try:
        return max(compare(answer, reference) for reference in references)
    except OverflowError as error:
        return Unscored(Reason.UNSCORABLE, f"Not compared: {error}.")


class RougeParams(Params):
    """Parameters of ROUGE."""

    use_stemmer: bool = Field(
        False, description="Cut English words of more than three letters to their stems before comparing."
    )


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
                "rouge_1": best(partial(rouge_n, n=1), answer, references),
                "rouge_2": best(partial(rouge_n, n=2), answer, references),
                "rouge_l": best(rouge_l, answer, references),
            }
        )


ROUGE_TYPES: Final = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_ROUGE_TYPE: Final = re.compile(r"rouge(?:[1-9]|L|Lsum)")


def _rouge_types(types: tuple[str, ...]) -> tuple[str, ...]:
    for name in types:
        if not _ROUGE_TYPE.fullmatch(name):
            raise ValueError(f"{name!r} is no ROUGE type; they are rouge1 to rouge9, rougeL and rougeLsum")
    if len(set(types)) != len(types):
        raise ValueError("a ROUGE type is named twice")
    return types


def _describe(rouge_type: str) -> str:
    if rouge_type == "rougeL":
        return "F1 of the longest common subsequence of the words of both texts."
    if rouge_type == "rougeLsum":
        return "F1 of the union of the longest common subsequences of the texts' lines."
    return f"F1 of the runs of {rouge_type[5:]} words that both texts share."


def _comparison(rouge_type: str) -> Callable[[RougeText, RougeText], float]:
    if rouge_type == "rougeL":
        return rouge_l
    if rouge_type == "rougeLsum":
        return rouge_lsum
    return partial(rouge_n, n=int(rouge_type[5:]))


def _metrics(types: Sequence[str]) -> tuple[Metric, ...]:
    primary = "rougeL" if "rougeL" in types else types[0]
    return tuple(
        Metric(name, name, True, threshold=None, primary=name == primary, description=_describe(name)) for name in types
    )


class ValorRougeParams(Params):
    """Parameters of Valor's ROUGE."""

    rouge_types: Annotated[
        tuple[str, ...],
        Field(min_length=1, description="Which of rouge1 to rouge9, rougeL and rougeLsum to compute."),
        AfterValidator(_rouge_types),
    ] = ROUGE_TYPES
    rouge_use_stemmer: bool = Field(
        False, description="Cut English words of more than three letters to their stems before comparing."
    )


@register
class ValorRouge(OverlapEvaluator[RougeText]):
    """ROUGE of Valor: the F1 of shared words, pairs of words and common subsequences.

    Method: what Hugging Face's ``evaluate`` computes with ``rouge-score``. With several acceptable answers each type
    takes its own maximum. According to the reference page, rougeL splits sentences at full stops; the library that it
    uses does not: rougeL compares the full texts and ignores line breaks, rougeLsum takes lines for sentences.

    Edge cases: a text without an ASCII letter or digit scores 0; two texts so long that a common subsequence would
    take minutes have rougeL or rougeLsum ``unscored(unscorable)``. The primary metric is rougeL, or the first of
    ``rouge_types`` where rougeL is not among them.

    Source: Striveworks Valor, metrics reference; Lin 2004, https://aclanthology.org/W04-1013.
    """

    spec = Spec(
        id="valor.rouge",
        name="ROUGE (Valor)",
        origin="valor",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=_metrics(ROUGE_TYPES),
        insight_type="summarization",
        problem_type="summarization",
        keywords=("n-gram", "summarization"),
        suits=(DataKind.LIKE_LENGTHS,),
        source=VALOR_TEXT_SOURCE,
    )
    parameters = ValorRougeParams
    params: ValorRougeParams

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """One metric for each of ``rouge_types``."""
        return _metrics(self.params.rouge_types)

    def read(self, text: str, ctx: EvalContext) -> RougeText:
        """Tokenize a text."""
        return RougeText(text, stem=self.params.rouge_use_stemmer)

    def compare(self, answer: RougeText, references: Sequence[RougeText]) -> RowScore:
        """Return one F1 for each of ``rouge_types``."""
        return RowScore({name: best(_comparison(name), answer, references) for name in self.params.rouge_types})
