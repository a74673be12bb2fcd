"""Fact-check: does the answer contain false information, by the judgement of an agent that may search?"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from leadline.evaluators.core import Effect, EvalContext, JudgeKey, Spec, one_metric, register
from leadline.evaluators.core.model_evaluator import quote
from leadline.evaluators.data import Evidence, Json, Row, RowField, RowScore
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.verdicts import JudgeReply
from leadline.evaluators.judge.verdicts import Reason as Rationale
from leadline.evaluators.judge_client.calls import JudgeUnparseable
from leadline.evaluators.judge_client.search import CHARACTERS, recorded, search_tool


class Evaluation(JudgeReply):
    """An evaluation's result."""

    answer: Rationale = ""
    evaluation_score: Annotated[float, Field(ge=0, le=1)]
    evaluation_summary: Rationale = ""


class AgentStep(JudgeReply):
    """A search that is to be made, or an evaluation's result."""

    search: Rationale = ""
    answer: Rationale = ""
    evaluation_score: Annotated[float, Field(ge=0, le=1)] | None = None
    evaluation_summary: Rationale = ""


class FactCheckParams(JudgeKey):
    """Parameters of the fact-check."""

    search_tool: str = Field(
        "",
        description="What the agent searches with: a function as package.module:function, the http(s) address of "
        "an endpoint that takes the query as q, or an MCP server as mcp+https://HOST/mcp or mcp+stdio:COMMAND, "
        "with #TOOL at the end to name its tool. Empty: it has only its own knowledge.",
    )
    max_searches: int = Field(3, ge=1, le=20, description="Searches for one row, at most.")
    max_dataset_rows: int | None = Field(
        None,
        ge=1,
        description="Rows to evaluate, at most; further rows are not applicable. Empty: no limit.",
        json_schema_extra=Effect.ROWS.extra,
    )
    agent_host_connection_config_key: str = Field(
        "", description="Key of the judge to use as agent, as in the reference.", json_schema_extra=Effect.JUDGE.extra
    )
    agent_llm_model_name: str = Field(
        "",
        description="Key of the judge to use as agent, where the other two name none.",
        json_schema_extra=Effect.JUDGE.extra,
    )
    agent_eval_h2ogpte_collection_id: str = Field(
        "",
        description="Accepted for the reference's sake; this agent has no collection of documents.",
        json_schema_extra=Effect.NOTHING.extra,
    )


@register
class FactCheck(JudgeEvaluator):
    """An agent's score of how free of false information the answer is.

    **Method.** The judge fact-checks the answer and returns a score from 0 (failed) to 1 (passed) with a summary. With
    a ``search_tool`` it may search first, ``max_searches`` (3) times, and is asked again with what was found; searches
    and what they found are on record with its other calls. Without one it has only its own knowledge, and every row
    says so. ``max_dataset_rows`` limits the cost: the rows beyond it, in the dataset's order, are not applicable.

    **Edge cases.**

    * A blank answer states nothing: not applicable, and nothing is asked.
    * A search tool that fails three times leaves the row unscored, as a judge does that cannot be reached.
    * What was found is shown to the judge up to 6,000 characters, and fenced: it is data, as the answer is.
    * A reply without a score from 0 to 1 is unreadable, and asked for again; so is one with a search beside it.

    **Source.** H2O Sonar evaluator reference, "Fact-Check (Agent-based) Evaluator", whose prompt it is.
    """

    spec = Spec(
        id="fact_check",
        name="Fact-Check (Agent-based) Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=one_metric(
            "fact_check", "How free of false information the answer is, by an agent that may search.", name="Fact-check"
        ),
        judge="agent",
        keywords=("judge", "agent", "facts", "search"),
        source="H2O Sonar evaluator reference: Fact-Check (Agent-based) Evaluator",
    )
    parameters = FactCheckParams
    params: FactCheckParams
    prompts = {"fact_check": prompt_beside(__file__, "fact_check.jinja")}  # noqa: RUF012

    @property
    def max_rows(self) -> int | None:
        """The most rows of a dataset to score."""
        return self.params.max_dataset_rows

    def judge_key(self) -> str:
        """Return the key of the judge, by whichever parameter names one."""
        params = self.params
        return (
            params.custom_eval_judge_config_key
            or params.agent_host_connection_config_key
            or params.agent_llm_model_name
        )

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return what keys cover; a search tool that is not there is refused before anything is asked."""
        if self.params.search_tool:
            search_tool(self.params.search_tool)
        return super().identity(ctx)

    def calls_per_row(self) -> float:
        """One, and with a search tool one more for each search."""
        return 1.0 + (self.params.max_searches if self.params.search_tool else 0)

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        answer, name = row.actual_answer or "", self.params.search_tool
        if not answer.strip():
            return RowScore.not_applicable(self.row_metrics, "The answer is blank.")
        findings: list[tuple[str, str]] = []
        found_in: list[Json] = []
        search = search_tool(name) if name else None
        while search is not None and len(findings) < self.params.max_searches:
            step = await self._step(judge, row, findings)
            if step.evaluation_score is not None or not isinstance(step, AgentStep):
                return self._scored(step, findings, found_in)
            found, digest = await recorded(search, name, step.search[:CHARACTERS], judge.client.ledger, judge.trial)
            findings.append((step.search[:CHARACTERS], found))
            found_in.append(digest)
        return self._scored(await self._step(judge, row, findings), findings, found_in)

    async def _step(self, judge: Judge, row: Row, findings: list[tuple[str, str]]) -> AgentStep | Evaluation:
        left = self.params.max_searches - len(findings) if self.params.search_tool else 0
        texts: dict[str, Any] = {
            "answer": row.actual_answer,
            "question": row.question or "",
            "findings": findings,
            "searches_left": left,
            "can_search": left > 0,
        }
        if not left:
            return await judge.ask("fact_check", Evaluation, **texts)
        return await judge.ask("fact_check", AgentStep, check=_either, **texts)

    def _scored(self, step: AgentStep | Evaluation, findings: list[tuple[str, str]], found_in: list[Json]) -> RowScore:
        score = step.evaluation_score
        assert score is not None  # noqa: S101
        summary = quote(step.evaluation_summary)
        if not self.params.search_tool:
            summary = f"{summary} (Judged without a search tool, from the judge's own knowledge.)".strip()
        data: dict[str, Json] = {
            "search_tool": bool(self.params.search_tool),
            "searches": [
                {"query": quote(query), "found": quote(found), "call": digest}
                for (query, found), digest in zip(findings, found_in, strict=True)
            ],
        }
        return RowScore({"fact_check": score}, Evidence(summary, data=data))


def _either(step: AgentStep) -> None:
    if (step.evaluation_score is None) == (not step.search.strip()):
        raise JudgeUnparseable("Reply either with a search or with an evaluation_score, not with both or none.")
