"""BLEU-1 to BLEU-4 of an answer against its acceptable answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leadline.evaluators.core import EvalContext, Metric, Spec, register
from leadline.evaluators.data import DataKind, RowField, RowScore, clip
from leadline.evaluators.summarization._overlap import OverlapEvaluator
from leadline.evaluators.text.ngrams import NGrams, bleu
from leadline.evaluators.text.tokens import nltk_words

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
