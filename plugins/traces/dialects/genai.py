"""OpenTelemetry's conventions for generative AI, from 1.28 to the newest, and the names of pydantic-ai beside them.

Up to 1.36 each message was an event of its span, or a log record; since then a span, or one event of it, has them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leadline.plugins.traces.content import opened
from leadline.plugins.traces.dialects.table import Dialect

_INPUTS: Final = "events of gen_ai.*.message"
_OUTPUTS: Final = "events of gen_ai.choice"
_MEMBERS: Final = ("role", "content", "tool_calls", "id", "name")


def _message(name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message that an event is; a choice has it inside."""
    inside = opened(attributes.get("message"))
    found = {**attributes, **inside} if isinstance(inside, dict) else attributes
    role = "assistant" if name == "gen_ai.choice" else name.split(".")[1]
    message = {"role": role} | {member: found[member] for member in _MEMBERS if found.get(member) is not None}
    if isinstance(inside, str):
        message["content"] = inside
    message["content"] = opened(message.get("content"), marks=("[",))
    return {**message, "tool_calls": opened(message["tool_calls"])} if "tool_calls" in message else message


GENAI: Final = Dialect(
    kinds={
        "gen_ai.operation.name": {
            **dict.fromkeys(("chat", "text_completion", "generate_content", "responses"), "llm"),
            "execute_tool": "tool",
            **dict.fromkeys(("invoke_agent", "invoke_workflow"), "agent"),
            "retrieval": "retriever",
            "plan": "chain",
        },
        "mcp.method.name": {"tools/call": "tool"},
        "gen_ai.tool.name": {"*": "tool"},
    },
    fields={
        "model": ("gen_ai.request.model", "gen_ai.response.model"),
        "system": ("gen_ai.system_instructions",),
        "inputs": ("gen_ai.input.messages", _INPUTS),
        "outputs": ("gen_ai.output.messages", _OUTPUTS),
        "tools": ("gen_ai.tool.definitions", "model_request_parameters"),
        "documents": ("gen_ai.retrieval.documents",),
        "transfer": ("gen_ai.transfer.mode",),
        "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        "cost_usd": ("operation.cost", "gen_ai.usage.cost"),
        "error": ("error.type",),
        "elsewhere": (
            "gen_ai.external_ref",
            "gen_ai.input.messages_ref",
            "gen_ai.output.messages_ref",
            "gen_ai.input.messages.ref",
        ),
        "annotations": ("events of gen_ai.evaluation.result",),
        "metadata": ("user.id", "enduser.id"),
    },
    of_kind={
        "llm": {
            "inputs": ("gen_ai.input.messages", _INPUTS, "gen_ai.prompt"),
            "outputs": ("gen_ai.output.messages", _OUTPUTS, "gen_ai.completion"),
        },
        "agent": {
            "name": ("gen_ai.agent.name", "gen_ai.workflow.name"),
            "inputs": ("gen_ai.input.messages", "pydantic_ai.all_messages", "all_messages_events"),
            "outputs": ("gen_ai.output.messages", "final_result"),
        },
        "tool": {
            "name": ("gen_ai.tool.name", "mcp.tool.name"),
            "call_id": ("gen_ai.tool.call.id",),
            "arguments": ("gen_ai.tool.call.arguments", "tool_arguments", "input"),
            "result": ("gen_ai.tool.call.result", "tool_response", "output"),
        },
    },
    sessions=(
        "gen_ai.conversation.id",
        "session.id",
        "mlflow.trace.session",
        "langfuse.session.id",
        "langsmith.metadata.*",
    ),
    merged=frozenset(
        {"gen_ai.client.inference.operation.details", "gen_ai.content.prompt", "gen_ai.content.completion"}
    ),
    collected={
        **{f"gen_ai.{role}.message": (_INPUTS, _message) for role in ("system", "user", "assistant", "tool")},
        "gen_ai.choice": (_OUTPUTS, _message),
        "gen_ai.evaluation.result": (
            "events of gen_ai.evaluation.result",
            lambda _, attributes: {
                "name": attributes.get("gen_ai.evaluation.name"),
                "score": attributes.get("gen_ai.evaluation.score.value"),
                "label": attributes.get("gen_ai.evaluation.score.label"),
                "explanation": attributes.get("gen_ai.evaluation.explanation"),
            },
        ),
    },
)
