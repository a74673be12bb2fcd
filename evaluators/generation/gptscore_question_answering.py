"""GPTScore of conversations: would a language model say that the answer is interesting, relevant, correct …?"""

from __future__ import annotations

from collections.abc import Sequence

from leadline.evaluators.core import Spec, register
from leadline.evaluators.data import Row, RowField
from leadline.evaluators.generation._gptscore import Aspect, GptScore, metrics_of
from leadline.evaluators.models.language_models.likelihood import Passage

TARGET = "Answer: Yes"


def _asking(whether: str) -> str:
    return (
        "Answer the question based on the conversation between a human and AI.\n"
        f"Question: Are the responses of AI {whether}? (a) Yes. (b) No.\n"
        "Conversation: "
    )


ASPECTS = (
    Aspect("interest", "Interest", "Is the answer interesting?", _asking("interesting")),
    Aspect("engagement", "Engagement", "Is the answer engaging?", _asking("engaging")),
    Aspect("understandability", "Understandability", "Is the answer understandable?", _asking("understandable")),
    Aspect(
        "relevance",
        "Relevance",
        "How well is the answer relevant to its source text?",
        _asking("relevant to the conversation"),
    ),
    Aspect(
        "specific",
        "Specific",
        "Is the answer generic or specific to the source text?",
        _asking("generic or specific to the conversation"),
    ),
    Aspect(
        "correctness",
        "Correctness",
        "Is the answer correct or was there a misunderstanding of the source text?",
        _asking("correct to conversations"),
    ),
    Aspect(
        "semantically_appropriate",
        "Semantically Appropriate",
        "Is the answer semantically appropriate?",
        _asking("semantically appropriate"),
    ),
    Aspect("fluency", "Fluency", "Is the answer well-written and grammatical?", _asking("fluently written")),
)


@register
class GptScoreQuestionAnswering(GptScore):
    """Assesses an answer by how readily a language model says yes when it is asked about a quality of it.

    Each metric is GPTScore's average negative log-likelihood per token (https://arxiv.org/abs/2302.04166; lower is
    better) of ``Answer: Yes`` after a question about the conversation, which is ``human: {question}`` and, on the next
    line, ``AI: {answer}``. Only the tokens of ``Answer: Yes`` count. An empty answer is part of a conversation like any
    other and is scored. When the conversation is longer than the model reads, its end and the question about it stay,
    and the row says so.
    """

    spec = Spec(
        id="gptscore_question_answering",
        name="Question Answering (GPTScore) Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=metrics_of(ASPECTS),
        gpu=True,
        keywords=("GPTScore", "language model", "dialogue"),
        source="H2O Sonar evaluator reference: Question Answering (GPTScore) Evaluator; https://arxiv.org/abs/2302.04166",
    )
    aspects = ASPECTS

    def missing(self, row: Row) -> str:
        """Return nothing: every conversation can be asked about."""
        return ""

    def passages(self, row: Row, instruction: str) -> Sequence[Sequence[Passage]]:
        """Return the one passage whose target is the word yes."""
        history = f"human: {row.question or ''}\nAI: {row.actual_answer or ''}"
        return [(Passage(TARGET, f"{instruction}{history}\n", len(instruction)),)]
