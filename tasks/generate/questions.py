"""Asking about one chunk: for questions, and for the answer to each from this chunk only.

The prompts beside this module are those of LlamaIndex's "Building Evaluation from Scratch" (``QUESTION_GEN_SYS_TMPL``,
``QUESTION_GEN_USER_TMPL``, ``QA_PROMPT``), with what a test set needs besides: questions that stand by themselves, and
a way to say that there is no answer. As there, each question is answered by a call of its own.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside
from leadline.evaluators.judge.prompting import Prompt, prompt
from leadline.evaluators.judge_client.calls import JudgeError
from leadline.evaluators.judge_client.client import JudgeClient
from leadline.tasks.generate.chunking import DocumentChunk
from leadline.tasks.generate.duplicates import normalised

PURPOSE: Final = "generate"
"""The purpose of the calls, as the ledger records it."""

MOST_QUESTION: Final = 2_000
"""Characters of a question; what is longer is none."""

_NUMBERING: Final = re.compile(r"\s*(?:\(?\d{1,3}[.):]|[-*•])\s+")


class GeneratedQuestions(BaseModel):
    """The judge's reply with questions."""

    model_config = ConfigDict(json_schema_extra={"description": "What is replied when questions are asked for."})
    """The schema is part of each call's digest."""

    questions: list[str]


class Reference(BaseModel):
    """The judge's reply with an answer."""

    model_config = ConfigDict(json_schema_extra={"description": "What is replied when an answer is asked for."})

    answerable: bool
    answer: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and its answer from the chunk."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a chunk.

    Attributes:
        pairs: Questions with their answers, in the order in which they were written; none if the call failed.
        blank: Questions or answers that were empty.
        unanswerable: Questions without an answer in the chunk.
        repeated: Questions that stood there twice.
        replies: Replies that this rests on.
        error: Why there is nothing; every call of the chunk is needed.
    """

    pairs: tuple[Pair, ...] = ()
    blank: int = 0
    unanswerable: int = 0
    repeated: int = 0
    replies: int = 0
    error: JudgeError | None = None


@dataclass(frozen=True, slots=True)
class _Prompt(Prompt):
    """A prompt with a system message of its own: what is asked for here is no verdict."""

    system: Prompt

    def messages(self, fence: str, texts: dict[str, Any]) -> tuple[dict[str, str], ...]:
        system = {"role": "system", "content": self.system.template.render(fence=fence)}
        return (system, *Prompt.messages(self, fence, texts)[1:])


def _prompts() -> dict[str, Prompt]:
    system = prompt(_file("system"))
    found = {name: prompt(_file(name)) for name in ("questions", "answer")}
    return {name: _Prompt(one.name, one.digest, one.template, one.source, system) for name, one in found.items()}


def _file(name: str) -> Path:
    return prompt_beside(__file__, f"{name}.jinja")


class QuestionAsker:
    """Asks about chunks; to be used in the judges' loop.

    Args:
        client: The model that is asked.
        count: How many questions to ask for about each chunk.
    """

    def __init__(self, client: JudgeClient, count: int) -> None:
        self._client = client
        self._count = count
        self._prompts = _prompts()

    async def ask(self, chunk: DocumentChunk) -> Written:
        """Return questions and answers from a chunk; if any call fails, nothing but the error."""
        judge = Judge(self._client, PURPOSE, self._prompts)
        shown: dict[str, Any] = {"context": chunk.text, "section": chunk.section}
        try:
            written = await judge.ask("questions", GeneratedQuestions, count=self._count, **shown)
            questions, blank, repeated = _distinct(written.questions, self._count)
            asked = (judge.ask("answer", Reference, question=question, **shown) for question in questions)
            answers = await asyncio.gather(*asked, return_exceptions=True)
        except JudgeError as error:
            return Written(replies=len(judge.calls), error=error)
        pairs, unanswerable = [], 0
        for question, answer in zip(questions, answers, strict=True):
            if isinstance(answer, JudgeError):
                return Written(replies=len(judge.calls), error=answer)
            if isinstance(answer, BaseException):
                raise answer
            text = answer.answer.strip()
            if not answer.answerable:
                unanswerable += 1
            elif not text:
                blank += 1
            else:
                pairs.append(Pair(question, text))
        return Written(tuple(pairs), blank, unanswerable, repeated, len(judge.calls))


def _distinct(written: list[str], count: int) -> tuple[list[str], int, int]:
    """Return at most so many questions without numbering, and how many were blank or repeated."""
    questions: dict[str, str] = {}
    blank = repeated = 0
    for line in written:
        if len(questions) == count:
            break
        question = " ".join(_without_numbering(line).split())
        name = normalised(question)
        if not name or len(question) > MOST_QUESTION:
            blank += 1
        elif name in questions:
            repeated += 1
        else:
            questions[name] = question
    return list(questions.values()), blank, repeated


def _without_numbering(line: str) -> str:
    numbering = _NUMBERING.match(line)
    return line[numbering.end() :] if numbering else line
