"""Perturbation of a suite: it is written again with perturbed copies, each linked to its original."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import orjson

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.judge.judge_evaluator import Judge
from leadline.evaluators.judge.prompting import prompt
from leadline.evaluators.judge_client.calls import JudgeError
from leadline.evaluators.judge_client.event_loop import run as run_in_loop
from leadline.tasks.collect.cases import SuiteCase, read_cases, write_cases
from leadline.tasks.ground.files import handed_out, scratch_folder
from leadline.tasks.load.dataset import LoadedDataset
from leadline.tasks.perturb.perturbations import COPY, MISINFORMATION, PerturbationStep, Recipe
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.evaluators.judge_client.client import JudgeClient

SEED: Final = 1
_TRIES: Final = 15
_AT_ONCE: Final = 200
_EXPECTATIONS: Final = ("expected_answer", "condition")
_PROMPT: Final = Path(__file__).with_name("misinformation.jinja")


@dataclass
class Perturbed:
    """The result of a perturbation.

    Attributes:
        copies: Copies made, by recipe.
        unchanged: Questions in which there is nothing to change, by recipe; they have no copy.
        failed: Copies that a judge was to write and did not, by message.
    """

    cases: int = 0
    copies: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy to be made.

    Attributes:
        number: Which copy by this recipe, counted from 1.
    """

    case: SuiteCase
    recipe: Recipe
    number: int

    @property
    def label(self) -> str:
        """The properties that distinguish it from other copies."""
        return f"{self.recipe}" if self.number == 1 else f"{self.recipe}#{self.number}"

    @property
    def key(self) -> str:
        """The key of the copy's case."""
        return f"{self.case.fields['case']}~{self.label}"

    def random(self, seed: int) -> Random:
        """Return a generator that depends on nothing but the seed, the case and the copy."""
        name = f"{seed}\0{self.key}"
        return Random(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest())  # noqa: S311


def perturb(
    store: Store,
    suite: LoadedDataset,
    recipes: Sequence[Recipe],
    output: Path,
    *,
    seed: int = SEED,
    copies: int = 1,
    judge: JudgeClient | None = None,
) -> Perturbed:
    """Write a suite with the cases of another and their perturbed copies.

    A copy has the key ``CASE~RECIPE``, categories that say what was done, and a link to its original. Where the meaning
    changes (antonyms), it has no expected answer and no condition. Cases that are copies themselves, and those
    that ask nothing, are taken over and get no copies. The same seed gives the same copies, whatever else is asked for.

    Args:
        suite: The suite, loaded for its cases only.
        recipes: What to do; each gives copies of its own.
        output: The file to write, JSON Lines; it appears complete or not at all.

    Raises:
        UsageError: The same recipe twice, WordNet or a judge is needed and missing, or no copy could be made.
    """
    names = Counter(map(str, recipes))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise UsageError(
            f"{twice[0]} is asked for twice.", hint="Use --copies for several copies.", code=ErrorCode.PERTURB_UNKNOWN
        )
    if judge is None and any(recipe.asks_judge for recipe in recipes):
        raise UsageError(
            "Misinformation is written by a judge, and none is named.",
            hint="Add: --judge MODEL",
            code=ErrorCode.PLAN_NEEDS_JUDGE,
        )
    done = Perturbed()
    with ExitStack() as stack:
        cases = stack.enter_context(scratch_folder(store.root, "perturb")) / "cases.parquet"
        write_cases(suite.path, cases)
        file = stack.enter_context(stack.enter_context(handed_out(output)).open("wb"))
        lines = read_cases(cases)
        while batch := list(islice(lines, _AT_ONCE)):
            _write(file, batch, recipes, copies, seed, judge, done)
        if not done.copies:
            reason = next(iter(done.failed), "there is nothing in the questions to change")
            raise UsageError(
                f"No copy could be made: {reason}.", hint="Nothing was written.", code=ErrorCode.PERTURB_NOTHING
            )
    return done


def _write(
    file: BinaryIO,
    batch: Sequence[SuiteCase],
    recipes: Sequence[Recipe],
    copies: int,
    seed: int,
    judge: JudgeClient | None,
    done: Perturbed,
) -> None:
    wanted = [_Copy(case, recipe, number) for case in batch if _is_original(case) for recipe in recipes
              for number in range(1, copies + 1)]  # fmt: skip
    contexts = run_in_loop(_mislead(wanted, judge, done)) if judge is not None else {}
    made = iter(wanted)
    for case in batch:
        done.cases += 1
        file.write(_line(case.fields))
        for copy in islice(made, len(recipes) * copies if _is_original(case) else 0):
            fields = _perturbed(copy, seed, contexts, done)
            if fields is not None:
                file.write(_line(fields))


def _is_original(case: SuiteCase) -> bool:
    return case.shown is not None and not case.fields.get("relationships")


def _line(fields: Mapping[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _perturbed(copy: _Copy, seed: int, contexts: Mapping[str, str], done: Perturbed) -> dict[str, Any] | None:
    fields = copy.case.fields
    if copy.recipe.asks_judge and copy.key not in contexts:
        return None
    question = _changed(copy, copy.random(seed), contexts.get(copy.key, ""))
    if question is None:
        done.unchanged[str(copy.recipe)] += 1
        return None
    done.copies[str(copy.recipe)] += 1
    steps = copy.recipe.steps
    keeps = all(step.keeps_meaning for step in steps)
    categories = [*fields.get("categories", ()), "perturbed", *(name for step in steps for name in step.categories)]
    return {name: value for name, value in fields.items() if keeps or name not in _EXPECTATIONS} | {
        "case": copy.key,
        "question": question,
        "categories": categories,
        "relationships": [{"type": "perturbation_source", "target": fields["case"], "perturbation": str(copy.recipe)}],
    }


def _changed(copy: _Copy, random: Random, context: str) -> str | None:
    """Return the perturbed question, ``None`` when some step finds nothing to change."""
    text = str(copy.case.fields["question"])
    for step in copy.recipe.steps:
        changed = f"{context}\n\n{text}" if step.name == MISINFORMATION else _tried(step, text, random)
        if changed == text and step.name != COPY:
            return None
        text = changed
    return text


def _tried(step: PerturbationStep, text: str, random: Random) -> str:
    """Apply a step, again if chance had it change nothing."""
    for _ in range(_TRIES):
        changed = step.apply(text, random)
        if changed != text:
            return changed
    return text


async def _mislead(wanted: Sequence[_Copy], client: JudgeClient | None, done: Perturbed) -> dict[str, str]:
    """Have a judge write the contexts that are needed; the ledger keeps them, so that no one is paid for twice."""
    asked = [copy for copy in wanted if copy.recipe.asks_judge]
    written = await asyncio.gather(*(_context(copy, client, done) for copy in asked)) if client else []
    return {copy.key: text for copy, text in zip(asked, written, strict=True) if text is not None}


async def _context(copy: _Copy, client: JudgeClient, done: Perturbed) -> str | None:
    judge = Judge(client, "perturb", {"context": prompt(_PROMPT)}, trial=copy.number - 1)
    try:
        return await judge.say("context", question=copy.case.fields["question"])
    except JudgeError as error:
        done.failed[error.message] += 1
        return None
