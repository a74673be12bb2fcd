"""Errors of tools: how many calls fail, and what the agent makes of it."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.evaluators.agent.call_matching import MOST_SHOWN, call_span, shown_call
from leadline.evaluators.core import EvalContext, Metric, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, MadeCall, NotApplicable, Row, RowField, RowScore, turns_of
from leadline.evaluators.ground import count, listing


@register
class ToolErrors(RowEvaluator):
    """Errors of tools in a conversation: the share of calls that fail, and whether the agent recovers from them.

    **Method.** ``tool_errors`` = calls with an error / calls. ``recovered`` = errors behind which the same tool was
    called with success in the same turn / errors. ``ignored`` is 1 where in some turn the assistant gave an answer
    behind an error that it had not recovered from, else 0: it may be honest about the failure, so that this asks for a
    look, not for a fix.

    A call has an error where the trace or the tool's result says so. A refusal that the tool told in its text alone is
    none: nothing but its words tells it from a result.

    **Edge cases.** Without any call the row is not applicable; without an error ``recovered`` is not, and ``ignored``
    is 0. Calls of one message are parallel: none of them recovers another. Without messages ``ignored`` is not
    applicable where there is an unrecovered error.

    **Source.** Leadline; error rates of tools as in MLflow's and Azure's evaluation of agents.
    """

    spec = Spec(
        id="tool_errors",
        name="Tool Errors",
        inputs=(RowField.MESSAGES, RowField.TOOL_CALLS),
        optional=frozenset({RowField.MESSAGES}),
        unit="conversation",
        metrics=(
            Metric.lower("tool_errors", "Share of the tool calls that fail.", threshold=0.25, primary=True),
            Metric.higher("recovered", "Share of the errors behind which the tool succeeds in the same turn."),
            Metric.lower(
                "ignored", "Whether an answer follows an error not recovered from.", threshold=None, share=True
            ),
        ),
        insight_type="agent",
        problem_type="agent",
        keywords=("tools", "function calling", "agent", "errors", "recovery", "rule-based"),
        source="Leadline: calls with an error over calls",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the share of errors, the share recovered from, and whether one was ignored."""
        calls = row.tool_calls or ()
        if not calls:
            return RowScore.not_applicable(self.row_metrics, "No tool was called.")
        failed = [number for number, call in enumerate(calls) if call.error is not None]
        lasting = [number for number in failed if not _recovered(calls, number)]
        no_errors = NotApplicable("No call failed.")
        ignored: float | NotApplicable = float(any(_answered(row, calls[number]) for number in lasting))
        if lasting and not row.messages:
            ignored = NotApplicable("Nobody recorded what was said behind the error.")
        shown = (
            listing([f"{shown_call(calls[n])} ({(calls[n].error or 'failed')[:80]})" for n in failed], most=4)
            if failed
            else ""
        )
        said = f"{len(failed)} of {count(len(calls), 'call')} failed: {shown}." if failed else ""
        return RowScore(
            {
                "tool_errors": len(failed) / len(calls),
                "recovered": 1 - len(lasting) / len(failed) if failed else no_errors,
                "ignored": ignored,
            },
            Evidence(
                said,
                tuple(
                    call_span(calls, number, "not recovered from" if number in lasting else "recovered from")
                    for number in failed[:MOST_SHOWN]
                ),
            ),
        )


def _recovered(calls: Sequence[MadeCall], number: int) -> bool:
    """Return whether the tool of a call that failed is called with success later in the turn."""
    name, turn, message = calls[number].name, calls[number].turn, calls[number].message
    later = (call for call in calls[number + 1 :] if call.turn == turn and call.message > message)
    return any(call.name == name and call.error is None for call in later)


def _answered(row: Row, call: MadeCall) -> bool:
    """Return whether the assistant says something behind a call before the user's next message."""
    end = next((turn.end for turn in turns_of(row.messages) if turn.first <= call.message < turn.end), 0)
    behind = row.messages[call.message + 1 : end]
    return any(message["role"] == "assistant" and message["content"] for message in behind)
