"""Questions that can be understood without what was said before them: "And on Sundays?" retrieves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pydantic import Field

from leadline.evaluators.core import EvalContext, JudgeKey
from leadline.evaluators.data import Json, Row, RowField
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.prompting import Prompt, prompt

STANDALONE: Final = "standalone_question"


class RewriteParams(JudgeKey):
    """Parameters of judges that can read a question with what was said before it."""

    rewrite: bool = Field(
        False,
        description="Have the judge rewrite a question that follows others so that it can be understood by itself; all "
        "evaluators share the call.",
    )

    def identity(self) -> dict[str, Json]:
        """Return what keys cover: without rewriting what they covered before it could be chosen."""
        return {name: value for name, value in super().identity().items() if value or name != "rewrite"}


class RewritesQuestion(JudgeEvaluator):
    """The base of judges that may have a question rewritten by what was said before it."""

    parameters = RewriteParams

    @property
    def rewrites(self) -> bool:
        """True where questions are rewritten."""
        return bool(getattr(self.params, "rewrite", False))

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields of the spec, and the history where questions are rewritten by it."""
        shown = {*super().reads, *([RowField.HISTORY] if self.rewrites else [])}
        return tuple(field for field in RowField if field in shown)

    def all_prompts(self) -> dict[str, Prompt]:
        """Return the prompts in use."""
        more = {STANDALONE: prompt(prompt_beside(__file__, f"{STANDALONE}.jinja"))} if self.rewrites else {}
        return super().all_prompts() | more

    def calls_per_row(self) -> float:
        """One more for a row whose question is rewritten."""
        return super().calls_per_row() + self.rewrites

    async def seen(self, row: Row, judge: Judge, ctx: EvalContext) -> Row:
        """Return a row with its question rewritten; one that nothing precedes stays as it is."""
        if not (self.rewrites and row.history and (row.question or "").strip()):
            return row
        return replace(row, question=await judge.say(STANDALONE, question=row.question, history=row.history))
