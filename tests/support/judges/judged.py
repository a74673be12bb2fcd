"""Judge evaluators asked in a test: rows in, scores out, with a judge that replies as the test says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import Row, RowScore, Unscored
from leadline.evaluators.judge.judge_evaluator import JudgeEvaluator
from leadline.evaluators.judge_client.calls import MemoryLedger, Reply
from leadline.evaluators.judge_client.client import JudgeClient
from leadline.evaluators.settings import JudgeConfig, Settings

Said = str | Mapping[str, Any] | Reply | Exception
"""What a judge says: a text, something to say as JSON, a whole reply, or how the attempt fails."""


@dataclass
class ScriptedJudge:
    """A judge that knows what to say to a prompt by a piece of its text.

    Attributes:
        script: Piece of a prompt to what is said: one thing, several in turn (the last stays), or a function of the
            prompt.
        asked: The prompts, in order, with the complaint about an unreadable reply at their end.
        schemas: The schemas that came with them.
    """

    script: Mapping[str, Said | Sequence[Said] | Callable[[str], Said]]
    asked: list[str] = field(default_factory=list)
    schemas: list[Mapping[str, Any] | None] = field(default_factory=list)
    _turns: dict[str, Iterator[Said]] = field(default_factory=dict, repr=False)

    async def send(
        self, config: JudgeConfig, messages: list[dict[str, str]], schema: Mapping[str, Any] | None, max_tokens: int
    ) -> Reply:
        prompt = "\n".join(message["content"] for message in messages if message["role"] == "user")
        self.asked.append(prompt)
        self.schemas.append(schema)
        (piece,) = [piece for piece in self.script if piece in prompt]
        said = self._next(piece, prompt)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, Reply):
            return said
        return Reply(said if isinstance(said, str) else json.dumps(said))

    def _next(self, piece: str, prompt: str) -> Said:
        said = self.script[piece]
        if callable(said):
            return said(prompt)
        if isinstance(said, str | Mapping | Reply | Exception):
            return said
        turns = self._turns.setdefault(piece, iter(said))
        return next(turns, said[-1])


def judged(
    evaluator: str, judge: ScriptedJudge, *rows: Row, ctx: EvalContext | None = None, **params: Any
) -> list[RowScore]:
    """Score rows with an evaluator, by id, that asks a scripted judge."""
    kind = get(evaluator)
    built = kind(kind.parameters.build(evaluator, params))
    assert isinstance(built, JudgeEvaluator)
    return built.score(rows, ctx or scripted_context(judge))


def scripted_context(judge: ScriptedJudge) -> EvalContext:
    """Return tools whose only judge is a scripted one."""
    config = JudgeConfig(model="scripted")
    ctx = EvalContext(Settings(judges=(config,)))
    ctx._clients[config.key] = JudgeClient(config, transport=judge, ledger=MemoryLedger())
    return ctx


def one(evaluator: str, judge: ScriptedJudge, row: Row, **params: Any) -> RowScore:
    """Score one row."""
    (score,) = judged(evaluator, judge, row, **params)
    return score


def value(score: RowScore, metric: str | None = None) -> float:
    """Return the number of a metric, the only one by default."""
    found = score.values[metric] if metric else next(iter(score.values.values()))
    assert isinstance(found, float), found
    return found


def reason(score: RowScore) -> str:
    """Return why all metrics of a row are unscored."""
    (found,) = {value.reason if isinstance(value, Unscored) else repr(value) for value in score.values.values()}
    return str(found)


def fenced(prompt: str, label: str) -> list[str]:
    """Return the texts under a label (a number after it is left out) that a prompt shows as data."""
    found = re.findall(rf"<{label}(?:-\d+)?-([0-9a-f]{{16}})>\n(.*?)\n</{label}(?:-\d+)?-\1>", prompt, re.DOTALL)
    return [text for _, text in found]
