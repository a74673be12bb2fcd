"""Answer similarity by sentences: does each sentence of the answer have its like in the expected answer?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leadline.evaluators.core import Metric, Spec, register
from leadline.evaluators.core.embedding_evaluator import EmbeddingEvaluator, Vectors, lowest
from leadline.evaluators.data import DataKind, Evidence, Json, Reason, Row, RowField, RowScore, Source, Span
from leadline.evaluators.models.similarity import best_matches
from leadline.evaluators.models.weights import BGE_SMALL_EN_V15

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext


@register
class AnswerSemanticSentenceSimilarity(EmbeddingEvaluator):
    """Assesses how far the sentences of the answer resemble those of the expected answer.

    With ``S`` the cosine of the embeddings::

        similarity(a)           = max over sentences e of the expected answer of S(a, e), for each answer sentence a
        mean answer similarity  = mean over answer sentences of similarity(a)
        min answer similarity   = min over answer sentences of similarity(a)

    A negative cosine counts as 0. With several expected answers, each metric is the best that any one of them gives.
    An answer without a sentence resembles nothing: 0. A row whose expected answers are all blank is unscored.
    """

    spec = Spec(
        id="answer_semantic_sentence_similarity",
        name="Answer Semantic Sentence Similarity Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "mean_answer_similarity",
                "Mean similarity of the answer's sentences to the expected answer.",
                name="Mean Answer similarity",
                primary=True,
            ),
            Metric.higher(
                "min_answer_similarity",
                "Similarity of the answer sentence that is least like the expected answer.",
                name="Min Answer similarity",
            ),
        ),
        gpu=True,
        sentences=True,
        keywords=("embeddings", "similarity"),
        suits=(DataKind.SENTENCES,),
        source="H2O Sonar evaluator reference: Answer Semantic Sentence Similarity Evaluator",
    )
    default_embedder = BGE_SMALL_EN_V15

    def texts(self, row: Row, ctx: EvalContext) -> Iterable[str]:
        """Return the sentences of the answer and of all expected answers."""
        for text in (row.actual_answer or "", *row.expected_answers):
            yield from (sentence.text for sentence in ctx.sentences(text))

    def measure(self, row: Row, vectors: Vectors, ctx: EvalContext) -> RowScore:
        """Score one row."""
        expected = {number: ctx.sentences(text) for number, text in enumerate(row.expected_answers)}
        expected = {number: sentences for number, sentences in expected.items() if sentences}
        if not expected:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The expected answer is blank.")
        answer = ctx.sentences(row.actual_answer or "")
        if not answer:
            return RowScore(dict.fromkeys(self.row_metrics, 0.0), Evidence("The answer holds no sentence."))
        ours = vectors.of(sentence.text for sentence in answer)
        by_expected = {
            number: best_matches(ours, vectors.of(sentence.text for sentence in sentences)).values
            for number, sentences in expected.items()
        }
        nearest = max(by_expected, key=lambda number: by_expected[number].mean())
        values = by_expected[nearest].tolist()
        data: dict[str, Json] = {"sentences": len(answer)}
        if len(row.expected_answers) > 1:
            data["expected_answer"] = nearest
        return RowScore(
            {
                "mean_answer_similarity": float(by_expected[nearest].mean()),
                "min_answer_similarity": float(max(each.min() for each in by_expected.values())),
            },
            Evidence(
                spans=tuple(
                    Span(Source.ACTUAL_ANSWER, answer[at].start, answer[at].end, value=values[at])
                    for at in lowest(values)
                ),
                data=data,
            ),
        )
