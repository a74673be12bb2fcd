"""A judge that gives a proper reply to whatever any evaluator asks, and tools whose vectors need no model."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from leadline.evaluators.core import EvalContext
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.judge_client.calls import MemoryLedger, Reply
from leadline.evaluators.judge_client.client import JudgeClient
from leadline.evaluators.judge_client.transport import Transport
from leadline.evaluators.settings import JudgeConfig, Settings

_FENCED = re.compile(r"<([\w-]+?)-([0-9a-f]{16})>\n(.*?)\n</\1-\2>", re.DOTALL)
_ONE_WORD = re.compile(r'(?:single word|one word|words?)[^"]{0,40}"(\w+)"', re.IGNORECASE)


@dataclass
class VectorTools(EvalContext):
    """Tools with a table of vectors instead of a model; a text that is not in it gets one of its own.

    Attributes:
        table: Vectors by text, of two numbers.
    """

    table: dict[str, Sequence[float]] = field(default_factory=dict)

    def embed(self, ref: ModelRef, texts: Sequence[str], *, steady: bool = False) -> npt.NDArray[np.float32]:
        return np.array([self._vector(text) for text in texts], dtype=np.float32).reshape(len(texts), 2)

    def _vector(self, text: str) -> Sequence[float]:
        if not text.strip():
            return (0.0, 0.0)
        if text in self.table:
            return self.table[text]
        angle = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[0] / 256
        return (float(np.cos(angle)), float(np.sin(angle)))


def tools_with(judge: Transport, table: Mapping[str, Sequence[float]] | None = None) -> VectorTools:
    """Return tools whose only judge is a scripted one."""
    config = JudgeConfig(model="scripted")
    ctx = VectorTools(Settings(judges=(config,), splitter="rules"), table=dict(table or {}))
    ctx._clients[config.key] = JudgeClient(config, transport=judge, ledger=MemoryLedger())
    return ctx


@dataclass
class AgreeableJudge:
    """Says yes in whichever form is asked for.

    Attributes:
        asked: The prompts, in order.
    """

    asked: list[str] = field(default_factory=list)

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        prompt = messages[1]["content"]
        self.asked.append(prompt)
        if schema is None:
            return Reply(word_for(_FENCED.sub("", prompt)))
        return Reply(json.dumps(_object(schema, schema, prompt)))


def in_form(schema: Mapping[str, Any], prompt: str) -> dict[str, Any]:
    """Return an object that fits a schema, as a reply to a prompt."""
    return _object(schema, schema, prompt)


def word_for(instructions: str) -> str:
    """Return a reply that the instructions of a prompt allow."""
    for cue, reply in (
        ("one number from", "3"),
        ("the rating alone", "3"),
        ("in a line with only the score", "4.0\nIt is relevant."),
        ("YES or NO", "YES"),
        ('"same"', "same"),
    ):
        if cue in instructions:
            return reply
    found = _ONE_WORD.search(instructions)
    if found is None:
        raise AssertionError(f"teach this judge what to say to: {instructions[:2000]}")
    return found[1]


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], prompt: str) -> dict[str, Any]:
    if "TP" in schema["properties"]:  # statements that are sorted, and must stay as many
        count = len(re.findall(r"<prediction(?:-statement)?-\d+-", prompt))
        return {"TP": ["said"] * count, "FP": [], "FN": []}
    return {name: _value(name, part, root, prompt) for name, part in schema["properties"].items()}


def _value(name: str, schema: Mapping[str, Any], root: Mapping[str, Any], prompt: str) -> Any:
    if "$ref" in schema:
        return _object(root["$defs"][schema["$ref"].rpartition("/")[2]], root, prompt)
    if "anyOf" in schema:
        return _value(name, schema["anyOf"][0], root, prompt)
    if "enum" in schema:
        return "yes" if "yes" in schema["enum"] else schema["enum"][0]
    kind = schema["type"]
    if kind == "array":
        counts = re.findall(r"exactly (\d+)", _FENCED.sub("", prompt))
        count = int(counts[-1]) if counts else 1
        return [_value(name, schema["items"], root, prompt) for _ in range(count)]
    if kind == "string":
        return "" if name == "search" else "It starts at seven."
    if kind in ("number", "integer"):
        return max(1, schema.get("minimum", 1))
    return False
