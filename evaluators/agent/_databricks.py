"""Shared parts of the Databricks judges: ratings of rows and chunks, and the facts that a dataset may give.

``plugins/databricks/databricks_table.py`` reads what a score's evidence keeps of ratings of chunks: under
``assessment`` the lists ``ratings``, ``rationales`` and ``error_messages``.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.data.row import Evidence, Json, Reason, Row, RowScore, Unscored
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator
from leadline.evaluators.judge.rating import Assessment, rated
from leadline.evaluators.judge.verdicts import chunk_spans
from leadline.evaluators.judge_client.failures import JudgeError

SOURCE: Final = "Databricks, Mosaic AI Agent Evaluation LLM judges reference"
FACTS: Final = "expected_facts"
"""Key of the metadata in which a dataset may give facts instead of an expected answer."""


class RatingEvaluator(JudgeEvaluator):
    """A Databricks judge that gives a row one rating: yes is 1 and no is 0."""

    @abstractmethod
    async def assess(self, row: Row, judge: Judge) -> Assessment | None:
        """Rate a row; ``None`` when it has no ground truth to be rated by.

        Args:
            row: A row that has all required inputs.
            judge: The judge to ask.
        """

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        assessment = await self.assess(row, judge)
        if assessment is None:
            return RowScore.not_applicable(self.row_metrics, "The case has neither an expected answer nor facts.")
        return rated(self.row_metrics[0], assessment)


async def rate_chunks(row: Row, metric: str, assess: Callable[[str], Awaitable[Assessment]]) -> RowScore:
    """Rate each retrieved chunk by a call of its own; the score is the share of chunks rated yes.

    Equal chunks of equal questions are asked about once, whichever models retrieved them. A chunk whose call fails
    leaves the row unscored: the share is not known. The ratings of the other chunks are kept all the same.

    Args:
        metric: The metric's key.
        assess: Rates the text of one chunk.
    """
    replies = await asyncio.gather(*(_guarded(chunk.content, assess) for chunk in row.retrieved_context))
    assessment: dict[str, Json] = {
        "ratings": [reply.rating if isinstance(reply, Assessment) else None for reply in replies],
        "rationales": [reply.rationale if isinstance(reply, Assessment) else None for reply in replies],
        "error_messages": [str(reply) if isinstance(reply, JudgeError) else None for reply in replies],
    }
    errors = [reply for reply in replies if isinstance(reply, JudgeError)]
    if errors:
        message = f"{len(errors)} of {len(replies)} chunks were not rated: {errors[0]}"
        return RowScore({metric: Unscored(errors[0].reason, message)}, Evidence(data={"assessment": assessment}))
    if not replies:
        return RowScore.unscored((metric,), Reason.UNSCORABLE, "No chunk was retrieved.")
    ratings = [isinstance(reply, Assessment) and reply.rating == "yes" for reply in replies]
    return RowScore(
        {metric: sum(ratings) / len(ratings)},
        Evidence(
            f"{sum(ratings)} of {len(ratings)} retrieved chunks are rated yes.",
            chunk_spans(row.retrieved_context, ratings, "yes", "no"),
            {"assessment": assessment},
        ),
    )


async def _guarded(text: str, assess: Callable[[str], Awaitable[Assessment]]) -> Assessment | JudgeError:
    if not text.strip():
        return Assessment(rationale="The chunk is blank.", rating="no")
    try:
        return await assess(text)
    except JudgeError as error:
        return error


def facts_of(row: Row) -> tuple[str, ...]:
    """Return the facts that an answer must support, as far as the dataset names any."""
    given = row.metadata.get(FACTS)
    facts: Sequence[object] = (given,) if isinstance(given, str) else given if isinstance(given, Sequence) else ()
    return tuple(fact for fact in facts if isinstance(fact, str) and fact.strip())


def has_ground_truth(row: Row) -> bool:
    """Return whether a row has an expected answer or facts."""
    return bool(row.expected_answers or facts_of(row))
