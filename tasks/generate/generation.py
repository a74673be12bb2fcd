"""Generation of a dataset: a judge is asked about every chunk, and the cases are written when all chunks are done.

A chunk is asked about by a call for questions, and by one for the answer to each, from this chunk only. The prompts
beside this module are those of LlamaIndex's "Building Evaluation from Scratch" (``QUESTION_GEN_SYS_TMPL``,
``QUESTION_GEN_USER_TMPL``, ``QA_PROMPT``), with what a test set needs besides: questions that stand by themselves, and
a way to say that there is no answer.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson
from pydantic import BaseModel, ConfigDict

from leadline.evaluators.ground import ErrorCode, LeadlineError
from leadline.evaluators.judge.judge_evaluator import Judge, prompt_beside
from leadline.evaluators.judge.prompting import Prompt, prompt
from leadline.evaluators.judge_client.calls import JudgeError, JudgeUnavailable
from leadline.evaluators.judge_client.client import JudgeClient
from leadline.evaluators.judge_client.event_loop import run as run_in_loop
from leadline.tasks.generate.chunking import Corpus, DocumentChunk
from leadline.tasks.generate.documents import legible
from leadline.tasks.generate.duplicates import SIMILARITY, Repeats, normalised, repeated_by_meaning
from leadline.tasks.ground.files import digest, handed_out

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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


MODEL: Final = "reference"
"""Key of the model as whose answers the expected ones stand in the dataset."""

Embed: TypeAlias = "Callable[[Sequence[str]], npt.NDArray[np.float32]]"


@dataclass(frozen=True, slots=True)
class Form:
    """The contents of the dataset beside the cases.

    Attributes:
        answers: The expected answers again, as those of a model that retrieved just the chunk, so that the dataset can
            be evaluated as it is.
        context: The chunk's text in the metadata of the case, as its reference context.
    """

    answers: bool = True
    context: bool = False


def without_repeats(
    asked: Sequence[tuple[DocumentChunk, Pair]], embed: Embed | None = None, similarity: float = SIMILARITY
) -> list[tuple[DocumentChunk, Pair]]:
    """Return the questions that ask something new, in their order.

    Args:
        asked: Questions in the order of the chunks; of several that ask the same, the first one stays.
        embed: Returns unit vectors; without it questions are compared by their words only.
        similarity: Cosine from which on two questions mean the same.
    """
    repeats = Repeats()
    kept = [(chunk, pair) for chunk, pair in asked if not repeats.seen(pair.question)]
    if embed is None or not kept:
        return kept
    dropped = repeated_by_meaning([pair.question for _, pair in kept], embed, similarity)
    return [one for place, one in enumerate(kept) if place not in dropped]


def write_rows(path: Path, cases: Sequence[tuple[DocumentChunk, Pair]], form: Form) -> None:
    """Write the dataset in Leadline's JSON Lines; it appears complete or not at all."""
    with handed_out(path) as temporary, temporary.open("wb") as file:
        for row in _rows(cases, form):
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def _rows(cases: Sequence[tuple[DocumentChunk, Pair]], form: Form) -> Iterator[dict[str, Any]]:
    for chunk, pair in cases:
        row: dict[str, Any] = {
            "case": f"q-{digest([chunk.documents[0], pair.question])[:16]}",
            "question": pair.question,
            "expected_answer": [pair.answer],
            "expected_documents": list(chunk.documents),
            "metadata": _origin(chunk) | ({"reference_context": chunk.text} if form.context else {}),
        }
        if form.answers:
            context = [{"content": chunk.text, "doc_uri": chunk.documents[0]}]
            row["answers"] = [{"model": MODEL, "actual_answer": pair.answer, "retrieved_context": context}]
        yield row


def _origin(chunk: DocumentChunk) -> dict[str, Any]:
    """Return the origin of a case."""
    values = {
        "source": chunk.documents[0],
        "page": chunk.page,
        "last_page": chunk.last_page if chunk.last_page != chunk.page else None,
        "heading": chunk.section or None,
        "chunk": chunk.digest,
        "start": chunk.start,
        "end": chunk.end,
    }
    return {name: value for name, value in values.items() if value is not None}


Progress: TypeAlias = Callable[[int, int], None]
"""Function that is called with the number of chunks done and the number of all chunks."""

PAUSES: Final = (1.25, 4.0)
"""Pauses before an unreachable judge is asked again, as multiples of ``down_after_s``: it may be restarting."""

MOST_LEFT_OUT: Final = 20
"""Chunks left out that are named; the others are counted."""


@dataclass
class Generated:
    """The result of a generation.

    Attributes:
        blank: Questions and answers dropped because they were empty.
        unanswerable: Questions dropped because their chunk does not answer them.
        repeated: Questions dropped because another one asks the same.
        failed: Chunks left out because a call failed.
        left_out: Places of the first chunks left out, each with the reason.
        errors: Number of chunks left out by error.
    """

    documents: int
    chunks: int
    cases: int = 0
    blank: int = 0
    unanswerable: int = 0
    repeated: int = 0
    failed: int = 0
    replies: int = 0
    left_out: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def count(self, chunk: DocumentChunk, written: Written) -> None:
        """Count the outcome of a chunk."""
        self.blank += written.blank
        self.unanswerable += written.unanswerable
        self.repeated += written.repeated
        self.replies += written.replies
        if written.error is not None:
            self.failed += 1
            self.errors[written.error.message] += 1
            if len(self.left_out) < MOST_LEFT_OUT:
                self.left_out.append(f"{legible(chunk.place())}: {written.error}")


def generate(
    corpus: Corpus,
    client: JudgeClient,
    output: Path,
    *,
    questions: int,
    form: Form | None = None,
    embed: Embed | None = None,
    similarity: float = SIMILARITY,
    progress: Progress = lambda done, total: None,
) -> Generated:
    """Ask about all chunks and write the dataset, which appears complete or not at all.

    Every reply is in the client's ledger before the next call is made: after a crash the same generation asks only for
    what is missing. A chunk of which a call failed is left out as a whole and reported.

    Args:
        questions: How many questions to ask for about each chunk.
        embed: Returns unit vectors, to find questions that mean the same.
        similarity: Cosine from which on questions count as the same.

    Raises:
        LeadlineError: No question was generated; nothing was written.
    """
    written = run_in_loop(_ChunkQuestions(corpus.chunks, client, questions, progress).run())
    done = Generated(corpus.documents, len(corpus.chunks))
    for chunk, outcome in zip(corpus.chunks, written, strict=True):
        done.count(chunk, outcome)
    asked = list(_pairs(corpus.chunks, written))
    cases = without_repeats(asked, embed, similarity)
    done.repeated += len(asked) - len(cases)
    done.cases = len(cases)
    if not cases:
        commonest = done.errors.most_common(1)
        reason = commonest[0][0] if commonest else "the judge found nothing to ask"
        raise LeadlineError(
            f"No question was generated: {reason}", hint="Nothing was written.", code=ErrorCode.GENERATE_NOTHING
        )
    write_rows(output, cases, form or Form())
    return done


def _pairs(chunks: Sequence[DocumentChunk], written: Sequence[Written]) -> Iterator[tuple[DocumentChunk, Pair]]:
    for chunk, outcome in zip(chunks, written, strict=True):
        yield from ((chunk, pair) for pair in outcome.pairs)


class _ChunkQuestions:
    """Asks about all chunks, as many at a time as calls may be in flight.

    They are begun in their order, so that a budget that runs out is spent on complete chunks. Chunks for which the
    judge could not be reached are asked about again later, if it answered others.
    """

    def __init__(
        self, chunks: Sequence[DocumentChunk], client: JudgeClient, questions: int, progress: Progress
    ) -> None:
        self._chunks = chunks
        self._client = client
        self._asker = QuestionAsker(client, questions)
        self._progress = progress
        self._written: dict[int, Written] = {}

    async def run(self) -> list[Written]:
        """Return the outcome of each chunk, in their order."""
        self._report()
        await self._ask(range(len(self._chunks)))
        for pause in PAUSES:
            missed = [place for place, one in self._written.items() if isinstance(one.error, JudgeUnavailable)]
            if not missed or len(missed) == len(self._chunks):
                break
            await asyncio.sleep(pause * self._client.config.down_after_s)
            await self._ask(sorted(missed))
        return [self._written[number] for number in range(len(self._chunks))]

    async def _ask(self, numbers: Sequence[int]) -> None:
        waiting = iter(numbers)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._client.config.max_in_flight, len(numbers))):
                    group.create_task(self._ask_one_by_one(waiting))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _ask_one_by_one(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            self._written[number] = await self._asker.ask(self._chunks[number])
            self._report()

    def _report(self) -> None:
        self._progress(len(self._written), len(self._chunks))
