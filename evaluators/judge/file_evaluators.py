"""Judges without Python: each YAML file of a folder is an evaluator, and so is each built-in prompt with front matter.

::

    id: politeness
    name: Politeness
    description: Whether the answer is polite.
    prompt: |
      Is the following answer polite?
      {actual_answer}
      Reply with one word: "polite", "neutral" or "rude".
    classes: [polite, neutral, rude]
    passing: [polite, neutral]

With ``scale: [1, 5]`` instead of ``classes`` the judge replies with a number, and ``passing`` is the threshold. See
:mod:`leadline.evaluators.judge.judge_file` for all keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from leadline.evaluators.core import BUILT_IN, EvalContext, Evaluator, Metric, Spec, boolean_metrics, find, register
from leadline.evaluators.data import Evidence, Json, Row, RowField, RowScore
from leadline.evaluators.ground import ErrorCode, UsageError, from_home
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, PassFailEvaluator, TextCheckParams
from leadline.evaluators.judge.judge_file import (
    BuiltInFile,
    ItemVerdicts,
    JudgeFile,
    UserFile,
    built_in_file,
    user_file,
)
from leadline.evaluators.judge.prompting import Prompt, prompt
from leadline.evaluators.judge.transcript import call_text
from leadline.evaluators.judge.verdicts import (
    PARTS,
    AnyVerdict,
    Assessment,
    FoundItems,
    Verdicts,
    VerdictsOrIdk,
    as_json,
    chunk_spans,
    count_of,
    one_each,
    parts_of,
    rated,
)
from leadline.evaluators.judge_client.calls import JudgeUnparseable
from leadline.evaluators.judge_client.reply_parsing import read_number

ENDINGS: Final = (".yaml", ".yml")

Texts: TypeAlias = Mapping[str, Any]


class _FromFile(JudgeEvaluator):
    """The base of all kinds."""

    judge_file: ClassVar[JudgeFile]

    @property
    def required(self) -> tuple[RowField, ...]:
        """The fields that the file needs."""
        return self.judge_file.required

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields that the file's prompt shows."""
        return self.judge_file.shown

    def all_prompts(self) -> dict[str, Prompt]:
        """Return the file's prompt."""
        return {self.judge_file.prompt_name: self.judge_file.asked.prompt}

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Add what a user's file says to what keys cover; a built-in one has a version."""
        said = {"file": self.judge_file.identity()} if isinstance(self.judge_file, UserFile) else {}
        return super().identity(ctx) | said

    def settled(self, row: Row) -> RowScore | None:
        """Return the score of a row that a blank field decides, but for one that passes or fails."""
        settled = self.judge_file.settled(row)
        if settled is not None and settled.result == "not applicable":
            return RowScore.not_applicable(self.row_metrics, settled.message)
        if settled is not None and isinstance(settled.result, float):
            return RowScore({self.metrics[0].key: settled.result}, Evidence(settled.message))
        return None

    def shown(self, row: Row) -> list[Texts]:
        """Return a row's texts, once for each expected answer if the prompt shows it."""
        asked = self.judge_file.asked
        expected = dict.fromkeys(row.expected_answers) if RowField.EXPECTED_ANSWER in asked.fields else {}
        return [asked.texts(row, text) for text in expected or [""]]


class ClassesFromFile(_FromFile, PassFailEvaluator):
    """A file's evaluator whose judge says one of several words."""

    context_as: ClassVar[str | None] = None

    @property
    def _checks_context(self) -> bool:
        return bool(self.context_as and getattr(self.params, "evaluate_retrieved_context", False))

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields that the prompt shows, and the retrieved context if it is checked."""
        shown = {*super().reads, *([RowField.RETRIEVED_CONTEXT] if self._checks_context else [])}
        return tuple(field for field in RowField if field in shown)

    def calls_per_row(self) -> float:
        """One for the row, and one for the retrieved context if it is checked."""
        return 2.0 if self._checks_context else 1.0

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row, unless it is not applicable."""
        return self.settled(row) or await super().judge_row(row, judge, ctx)

    async def fails(self, row: Row, judge: Judge) -> tuple[bool, Json]:
        """Ask about one row; with several expected answers one after the other until one passes."""
        settled = self.judge_file.settled(row)
        if settled is not None:
            return settled.result == "fail", None
        word = ""
        for texts in self.shown(row):
            word, passes = await self._choose(judge, texts)
            if passes:
                return False, word
        return True, word

    async def context_fails(self, row: Row, judge: Judge) -> tuple[bool, Json]:
        """Ask about the chunks, joined by line feeds; blank ones pass."""
        context = "\n".join(chunk.content for chunk in row.retrieved_context)
        if self.context_as is None or not self._checks_context or not context.strip():
            return False, None
        word, passes = await self._choose(judge, {self.context_as: context})
        return not passes, word

    async def _choose(self, judge: Judge, texts: Texts) -> tuple[str, bool]:
        passing = self.judge_file.passing
        word = await judge.choose(self.judge_file.prompt_name, self.judge_file.classes, **texts)
        return word, isinstance(passing, tuple) and word in passing


class ScaleFromFile(_FromFile):
    """A file's evaluator whose judge says a number."""

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Ask about one row; with several expected answers the best number counts."""
        settled = self.settled(row)
        if settled is not None:
            return settled
        numbers = [await judge.read(self.judge_file.prompt_name, self._number, **texts) for texts in self.shown(row)]
        best = max(numbers) if self.judge_file.higher_is_better else min(numbers)
        return RowScore({self.metrics[0].key: best}, Evidence(data={"verdict": best}))

    def _number(self, reply: str) -> float:
        value = read_number(reply, *self.judge_file.range)
        if self.judge_file.whole and not value.is_integer():
            raise JudgeUnparseable(f"The rating {value:g} is not an integer.")
        return value


class RatingFromFile(_FromFile):
    """A file's evaluator whose judge says yes or no with a rationale: 1 or 0."""

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Ask about one row; with several expected answers one after the other until one gets a yes."""
        settled = self.settled(row)
        if settled is not None:
            return settled
        reply = Assessment(rating="no")
        for texts in self.shown(row):
            reply = await judge.ask(self.judge_file.prompt_name, Assessment, **texts)
            if reply.rating == "yes":
                break
        return rated(self.metrics[0].key, reply)


class VerdictsFromFile(_FromFile):
    """A built-in evaluator whose value is the share of items that the judge says yes to."""

    judge_file: ClassVar[BuiltInFile]

    def all_prompts(self) -> dict[str, Prompt]:
        """Return the prompt that lists the items, if they are not the contexts, and the file's."""
        of = self._asks.of
        return ({of: prompt(PARTS[of].prompt)} if of in PARTS else {}) | super().all_prompts()

    def calls_per_row(self) -> float:
        """The verdicts, and the list of items if they are not the contexts."""
        return 2.0 if self._asks.of in PARTS else 1.0

    @property
    def _asks(self) -> ItemVerdicts:
        if self.judge_file.verdicts is None:
            raise LookupError(f"{self.spec.id} asks for no verdicts")
        return self.judge_file.verdicts

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Ask about the items of one row."""
        settled = self.settled(row)
        if settled is not None:
            return settled
        asks = self._asks
        items, verdicts = await self._judged(row, judge)
        yes = count_of(verdicts)
        message = asks.said(yes, len(items))
        value = yes / len(items) if items else asks.without
        if isinstance(value, str):
            return RowScore.not_applicable(self.row_metrics, message)
        return RowScore({self.metrics[0].key: value}, self._evidence(row, items, verdicts, message))

    async def _judged(self, row: Row, judge: Judge) -> tuple[Sequence[str], Sequence[AnyVerdict]]:
        """Return the items of a row with a verdict on each."""
        asks, name = self._asks, self.judge_file.prompt_name
        (texts,) = self.shown(row)
        if asks.of == "found":
            found = (await judge.ask(name, FoundItems, **texts)).items
            return [each.item for each in found], found
        items: Sequence[str] = [chunk.content for chunk in row.retrieved_context]
        if asks.of == "calls":
            items = [call_text(call.name, call.arguments) for call in row.tool_calls or ()]
        elif asks.of in PARTS:
            items = await parts_of(judge, asks.of, row.actual_answer or "")
        shape = VerdictsOrIdk if asks.idk else Verdicts
        return items, await one_each(judge, name, items, shape=shape, **texts)

    def _evidence(self, row: Row, items: Sequence[str], verdicts: Sequence[AnyVerdict], message: str) -> Evidence:
        of, noted = self._asks.of, self._asks.noted
        if noted is None:
            return Evidence(message, data={of: as_json(items, verdicts)})
        spans = chunk_spans(row.retrieved_context, [verdict.verdict == "yes" for verdict in verdicts], *noted)
        return Evidence(message, spans, {of: [verdict.model_dump() for verdict in verdicts]})


def load_folder(folder: str | Path) -> tuple[type[Evaluator], ...]:
    """Register the evaluators of a folder's YAML files, and return them in the order of the files' names.

    Loading a folder again registers what its files say by then.

    Raises:
        UsageError: The folder or a file cannot be read, or what a file says makes no sense.
    """
    path = from_home(folder)
    if not path.is_dir():
        raise UsageError(
            f"There is no folder {folder}.",
            hint="It should hold a YAML file for each evaluator.",
            code=ErrorCode.JUDGE_FILE,
        )
    files = sorted(file for file in path.iterdir() if file.suffix in ENDINGS and not file.name.startswith("."))
    if not files:
        raise UsageError(
            f"{folder} holds no YAML file.",
            hint="An evaluator is a file such as politeness.yaml.",
            code=ErrorCode.JUDGE_FILE,
        )
    return tuple(_registered(file) for file in files)


def _registered(file: Path) -> type[Evaluator]:
    kind = evaluator_from(file)
    known = find(kind.spec.id)
    if known is not None and known.__qualname__ != kind.__qualname__:
        raise UsageError(
            f"{file}: id: there is an evaluator called {kind.spec.id!r} already.",
            hint="Choose another id.",
            code=ErrorCode.JUDGE_FILE,
        )
    return register(kind)


def evaluator_from(file: Path) -> type[Evaluator]:
    """Return the evaluator that a user's file describes.

    Raises:
        UsageError: It cannot be read, or makes no sense.
    """
    judge_file = user_file(file)
    place = hashlib.sha256(str(file.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return _evaluator(judge_file, _spec(judge_file, file.name), f"FromFile_{place}_{judge_file.id}", __name__)


def register_built_in(file: Path) -> type[Evaluator]:
    """Register the evaluator of a built-in prompt with front matter, as the registry does where it is asked for.

    Raises:
        UsageError: The file is broken.
    """
    judge_file = built_in_file(file)
    spec = replace(_spec(judge_file, file.name), origin=judge_file.origin, version=judge_file.version)
    more: dict[str, Any] = {}
    if judge_file.context_as:
        also = {*spec.also_reads, RowField.RETRIEVED_CONTEXT}
        spec = replace(spec, also_reads=tuple(field for field in RowField if field in also))
        more = {"context_as": judge_file.context_as, "parameters": TextCheckParams}
    return register(_evaluator(judge_file, spec, f"BuiltIn_{judge_file.id}", f"{BUILT_IN}{judge_file.family}", **more))


def _evaluator(judge_file: JudgeFile, spec: Spec, name: str, module: str, **more: Any) -> type[Evaluator]:
    kind: type[_FromFile] = RatingFromFile
    if judge_file.classes:
        kind = ClassesFromFile
    elif judge_file.scale:
        kind = ScaleFromFile
    elif isinstance(judge_file, BuiltInFile) and judge_file.verdicts:
        kind = VerdictsFromFile
    text = f"{judge_file.description}\n\n{judge_file.details}".strip()
    members = {"spec": spec, "judge_file": judge_file, "__doc__": text, "__module__": module}
    return type(name, (kind,), members | more)


def _spec(judge_file: JudgeFile, file_name: str) -> Spec:
    listed = judge_file.listed
    return Spec(
        id=judge_file.id,
        name=judge_file.name,
        family=judge_file.family,
        inputs=listed,
        metrics=_metrics(judge_file),
        optional=frozenset(listed) - {*judge_file.required},
        also_reads=tuple(field for field in judge_file.shown if field not in listed),
        judge="llm",
        lane="judge",
        llm=not judge_file.rag_only,
        leaderboard="bool" if judge_file.classes else "heatmap",
        insight_type=judge_file.topic,
        problem_type=judge_file.topic,
        keywords=("judge", *judge_file.keywords),
        source=judge_file.source or file_name,
        suits=judge_file.suits,
        unit=judge_file.unit,
    )


def _metrics(judge_file: JudgeFile) -> tuple[Metric, ...]:
    if judge_file.classes:
        passes, failures, retrieval, generation, parsing = (judge_file.metrics or _default_names(judge_file)).items()
        what = judge_file.looks_for or judge_file.name
        return boolean_metrics(passes, failures, retrieval, generation, parsing, what=what)
    text = judge_file.metric
    return (
        Metric(
            text.key or judge_file.id.rpartition(".")[2],
            text.name or judge_file.name,
            judge_file.higher_is_better,
            judge_file.range,
            judge_file.passing if isinstance(judge_file.passing, float | int) else None,
            primary=True,
            description=text.description or judge_file.description,
            share=judge_file.rating,
            over_turns=text.over_turns,
        ),
    )


def _default_names(judge_file: JudgeFile) -> dict[str, str]:
    return {
        "model_passes": f"{judge_file.name} (pass)",
        "model_failures": f"{judge_file.name} (fail)",
        "model_retrieval_failures": f"{judge_file.name} retrieval failures",
        "model_generation_failures": f"{judge_file.name} generation failures",
        "model_parse_failures": f"{judge_file.name} parsing failures",
    }
