"""OpenInference, as Phoenix and its instrumentations write it: lists as numbered attributes."""

from __future__ import annotations

from typing import Final

from leadline.plugins.traces.dialects.table import Dialect

OPENINFERENCE: Final = Dialect(
    kinds={
        "openinference.span.kind": {
            "llm": "llm",
            "tool": "tool",
            "retriever": "retriever",
            "agent": "agent",
            "chain": "chain",
        },
    },
    fields={
        "model": ("llm.model_name",),
        "tools": ("llm.tools.N",),
        "documents": ("retrieval.documents.N",),
        "input_tokens": ("llm.token_count.prompt",),
        "output_tokens": ("llm.token_count.completion",),
        "cost_usd": ("llm.cost.total",),
        "annotations": tuple(
            f"{scope}{what}.N" for scope in ("", "trace.", "session.") for what in ("annotations", "evaluations")
        ),
        "metadata": ("user.id", "tag.tags"),
    },
    of_kind={
        "llm": {
            "inputs": ("llm.input_messages.N", "llm.prompts.N", "input.value"),
            "outputs": ("llm.output_messages.N", "llm.choices.N", "output.value"),
        },
        "agent": {"name": ("agent.name",), "inputs": ("input.value",), "outputs": ("output.value",)},
        "chain": {"inputs": ("input.value",), "outputs": ("output.value",)},
        "tool": {
            "name": ("tool.name",),
            "call_id": ("tool_call.id", "tool.id"),
            "arguments": ("input.value", "tool.parameters"),
            "result": ("output.value",),
        },
        "retriever": {"documents": ("retrieval.documents.N", "output.value")},
    },
    sessions=("metadata",),
    renamed={"contents": "content"},
)
