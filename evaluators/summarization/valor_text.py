"""ROUGE and BLEU as Valor computes them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from leadline.evaluators.core import EvalContext, Metric, Params, Spec, register
from leadline.evaluators.data import DataKind, RowField, RowScore, clip
from leadline.evaluators.summarization._overlap import OverlapEvaluator
from leadline.evaluators.summarization.rouge import RougeText, best_or_unscored, rouge_l, rouge_lsum, rouge_n
from leadline.evaluators.text.ngrams import NGrams, bleu
from leadline.evaluators.text.tokens import valor_words

ROUGE_TYPES: Final = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_ROUGE_TYPE: Final = re.compile(r"rouge(?:[1-9]|L|Lsum)")
_SOURCE: Final = "Striveworks Valor, metrics reference, non-LLM-guided text comparison metrics"


def _rouge_types(types: tuple[str, ...]) -> tuple[str, ...]:
    for name in types:
        if not _ROUGE_TYPE.fullmatch(name):
            raise ValueError(f"{name!r} is no ROUGE type; they are rouge1 to rouge9, rougeL and rougeLsum")
    if len(set(types)) != len(types):
        raise ValueError("a ROUGE type is named twice")
    return types


def _weights(weights: tuple[float, ...]) -> tuple[float, ...]:
    if not all(weight >= 0 for weight in weights):
        raise ValueError("weights must not be negative")
    if not math.isclose(math.fsum(weights), 1.0, abs_tol=1e-9):
        raise ValueError(f"weights must sum to 1, these sum to {math.fsum(weights):g}")
    return weights


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
    rouge_use_stemmer: Annotated[
        bool,
        Field(description="Cut English words of more than three letters to their stems before comparing."),
    ] = False


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
        source=_SOURCE,
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
        return RowScore(
            {name: best_or_unscored(_comparison(name), answer, references) for name in self.params.rouge_types}
        )


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
        metrics=(
            Metric.higher(
                "bleu",
                "Weighted precision of the answer's n-grams, with a penalty for brevity.",
                name="BLEU",
                threshold=None,
            ),
        ),
        insight_type="summarization",
        problem_type="summarization",
        keywords=("n-gram", "summarization"),
        suits=(DataKind.LIKE_LENGTHS,),
        source=_SOURCE,
    )
    parameters = ValorBleuParams
    params: ValorBleuParams

    def read(self, text: str, ctx: EvalContext) -> NGrams:
        """Tokenize a text."""
        return NGrams(valor_words(text))

    def compare(self, answer: NGrams, references: Sequence[NGrams]) -> RowScore:
        """Return BLEU."""
        return RowScore({"bleu": clip(bleu(answer, references, [self.params.bleu_weights])[0], 0.0, 1.0)})
