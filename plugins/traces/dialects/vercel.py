"""The Vercel AI SDK: a call has an outer span, and an inner one for each step, which is what was sent to the model."""

from __future__ import annotations

from typing import Final

from leadline.plugins.traces.dialects.table import Dialect

_OUTER: Final = ("ai.generatetext", "ai.streamtext", "ai.generateobject", "ai.streamobject")

VERCEL: Final = Dialect(
    kinds={
        "ai.operationId": {
            **dict.fromkeys(_OUTER, "agent"),
            **{f"{name}.do{verb}": "llm" for name in _OUTER for verb in ("generate", "stream")},
            "ai.toolcall": "tool",
        },
    },
    fields={
        "model": ("ai.model.id", "ai.response.model"),
        "inputs": ("ai.prompt.messages", "ai.prompt"),
        "outputs": ("ai.response", "ai.response.object as a text"),
        "tools": ("ai.prompt.tools",),
        "input_tokens": ("ai.usage.inputTokens", "ai.usage.promptTokens"),
        "output_tokens": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
    },
    of_kind={
        "agent": {"name": ("ai.telemetry.functionId",)},
        "tool": {
            "name": ("ai.toolCall.name",),
            "call_id": ("ai.toolCall.id",),
            "arguments": ("ai.toolCall.args", "ai.toolCall.input"),
            "result": ("ai.toolCall.result", "ai.toolCall.output"),
        },
    },
    sessions=("ai.telemetry.metadata.*",),
    joined={
        "ai.response": {
            "content": "ai.response.text",
            "tool_calls": "ai.response.toolCalls",
            "reasoning": "ai.response.reasoning",
        },
        "ai.response.object as a text": {"content": "ai.response.object"},
    },
)
