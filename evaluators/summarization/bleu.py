"""BLEU-1 to BLEU-4 of an answer against its acceptable answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from evaluators.base import Spec
from evaluators.metrics import Metric
from evaluators.registry import register
from evaluators.summarization._overlap import OverlapEvaluator
from evaluators.text.ngrams import NGrams, bleu
from evaluators.text.tokens import nltk_words
from evaluators.toolbox import Toolbox
from evaluators.types import Field, RowScore, clip

UNIFORM: Final = tuple((1 / n,) * n for n in range(1, 5))
_GRAMS: Final = ("single words", "pairs of words", "triples of words", "runs of four words")


@register
class Bleu(OverlapEvaluator[NGrams]):
    """BLEU-n: the precision of the answer's n-grams in the expected answer, with a penalty for brevity.

    Method: the texts are cut into sentences and those into words with NLTK's word tokenizer. BLEU-n is NLTK's
    ``sentence_bleu`` with the weights 1/n for the orders 1 to n, without smoothing: the geometric mean of the clipped
    n-gram precisions times ``min(1, exp(1 - r/c))``, where c is the number of words of the answer and r that of the
    acceptable answer closest in length. With several acceptable answers an n-gram may match in any of them.

    Edge cases, all NLTK's: an answer without a word in common (an empty one too) scores 0; an answer that shares
    words but, for example, no run of three scores a number near 0 (below 1e-75) in BLEU-3 and BLEU-4; so does a
    text shorter than n words, even a right one.

    Source: Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation",
    https://aclanthology.org/P02-1040; https://www.nltk.org/_modules/nltk/translate/bleu_score.html.
    """

    spec = Spec(
        id="bleu",
        name="BLEU Evaluator",
        family="summarization",
        inputs=(Field.EXPECTED_ANSWER, Field.ACTUAL_ANSWER),
        metrics=tuple(
            Metric(
                key=f"bleu_{n}",
                name=f"BLEU-{n}",
                higher_is_better=True,
                primary=n == 1,
                description=f"Precision of {_GRAMS[n - 1]}"
                + (" and shorter runs" if n > 1 else "")
                + " of the answer in the expected answer, with a penalty for brevity.",
            )
            for n in range(1, 5)
        ),
        sentences=True,
        keywords=("n-gram", "summarization"),
        source="Papineni et al. 2002, https://aclanthology.org/P02-1040; NLTK sentence_bleu",
    )

    def read(self, text: str, tools: Toolbox) -> NGrams:
        """Tokenize a text, sentence by sentence."""
        return NGrams(nltk_words(sentence.text for sentence in tools.sentences(text)))

    def compare(self, answer: NGrams, references: Sequence[NGrams]) -> RowScore:
        """Return BLEU-1 to BLEU-4."""
        values = bleu(answer, references, UNIFORM)
        return RowScore({f"bleu_{n}": clip(value, 0.0, 1.0) for n, value in enumerate(values, 1)})
