"""A small RAG application over real HTTP, with a reply of its own shape and every fault of the scripted judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, Received

TARGET: dict[str, Any] = {
    "key": "harbour-rag",
    "name": "Harbour RAG",
    "version": "2.0",
    "body": '{"query": {{ question }}, "options": {"k": 3, "labels": {{ categories }}}}',
    "headers": {"Authorization": "Bearer ${HARBOUR_TOKEN}"},
    "reply": {
        "answer": "result.text",
        "error": "problem",
        "retrieved_context": "result.hits",
        "content": "passage",
        "doc_uri": "source.path",
        "cost_usd": "usage.items.dollars",
        "input_tokens": "usage.sent",
        "metadata": {"trace": "trace_id"},
    },
}
"""How it is asked, apart from its address."""


class RagApp(JudgeEndpoint):
    """Answers ``{"query": …}`` with a text, two hits, what it cost, and a trace."""

    def envelope(self, question: Question, text: str, finish_reason: str) -> dict[str, Any]:
        return {
            "result": {
                "text": text,
                "hits": [
                    {"passage": f"{question.text} One.", "source": {"path": "docs/one.md"}},
                    {"passage": "Two.", "source": {"path": "docs/two.md"}},
                ],
            },
            "usage": {"items": {"dollars": 0.002}, "sent": 7},
            "trace_id": f"t-{len(question.text)}",
        }

    def _take(self, body: Mapping[str, Any], key: str) -> Received:
        question = Question(len(self.log), "", body["query"], body["query"], body, key)
        line = Received(question, None, self.in_flight + 1)
        self.log.append(line)
        return line
