"""The calls of tools that were made against the expected ones: their F1, and five senses in which they match."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from leadline.evaluators.agent.call_matching import (
    MatchedCalls,
    MatchingParams,
    ReadOnlyParams,
    TooManyCalls,
    best_alignment,
    best_assignment,
    unordered,
    weights_of,
)
from leadline.evaluators.core import EvalContext, Metric, RowEvaluator, Spec, register
from leadline.evaluators.data import Row, RowField, RowScore


class ToolCallF1Params(MatchingParams):
    """Parameters of the F1 of tool calls."""

    order: Annotated[
        Literal["any", "kept"],
        Field(
            description="Whether calls match in `any` order, or only where the order of the expected ones is `kept`."
        ),
    ] = "any"


@register
class ToolCallF1(RowEvaluator):
    """Tool calls of a conversation against the expected ones: precision, recall and F1 of the best matching.

    **Method.** Each pair of a call and an expected call has a weight from 0 to 1: 0 where the tools, or the turns that
    the case names, differ, else how well the arguments agree (``arguments``). M is the total weight of the best
    one-to-one matching, or with ``order=kept`` of the best monotone alignment, in which calls of one message are
    parallel. With C calls and E expected ones, precision = M / C, recall = M / E, and ``tool_call_f1`` = 2M / (C + E).
    Of several accepted sets of arguments (``any_of``) the best counts.

    **Arguments.** 1 equals 1.0, ``true`` is not 1, and ``"7"`` is not 7. ``partial`` is the share of equal arguments
    among all of both calls; of objects under one name their own share counts.

    **Edge cases.**

    * Without expected calls known the row is not applicable; ``[]`` says that none is expected: 1 if none was made, 0
      otherwise. If some are expected and none was made, the values are 0.
    * A call made twice and expected once costs precision.
    * Calls of tools that change nothing, as the dataset or ``read_only_tools`` says, are left out of C where they match
      nothing: looking twice is no fault.

    **Source.** The assignment problem (Kuhn 1955); F1 of tool calls as in ragas, ToolCallF1, which compares sets.
    """

    spec = Spec(
        id="tool_call_f1",
        name="Tool Call F1",
        inputs=(RowField.TOOL_CALLS, RowField.EXPECTED_TOOL_CALLS),
        also_reads=(RowField.TOOLS,),
        unit="conversation",
        metrics=(
            Metric.higher("tool_call_f1", "Harmonic mean of the precision and recall of tool calls.", primary=True),
            Metric.higher("precision", "Weight of the matched calls over the calls that were made."),
            Metric.higher("recall", "Weight of the matched calls over the calls that are expected."),
        ),
        insight_type="agent",
        problem_type="agent",
        keywords=("tools", "function calling", "agent", "trajectory", "rule-based"),
        source="Kuhn 1955, The Hungarian method for the assignment problem; ragas, ToolCallF1",
    )
    parameters = ToolCallF1Params
    params: ToolCallF1Params

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return precision, recall and F1, and which calls match."""
        calls, expected = row.tool_calls or (), row.expected_tool_calls or ()
        weights = weights_of(calls, expected, self.params.arguments)
        try:
            kept = self.params.order == "kept"
            pairs = best_alignment(weights, [call.message for call in calls]) if kept else best_assignment(weights)
        except TooManyCalls as error:
            return unordered(self.row_metrics, error)
        found = MatchedCalls(calls, expected, pairs, self.params.read_only(row))
        made, wanted = found.counted, len(expected)
        if not made and not wanted:
            return RowScore(dict.fromkeys(self.row_metrics, 1.0), found.evidence())
        return RowScore(
            {
                "tool_call_f1": 2 * found.weight / (made + wanted),
                "precision": found.weight / made if made else 0.0,
                "recall": found.weight / wanted if wanted else 0.0,
            },
            found.evidence(),
        )


class TrajectoryParams(ReadOnlyParams):
    """Parameters of the trajectory's match."""

    arguments: Annotated[
        Literal["exact", "superset", "subset", "ignore"],
        Field(
            description="How arguments must agree: `exact`; `superset`, all that are expected and maybe others; "
            "`subset`, none but those that are expected; `ignore`, not."
        ),
    ] = "exact"


@register
class ToolTrajectoryMatch(RowEvaluator):
    """Trajectory match: whether the calls of a conversation are the expected ones, in five senses.

    **Method.** With C calls, E expected ones, A pairs of the best one-to-one matching and O pairs of the best
    alignment that keeps the order, the metrics are 1 or 0:

    * ``exact``: O = E = C, the same calls in the same order;
    * ``in_order``: O = E, all expected calls in their order, with others between them;
    * ``any_order``: A = E = C, the same calls;
    * ``superset``: A = E, all expected calls and maybe others;
    * ``subset``: A = C, no call but expected ones.

    Calls of one message are parallel: they have no order among themselves. Two calls match where the tools are equal,
    the turn is the one that the case names, if any, and the arguments agree (``arguments``): 1 equals 1.0, ``true`` is
    not 1, and ``"7"`` is not 7. Of several accepted sets of arguments (``any_of``) one must agree.

    These are the modes of others: LangChain's agentevals (strict, unordered, superset, subset), Google's ADK (EXACT,
    IN_ORDER, and ANY_ORDER, which is ``superset``) and Azure's task navigation (exact, in order, any order, which is
    ``superset`` too). They match greedily, so that they fail some cases that the best matching solves.

    **Edge cases.**

    * Without expected calls known the row is not applicable; ``[]`` says that none is expected.
    * A call made twice and expected once is one too many.
    * Calls of tools that change nothing, as the dataset or ``read_only_tools`` says, are left out of C where they match
      nothing.

    **Source.** LangChain, agentevals, trajectory match; Google, Agent Development Kit, TrajectoryEvaluator.
    """

    spec = Spec(
        id="tool_trajectory_match",
        name="Tool Trajectory Match",
        inputs=(RowField.TOOL_CALLS, RowField.EXPECTED_TOOL_CALLS),
        also_reads=(RowField.TOOLS,),
        unit="conversation",
        metrics=(
            Metric.higher("any_order", "Whether the calls are the expected ones.", primary=True, share=True),
            Metric.higher("exact", "Whether the calls are the expected ones in their order.", share=True),
            Metric.higher("in_order", "Whether the expected calls were made in their order.", share=True),
            Metric.higher("superset", "Whether all expected calls were made.", share=True),
            Metric.higher("subset", "Whether no other calls than expected ones were made.", share=True),
        ),
        insight_type="agent",
        problem_type="agent",
        keywords=("tools", "function calling", "agent", "trajectory", "rule-based", "agentevals", "adk", "azure"),
        source="LangChain, agentevals; Google, Agent Development Kit, TrajectoryEvaluator",
    )
    parameters = TrajectoryParams
    params: TrajectoryParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the five verdicts, and which calls match."""
        calls, expected = row.tool_calls or (), row.expected_tool_calls or ()
        weights = weights_of(calls, expected, self.params.arguments)
        try:
            ordered = len(best_alignment(weights, [call.message for call in calls]))
        except TooManyCalls as error:
            return unordered(self.row_metrics, error)
        found = MatchedCalls(calls, expected, best_assignment(weights), self.params.read_only(row))
        matched, wanted, made = len(found.pairs), len(expected), found.counted
        verdicts = {
            "any_order": matched == wanted == made,
            "exact": ordered == wanted == made,
            "in_order": ordered == wanted,
            "superset": matched == wanted,
            "subset": matched == made,
        }
        evidence = found.evidence()
        if ordered < matched == wanted:
            evidence = replace(evidence, message=f"{evidence.message} They were not made in the expected order.")
        return RowScore({name: float(held) for name, held in verdicts.items()}, evidence)
