"""Estimating what judges would cost, and refusing a limit of cost where a model's price is unknown."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from leadline.evaluators.core import EvalContext, Evaluator, asked_judge
from leadline.evaluators.data import RowField
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge.judge_evaluator import JudgeEvaluator
from leadline.evaluators.judge_client.budget import Limits, cost, price
from leadline.evaluators.judge_client.client import CHARACTERS_PER_TOKEN
from leadline.evaluators.settings import JudgeConfig, Settings, members_of
from leadline.tasks.db import sql
from leadline.tasks.plan.jobs import EvaluatorJob, local_chunk_size

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


PROMPT_TOKENS: Final = 350
"""Instructions of a prompt, on top of the texts that it shows."""

REPLY_TOKENS: Final = 200
"""A verdict with its reason."""

_LENGTHS: Final[dict[RowField, str]] = {
    RowField.QUESTION: "coalesce(length(cases.question), 0)",
    RowField.EXPECTED_ANSWER: "length(array_to_string(cases.expected_answers, ' '))",
    RowField.RETRIEVED_CONTEXT: "coalesce(list_sum([length(chunk.content) for chunk in rows.retrieved_context]), 0)",
    RowField.ACTUAL_ANSWER: "coalesce(length(rows.actual_answer), 0)",
    RowField.CONDITION: "coalesce(length(cases.condition), 0)",
    RowField.MESSAGES: "coalesce(length(talks.messages), 0)",
    RowField.HISTORY: "coalesce(length(talks.history), 0)",
    RowField.TOOL_CALLS: "coalesce(length(talks.tool_calls), 0)",
    RowField.TOOLS: "coalesce(length(talks.tools), 0)",
    RowField.SCENARIO: "coalesce(length(talks.scenario), 0)",
    RowField.RIVAL_ANSWERS: "coalesce(length(rows.actual_answer), 0)",  # one of them at a time, of like length
}
_LINES: Final = (
    "the two lines input_cost_per_token = 1.5e-7 and output_cost_per_token = 6e-7, with its own prices in USD; or "
    "limit the number of calls instead: --max-calls N."
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated judge calls of an evaluator.

    Attributes:
        calls: Calls, if none of them has to be made twice.
        cost_usd: Their price, ``None`` when the judge's price is unknown.
        tokens: Tokens of their prompts and replies.
    """

    calls: int
    cost_usd: float | None
    tokens: int = 0

    def of_calls(self, calls: int) -> Estimate:
        """Return the estimate of another number of calls."""
        share = calls / self.calls if self.calls else 0.0
        return Estimate(calls, None if self.cost_usd is None else self.cost_usd * share, round(self.tokens * share))


def estimate(connection: DuckDBPyConnection, job: EvaluatorJob, settings: Settings) -> Estimate | None:
    """Estimate a job's judge calls; ``None`` for one that asks no judge.

    Args:
        connection: A connection on which :func:`leadline.tasks.plan.planner.plan` has run.
    """
    evaluator = job.build()
    if not evaluator.spec.judge:
        return None
    length = " + ".join(_LENGTHS[field] for field in evaluator.reads if field in _LENGTHS) or "0"
    scores, characters = connection.execute(
        sql("plan/estimate").format(length=length, evaluator_id=job.evaluator_id)
    ).fetchall()[0]
    calls = _calls(connection, job, evaluator, scores)
    judge = _judge(evaluator, settings)
    prompt = math.ceil(PROMPT_TOKENS + characters / CHARACTERS_PER_TOKEN)
    if judge is None:
        return Estimate(calls, None, calls * (prompt + REPLY_TOKENS))
    guidances = [member.guidance_for(job.evaluator) for member in members_of(judge)]
    prompt += math.ceil(max(each.length if each else 0 for each in guidances) / CHARACTERS_PER_TOKEN)
    usd, every = cost(judge, prompt, REPLY_TOKENS), calls * len(members_of(judge))
    return Estimate(every, None if usd is None else calls * usd, every * (prompt + REPLY_TOKENS))


def _calls(connection: DuckDBPyConnection, job: EvaluatorJob, evaluator: Evaluator, scores: int) -> int:
    """Return about how many calls a job needs; a pair of answers counts once, though the rows of both models ask it."""
    if not isinstance(evaluator, JudgeEvaluator):
        return scores
    pairs = evaluator.pairs_to_ask()
    if pairs is None:
        return math.ceil(scores * evaluator.calls_per_row())
    values = {"evaluator_id": job.evaluator_id, "most": pairs.most_rivals, "baseline": pairs.baseline}
    (number,) = connection.execute(sql("plan/pairs_to_ask"), values).fetchall()[0]
    return math.ceil(float(number) * pairs.calls)


def require_prices(evaluators: Iterable[Evaluator], settings: Settings, limits: Limits) -> None:
    """Refuse judges whose price is unknown where money is limited.

    Raises:
        UsageError: The price of a judge is unknown.
    """
    for evaluator in evaluators:
        judge = _judge(evaluator, settings) if evaluator.spec.judge else None
        if judge is not None:
            require_judge_price(judge, limits)


def with_canaries(
    connection: DuckDBPyConnection,
    jobs: Sequence[EvaluatorJob],
    estimates: Mapping[str, Estimate | None],
    canaries: Sequence[Container[str]],
    settings: Settings,
) -> dict[str, Estimate | None]:
    """Add the cost of canaries, which are asked with every chunk; chunks are counted as if cut for this machine.

    Args:
        connection: A connection on which :func:`leadline.tasks.plan.planner.plan` has run.
        estimates: The estimates without canaries, by id.
        canaries: For each the evaluators that it is put to.
    """
    judging = [job.evaluator_id for job in jobs if job.lane == "judge"]
    counts = "SELECT count(DISTINCT row_id) FROM to_compute WHERE evaluator_id IN (SELECT unnest(?))"
    (rows,) = connection.execute(counts, [judging]).fetchall()[0]
    chunks = -(-rows // local_chunk_size("judge", rows, 1)) if rows else 0
    out = dict(estimates)
    for job in jobs:
        known, evaluator = estimates.get(job.evaluator), job.build()
        if known is None or not known.calls or not isinstance(evaluator, JudgeEvaluator):
            continue
        asked = sum(job.evaluator in asking for asking in canaries)
        judge = _judge(evaluator, settings)
        judges = 1 if judge is None else len(members_of(judge))
        out[job.evaluator] = known.of_calls(
            known.calls + judges * math.ceil(asked * evaluator.calls_per_row() * chunks)
        )
    return out


def _judge(evaluator: Evaluator, settings: Settings) -> JudgeConfig | None:
    return asked_judge(evaluator, EvalContext(settings)) or (settings.judges[0] if settings.judges else None)


def _install() -> str:
    return "" if find_spec("litellm") else "Install the table of all prices: pip install 'leadline[judge]'. Or: "


def require_judge_price(judge: JudgeConfig, limits: Limits) -> None:
    """Refuse a judge, or a jury with one, whose price is unknown where money is limited.

    Raises:
        UsageError: Its price is unknown.
    """
    unknown = [member for member in members_of(judge) if price(member) is None] if limits.of_cost else []
    if not unknown:
        return
    judge = unknown[0]
    named = "" if judge.key != "default" else f', with model = "{judge.model}",'
    raise UsageError(
        f"The price of the judge {judge.model!r} is unknown, so a cost limit (--max-cost, month_cost) allows no call.",
        hint=f"{_install()}Write into its table [judges.{judge.key}] of leadline.toml{named} {_LINES}",
        code=ErrorCode.JUDGE_PRICE,
    )


def require_model_price(model: JudgeConfig, limits: Limits, call_cost: float | None, *, by_token: bool) -> None:
    """Refuse a model under test whose price is unknown where money is limited.

    Args:
        call_cost: The most that one call costs, ``None`` where that is not stated.
        by_token: Whether it is priced by token.

    Raises:
        UsageError: Its price is unknown.
    """
    if not limits.of_cost or call_cost is not None or price(model) is not None:
        return
    lines = _LINES if by_token else "the line call_cost_usd = 0.01, the most that one call of it costs in USD."
    raise UsageError(
        f"The price of the model {model.key!r} is unknown, so a cost limit (--max-cost, month_cost) allows no call.",
        hint=f"Write into its table [[model]] of a targets file {lines}",
        code=ErrorCode.JUDGE_PRICE,
    )
