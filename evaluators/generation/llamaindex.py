"""Correctness and faithfulness as LlamaIndex's guide builds them from scratch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pydantic import Field

from leadline.evaluators.core import DataKind, EvalContext, JudgeKey, Metric, Spec, one_metric, register
from leadline.evaluators.data import Evidence, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge_client.reply_parsing import read_number, read_word


class CorrectnessParams(JudgeKey):
    """Parameters of correctness."""

    passing_threshold: float = Field(4.0, ge=1, le=5, description="An answer passes with this score or more.")


class Grade(NamedTuple):
    """A score from 1 to 5, and the reasoning of the judge that gave it."""

    score: float
    reasoning: str


def read_grade(text: str) -> Grade:
    """Read a reply of a line with only the score, followed by the reasoning, which may be missing.

    Raises:
        JudgeUnparseable: The first line that is not blank is no number from 1 to 5.
    """
    score, _, reasoning = text.strip().partition("\n")
    return Grade(read_number(score, 1, 5), reasoning.strip())


@register
class LlamaIndexCorrectness(JudgeEvaluator):
    """Relevance and correctness of the answer against the reference answer, from 1 to 5.

    **Method.** The judge replies with a line with only the score, and its reasoning on the lines after: 1 for an answer
    that is not relevant to the question, 2 to 3 for one with mistakes, 4 to 5 for a correct one. An answer is passing
    with a score of at least ``passing_threshold``, 4.0 by default. Scores need not be whole numbers.

    **Edge cases.**

    * A reply without reasoning is read; one whose first line is no number from 1 to 5 is asked for again, and then the
      row is unscored (the reference counts it as 0 in its averages).
    * With several expected answers the judge is asked about each, and the best score counts.

    **Source.** LlamaIndex, "Building Evaluation from Scratch", "Building a Correctness Evaluator".
    """

    spec = Spec(
        id="llamaindex.correctness",
        name="Correctness 1-5 (LlamaIndex)",
        origin="llamaindex",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                "score",
                "Relevance and correctness of the answer, from 1 to 5.",
                range=(1, 5),
                threshold=4.0,
                primary=True,
            ),
            Metric.higher(
                "passing", "Share of answers whose score is at least the passing threshold.", threshold=None, share=True
            ),
        ),
        judge="llm",
        keywords=("judge", "ground truth"),
        suits=(DataKind.QUESTIONS,),
        source="LlamaIndex, Building Evaluation from Scratch",
    )
    parameters = CorrectnessParams
    params: CorrectnessParams
    prompts = {"grade": prompt_beside(__file__, "llamaindex_correctness.jinja")}  # noqa: RUF012

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        grades = await asyncio.gather(
            *(
                judge.read(
                    "grade",
                    read_grade,
                    query=row.question,
                    reference_answer=reference,
                    generated_answer=row.actual_answer,
                )
                for reference in row.expected_answers
            )
        )
        best = max(grades, key=lambda grade: grade.score)
        return RowScore(
            {"score": best.score, "passing": float(best.score >= self.params.passing_threshold)},
            Evidence(best.reasoning, data={"reasoning": best.reasoning, "scores": [grade.score for grade in grades]}),
        )


YES, NO = WORDS = ("YES", "NO")

LOOK_BACK: Final = 200
"""Characters before the budget's end within which white space is sought to cut a context at."""


class FaithfulnessParams(JudgeKey):
    """Parameters of faithfulness."""

    context_characters: int = Field(
        24_000,
        ge=1_000,
        le=4_000_000,
        description="Most characters of context in one call, some four to a token; more contexts take more calls.",
    )


class YesNoReply(NamedTuple):
    """A judge's reply: its YES or NO, and its full text."""

    word: str
    text: str


def read_answer(text: str) -> YesNoReply:
    """Read a reply in which YES or NO stands alone.

    Raises:
        JudgeUnparseable: None of them does, or both do.
    """
    return YesNoReply(read_word(text, WORDS), text.strip())


def cut(text: str, size: int) -> Iterator[str]:
    """Yield a text in pieces, cut at white space where some is near the end of a piece.

    Args:
        text: The text; a short or empty one is one piece.
        size: Most characters of a piece, above 0.
    """
    start = 0
    while len(text) - start > size:
        end = start + size
        place = max(text.rfind(space, end - min(LOOK_BACK, size // 2), end) for space in " \n\t")
        end = place + 1 if place >= 0 else end
        yield text[start:end]
        start = end
    yield text[start:]


def packed(contexts: Sequence[str], size: int) -> list[list[str]]:
    """Return contexts in their order, packed into calls of limited length; long ones are cut."""
    calls: list[list[str]] = []
    room = 0
    for context in contexts:
        for piece in cut(context, size):
            if not calls or len(piece) > room:
                calls.append([])
                room = size
            calls[-1].append(piece)
            room -= len(piece)
    return calls


@register
class LlamaIndexFaithfulness(JudgeEvaluator):
    """Support of the answer by any of the retrieved contexts: YES or NO.

    **Method.** Create and refine: the judge is asked whether the contexts support the answer. Contexts that do not fit
    ``context_characters`` follow in further calls, which refine the existing answer. An answer of YES stays YES
    whatever follows, by the words of the refining prompt, so that nothing more is asked then. The metric is the share
    of YES.

    **Edge cases.**

    * YES or NO must stand alone in the reply. (The reference takes any text with the letters "yes" in it, such as
      "eyes", for a YES, and anything else for a NO.)
    * A reply with both, none, or one of them in a sentence is asked for again, and then the row is unscored.
    * A context longer than ``context_characters`` is cut, at white space where some is near.
    * A blank answer states nothing: the row is not applicable.

    **Source.** LlamaIndex, "Building Evaluation from Scratch", "Building a Faithfulness Evaluator".
    """

    spec = Spec(
        id="llamaindex.faithfulness",
        name="Faithfulness yes/no, create and refine (LlamaIndex)",
        origin="llamaindex",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=one_metric(
            "passing", "Share of answers that some retrieved context supports.", threshold=None, share=True
        ),
        judge="llm",
        llm=False,
        keywords=("judge", "grounding", "refine"),
        source="LlamaIndex, Building Evaluation from Scratch",
    )
    parameters = FaithfulnessParams
    params: FaithfulnessParams
    prompts = {  # noqa: RUF012
        "create": prompt_beside(__file__, "llamaindex_faithfulness.jinja"),
        "refine": prompt_beside(__file__, "llamaindex_faithfulness_refine.jinja"),
    }

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        information = row.actual_answer or ""
        if not information.strip():
            return RowScore.not_applicable(self.row_metrics, "The answer is blank.")
        first, *others = packed([chunk.content for chunk in row.retrieved_context], self.params.context_characters)
        answers = [await judge.read("create", read_answer, information=information, contexts=first)]
        for contexts in others:
            if answers[-1].word == YES:
                break
            answers.append(
                await judge.read(
                    "refine", read_answer, information=information, contexts=contexts, existing_answer=answers[-1].word
                )
            )
        last = answers[-1]
        return RowScore(
            {"passing": float(last.word == YES)},
            Evidence(last.text, data={"answers": [answer.word for answer in answers], "reason": last.text}),
        )
