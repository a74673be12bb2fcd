"""Collection of a dataset: every case of a suite is put to every model, and all answers are written at the end."""

from __future__ import annotations

import asyncio
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import orjson

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError
from leadline.evaluators.judge_client.budget import Budget, Limits
from leadline.evaluators.judge_client.calls import Ledger
from leadline.evaluators.judge_client.event_loop import cancel_all
from leadline.evaluators.judge_client.event_loop import run as run_in_loop
from leadline.tasks.collect.ask_target import Asker, check_target
from leadline.tasks.collect.cases import SuiteCase, read_cases, write_cases
from leadline.tasks.collect.replay import Held, Replay, ReplayRules, ToolResults, fields_of
from leadline.tasks.collect.targets import Target
from leadline.tasks.collect.templates import TargetAnswer
from leadline.tasks.ground.files import handed_out, scratch_folder
from leadline.tasks.load.dataset import LoadedDataset
from leadline.tasks.store.store import Store

Progress: TypeAlias = Callable[[str, int, int], None]
"""Function that is called with a model's key, the number of its cases done, and the number of all cases."""

PAUSES: Final = (1.25, 4.0)
"""Pauses before an unreachable model is asked again, as multiples of ``down_after_s``: it may be restarting."""

_ERRORS: Final = 5
_TEXTS: Final = 1000
"""Different texts of errors that are counted, at most."""

_ABSENT: Final = -1


@dataclass
class Collected:
    """The result of a collection; the cost of its calls is in the ledger.

    Attributes:
        answered: Rows with an answer.
        failed: Rows with an error instead.
        unasked: Rows of cases without a question.
        truncated: Answers that were cut off.
        reused: Answers that had been given before.
        stopped: Conversations that a limit ended.
        errors: Number of errors by text.
    """

    cases: int = 0
    answered: int = 0
    failed: int = 0
    unasked: int = 0
    truncated: int = 0
    reused: int = 0
    stopped: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def count(self, answer: TargetAnswer) -> None:
        """Count a row."""
        if answer.error is not None:
            self.failed += 1
            self._note(answer.error, 1)
            return
        self.answered += 1
        self.truncated += answer.truncated
        self.reused += answer.reused

    def add_failures(self, others: Collected) -> None:
        """Add the rows with an error of another count."""
        self.failed += others.failed
        for error, rows in others.errors.items():
            self._note(error, rows)

    def _note(self, error: str, rows: int) -> None:
        if error in self.errors or len(self.errors) < _TEXTS:
            self.errors[error] += rows

    def commonest_errors(self) -> dict[str, int]:
        """Return the most common errors with their numbers."""
        return dict(self.errors.most_common(_ERRORS))


def collect(
    store: Store,
    suite: LoadedDataset,
    targets: Sequence[Target],
    output: Path,
    *,
    ledger: Ledger,
    limits: Limits | None = None,
    copies: int = 1,
    rules: ReplayRules | None = None,
    progress: Progress = lambda model, done, total: None,
) -> Collected:
    """Ask all models and write the dataset, which appears complete or not at all.

    Every answer is in the ledger at once: after a crash the same collection asks only for what is missing.

    Args:
        suite: The suite, loaded for its cases only.
        output: The dataset to write, in Leadline's JSON Lines.
        copies: How often every case is asked.
        rules: How conversations are held.

    Raises:
        UsageError: A variable of the environment or a function that a model needs is missing.
        LeadlineError: No model answered anything; nothing was written.
    """
    keys = [target.key for target in targets]
    if len(set(keys)) < len(keys):
        raise UsageError(
            "Two models have the same key.", hint="Give each model a key of its own.", code=ErrorCode.COLLECT_TARGETS
        )
    rules = rules or ReplayRules()
    for target in (*targets, *([rules.tool_source] if rules.tool_source else [])):
        check_target(target)
    budget = Budget(limits or Limits())
    done = Collected(cases=suite.cases)
    with scratch_folder(store.root, "collect") as folder:
        cases = folder / "cases.parquet"
        write_cases(suite.path, cases)
        with tempfile.TemporaryFile(dir=folder) as scratch:  # it has no name, and disappears when it is closed
            table = _AnswerTable(scratch, suite.cases * copies * len(targets))
            source = None if rules.tool_source is None else Asker(rules.tool_source, ledger, budget)
            results = ToolResults(source, simulated=rules.on_unrecorded == "simulate")
            replays = [Replay(Asker(target, ledger, budget), rules, results) for target in targets]
            runs = [
                _ModelRun(replay, number, len(targets), copies, cases, table, done, progress)
                for number, replay in enumerate(replays)
            ]
            try:
                run_in_loop(_ask_all(runs))
            except BaseException:
                cancel_all()  # the models are asked no more; answers that have come are in the ledger
                raise
            if not done.answered:
                reason = next(iter(done.commonest_errors()), "the suite asks nothing")
                raise LeadlineError(
                    f"No model answered anything: {reason.rstrip('.')}.",
                    hint="Nothing was written.",
                    code=ErrorCode.COLLECT_NOTHING,
                )
            with handed_out(output) as temporary:
                table.write(temporary)
    return done


async def _ask_all(runs: Sequence[_ModelRun]) -> None:
    """Put every case to every model; a slow model does not delay the others."""
    try:
        async with asyncio.TaskGroup() as group:
            for run in runs:
                group.create_task(run.run())
    except* LeadlineError as errors:
        raise _first(errors) from None


def _first(error: BaseException) -> BaseException:
    """Return the first error in a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Unreachable:
    """The cases for which a model could not be reached, in one byte a case, and the errors of their rows."""

    def __init__(self, cases: int) -> None:
        self._marks = bytearray(cases)
        self.cases = 0
        self.failures = Collected()

    def __contains__(self, number: int) -> bool:
        return bool(self._marks[number])

    def __len__(self) -> int:
        return self.cases

    def add(self, number: int, answers: Sequence[TargetAnswer]) -> None:
        self._marks[number] = True
        self.cases += 1
        for answer in answers:
            self.failures.count(answer)


@dataclass
class _ModelRun:
    """One model and all cases: as many at a time, and in memory, as calls may be in flight.

    Cases for which the model could not be reached are put to it again later, if it answered others. Until then the
    table has their errors.
    """

    replay: Replay
    number: int
    models: int
    copies: int
    cases: Path
    table: _AnswerTable
    done: Collected
    progress: Progress
    finished: int = 0
    answered: int = 0
    unreachable: _Unreachable = field(init=False)

    def __post_init__(self) -> None:
        self.target = self.replay.asker.target
        self.total = self.done.cases * self.copies
        self.unreachable = _Unreachable(self.total)

    async def run(self) -> None:
        self._report()
        await self._ask(read_cases(self.cases, self.copies))
        for pause in PAUSES:
            if not self.unreachable or not self.answered:
                break
            await asyncio.sleep(pause * self.target.down_after_s)
            missed, self.unreachable = self.unreachable, _Unreachable(self.total)
            await self._ask(case for case in read_cases(self.cases, self.copies) if case.number in missed)
        self.done.add_failures(self.unreachable.failures)
        self.finished += len(self.unreachable)
        self._report()

    async def _ask(self, cases: Iterator[SuiteCase]) -> None:
        """Put cases to the model, as many at once as it may have in flight."""
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self.target.max_in_flight, self.total)):
                group.create_task(self._ask_in_turn(cases))

    async def _ask_in_turn(self, cases: Iterator[SuiteCase]) -> None:
        for case in cases:
            row = dict(case.fields) | self._model()
            answers: list[TargetAnswer] = []
            rows: list[dict[str, Any]] = []
            if case.shown is not None and case.recordings:
                held = await self.replay.hold(case, case.shown)
                answers = [each.answer for each in held]
                rows = [self._conversation(case, each) for each in held]
            elif case.shown is not None:
                answers = [await self.replay.asker.ask(case.shown, case.repeat, case.copy)]
                rows = [row | _fields(answers[0], row.get("metadata", {}))]
            if not rows:
                self.done.unasked += 1
                rows = [row]
            if any(answer.unavailable for answer in answers):
                self.unreachable.add(case.number, answers)
                self._write(case, rows)
                continue
            for answer in answers:
                self.done.count(answer)
                self.answered += answer.error is None
            self._finish(case, rows)

    def _conversation(self, case: SuiteCase, held: Held) -> dict[str, Any]:
        """Return the row of a conversation; its answers stand in its messages."""
        of_case = {name: value for name, value in case.fields.items() if name not in ("question", "expected_answer")}
        fields = fields_of(held, case.recordings[0], self.replay.rules)
        answer = replace(held.answer, text=None, context=())
        facts = _fields(answer, {**of_case.get("metadata", {}), **fields.pop("metadata")})
        self.done.stopped += bool(held.ended)
        return of_case | self._model() | fields | facts

    def _finish(self, case: SuiteCase, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a case, and report that it is done."""
        self._write(case, rows)
        self.finished += 1
        self._report()

    def _write(self, case: SuiteCase, rows: Sequence[Mapping[str, Any]]) -> None:
        """Put a case's rows into the table, in place of earlier ones."""
        self.table.put(case.number * self.models + self.number, rows)

    def _model(self) -> dict[str, str]:
        target = self.target
        stated = {"model": target.key, "model_name": target.name, "model_version": target.version}
        return {name: value for name, value in stated.items() if value is not None}

    def _report(self) -> None:
        self.progress(self.target.key, self.finished, self.total)


def _fields(answer: TargetAnswer, of_case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's fields about the answer in Leadline's names; absent ones left out."""
    values = {
        "actual_answer": answer.text,
        "error": answer.error,
        "retrieved_context": list(answer.context),
        "duration_s": None if answer.seconds is None else round(answer.seconds, 4),
        "cost_usd": answer.cost_usd,
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "metadata": {**of_case, **answer.metadata},
    }
    return {name: value for name, value in values.items() if value is not None and value not in ([], {})}


class _AnswerTable:
    """Takes rows as they come, keeps them in a scratch file, and copies them out in order.

    It takes sixteen bytes of memory a case and model.

    Args:
        scratch: A file that is read and written.
    """

    def __init__(self, scratch: BinaryIO, cases: int) -> None:
        self._places = array("q", [_ABSENT]) * cases
        self._sizes = array("q", [0]) * cases
        self._scratch = scratch

    def put(self, place: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep the rows of a case, in place of earlier ones.

        Args:
            place: Their place in the dataset, counted from 0.
        """
        lines = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
        self._places[place], self._sizes[place] = self._scratch.tell(), len(lines)
        self._scratch.write(lines)

    def write(self, path: Path) -> None:
        """Write all rows in order as JSON Lines."""
        with path.open("wb") as file:
            for place, size in zip(self._places, self._sizes, strict=True):
                if place != _ABSENT:
                    self._scratch.seek(place)
                    file.write(self._scratch.read(size))
