"""OpenLLMetry, the SDK of Traceloop: prompts and completions as numbered attributes."""

from __future__ import annotations

from typing import Final

from leadline.plugins.traces.dialects.table import Dialect

OPENLLMETRY: Final = Dialect(
    kinds={
        "gen_ai.operation.name": {"response": "llm", "vector_db_retrieve": "retriever"},
        "llm.request.type": {
            **dict.fromkeys(("chat", "completion", "response"), "llm"),
            **dict.fromkeys(("embedding", "rerank"), "other"),
        },
        "traceloop.span.kind": {"workflow": "chain", "task": "chain", "agent": "agent", "tool": "tool"},
    },
    fields={
        "model": ("llm.request.model", "llm.response.model"),
        "inputs": ("gen_ai.prompt.N", "llm.prompts.N", "traceloop.entity.input"),
        "outputs": ("gen_ai.completion.N", "llm.completions.N", "traceloop.entity.output"),
        "tools": ("llm.request.functions.N",),
        "input_tokens": ("llm.usage.prompt_tokens",),
        "output_tokens": ("llm.usage.completion_tokens",),
    },
    of_kind={
        "agent": {"name": ("traceloop.entity.name",)},
        "chain": {"name": ("traceloop.entity.name",)},
        "tool": {
            "name": ("traceloop.entity.name",),
            "arguments": ("traceloop.entity.input",),
            "result": ("traceloop.entity.output",),
        },
        "retriever": {"name": ("traceloop.entity.name",), "documents": ("traceloop.entity.output",)},
    },
    sessions=("traceloop.association.properties.*",),
)
