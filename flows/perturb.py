"""Perturbing: copies of a suite's cases with a reworded question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from leadline.evaluators.core import EvalContext
from leadline.evaluators.ground import count
from leadline.evaluators.judge_client.budget import Limits
from leadline.evaluators.judge_client.client import JudgeClient
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.job import Job, JobSteps, output_file, reading
from leadline.flows.shared.judge_access import judges_of, limits_of
from leadline.flows.shared.settings import ColumnMapping, FormatName, JudgeAccess, StorePlace
from leadline.tasks.ledger.ledger import new_name, open_ledger
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.perturb.copies import Perturbed, perturb
from leadline.tasks.perturb.perturbations import Recipe, recipe
from leadline.tasks.store.store import Store


class PerturbConfig(FormModel):
    """Suite, perturbations and number of copies."""

    suite: Annotated[str, Option(metavar="SUITE")] = Field(
        description="File with the cases; answers in it are ignored."
    )
    recipes: Annotated[tuple[str, ...], Option("--with", metavar="NAME[:HOW][+…]")] = Field(
        min_length=1, description="What to do, such as typo:high or comma+word_swap; each gives a copy of every case."
    )
    output: Annotated[str | None, Option("-o", "--output", metavar="FILE")] = Field(
        None, description="The file to write. Default: SUITE.perturbed.jsonl."
    )
    seed: int = Field(1, description="Seed of the random choices.")
    copies: int = Field(1, ge=1, le=100, description="Copies of each case by each recipe.")
    format: FormatName = Field("auto", description="How the suite is read.")
    map: ColumnMapping = Field({})
    store: StorePlace = None
    judges: JudgeAccess = Field(JudgeAccess(), description="Who writes misinformation, and what it may cost.")


class PerturbResult(BaseModel):
    """Outcome of a perturbation."""

    model_config = ConfigDict(frozen=True)

    cases: int = Field(description="Cases of the suite.")
    copies: dict[str, int] = Field(description="Copies made, by recipe.")
    unchanged: dict[str, int] = Field(description="Questions in which there is nothing to change, by recipe.")
    failed: dict[str, int] = Field(description="Copies that a judge was to write and did not, by message.")
    suite: Path = Field(description="The suite with the copies.")


@dataclass(frozen=True, slots=True)
class PreparedCopies:
    """The request after its check, ready for the suite to be written with its copies."""

    store: Store
    suite: LoadedDataset
    recipes: tuple[Recipe, ...]
    output: Path
    judges: tuple[JudgeConfig, ...]
    limits: Limits

    def judge(self) -> JudgeClient | None:
        """Return the client of the default judge, ``None`` without one; what it says is kept in the ledger."""
        if not self.judges:
            return None
        name = new_name("perturb")
        ledger = open_ledger(self.store, name, self.limits)
        return EvalContext(Settings(judges=self.judges), ledger=ledger).judge_client()


class Perturb(Job[PerturbConfig, PreparedCopies, JobSteps, PerturbResult]):
    """Make perturbed copies of a suite's cases."""

    name = "perturb"
    Config = PerturbConfig
    first_step = "load"
    named = "suite"

    def check(self, config: PerturbConfig) -> PreparedCopies:
        """Find the recipes, the place of the copies and the judge, and load the suite.

        Raises:
            UsageError: There is no such perturbation or judge, or the copies cannot be written.
            DatasetError: The suite cannot be read.
        """
        recipes = tuple(map(recipe, config.recipes))
        output = output_file(config.output, f"{Path(config.suite).stem}.perturbed.jsonl", sources=[config.suite])
        store = Store.open(config.store)
        suite = load_dataset(store, config.suite, cases_only=True, **reading(config.map, format=config.format))
        asked = any(each.asks_judge for each in recipes)
        judges, limits = (judges_of(config.judges), limits_of(config.judges)) if asked else ((), Limits())
        return PreparedCopies(store, suite, recipes, output, judges, limits)

    def run(self, config: PerturbConfig, checked: PreparedCopies, steps: JobSteps) -> PerturbResult:
        """Make perturbed copies.

        Args:
            config: Which copies of which cases.
        """
        done: Perturbed = steps.step(
            "perturb",
            perturb,
            checked.store,
            checked.suite,
            checked.recipes,
            checked.output,
            seed=config.seed,
            copies=config.copies,
            judge=checked.judge(),
        )
        steps.log.info("%d copies of %d cases", done.copies.total(), done.cases)
        result = PerturbResult(**vars(done), suite=checked.output.absolute())
        for note in self.notes(result):
            steps.log.info("%s", note)
        return result

    def asks(self, checked: PreparedCopies) -> bool:
        """Return whether a judge writes copies."""
        return any(each.asks_judge for each in checked.recipes)

    def notes(self, result: PerturbResult) -> Iterable[str]:
        """Yield how many copies there are by each recipe, and why some are missing."""
        for name, number in result.copies.items():
            yield f"{name}: {count(number, 'copy', 'copies')}"
        for name, number in result.unchanged.items():
            yield f"{name}: nothing to change in {count(number, 'question')}"
        for message, number in result.failed.items():
            yield f"{count(number, 'copy was', 'copies were')} not written: {message}"
