"""Scoring answers of earlier runs again: by another judge, or as prompts and evaluators are now.

Each run is evaluated as it was, with its kept dataset and those of its evaluators whose configuration differs now. The
new run says of which one it is, so that nothing takes it for a later measurement; and the differences of the scores
tell what the instrument changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline.evaluators.core import all_evaluators, get
from leadline.evaluators.ground import ErrorCode, UsageError, count, refusals_of
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.prepare import PlanPreview, prepared_again, preview, settings_of
from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.job import Job, JobSteps
from leadline.flows.shared.settings import EvaluatorIds, JudgeAccess, StorePlace
from leadline.tasks.ground.files import digest
from leadline.tasks.ground.numbers import money
from leadline.tasks.plan.jobs import make_jobs
from leadline.tasks.plan.selection import load_own_evaluators
from leadline.tasks.runs.baseline import NONE
from leadline.tasks.runs.run_index import RunIndex, RunLine, Wish
from leadline.tasks.runs.run_sentences import paid
from leadline.tasks.store.store import Store

State = Literal["planned", "rescored", "known", "same", "refused", "left"]

_IN_WORDS: Final[Mapping[State, str]] = {
    "planned": "to be scored again",
    "rescored": "scored again",
    "known": "scored again before",
    "same": "scored like this already",
    "refused": "not to be scored again",
    "left": "left for want of budget",
}


class RescoreConfig(FormModel):
    """Runs whose answers are scored again, by which judge, and what it may cost."""

    last: Annotated[int, Option(metavar="N")] = Field(3, ge=1, le=10_000, description="How many runs, the last ones.")
    dataset: Annotated[str, Option(metavar="NAME")] = Field(
        "", max_length=1000, description="Only runs of the dataset of this name. Default: of all."
    )
    match: Annotated[tuple[str, ...], Option(metavar="WORD")] = Field(
        (), description="Only runs with this word in name, id, dataset, models or tags."
    )
    evaluators: EvaluatorIds = ()
    judges: JudgeAccess = Field(JudgeAccess(), description="Who judges, and what it may cost.")
    yes: Annotated[bool, Option("--yes")] = Field(
        False, description="Ask the judge; without it only the price is told where something is to be paid."
    )
    store: StorePlace = None


class RescoredRun(BaseModel):
    """A run that was to be scored again."""

    model_config = ConfigDict(frozen=True)

    run: str = Field(description="Its id.")
    started: str = Field(description="When it was started, as ISO 8601.")
    state: State = Field(description="What became of it.")
    rescored: str = Field("", description="Id of the run that scored its answers again, if there is one.")
    evaluators: tuple[str, ...] = Field((), description="Its evaluators whose configuration differs now.")
    note: str = Field("", description="Why it was refused, if it was.")


class RescoreResult(BaseModel):
    """Outcome of scoring runs again."""

    model_config = ConfigDict(frozen=True)

    runs: tuple[RescoredRun, ...] = Field(description="The runs, the oldest first.")
    planned_calls: int = Field(description="Judge calls that it was to take, as estimated before.")
    planned_tokens: int = Field(description="Their tokens.")
    planned_cost_usd: float | None = Field(description="Their price, if it is known.")
    judge_calls: int = Field(0, description="Judge calls made.")
    judge_cost_usd: float = Field(0.0, description="What they cost, as far as their price is known.")
    judge_unknown_price: int = Field(0, description="Judge calls whose price is not known.")
    differences: tuple[dict[str, Any], ...] = Field(
        (), description="By metric and model what the change of the instrument makes, on the same answers."
    )


@dataclass(frozen=True, slots=True)
class RunToRescore:
    """A run with what scoring it again comes to.

    Attributes:
        config: How it is evaluated again; ``None`` where it is not.
    """

    line: RunLine
    outcome: RescoredRun
    config: EvaluateConfig | None = None
    plan: PlanPreview | None = None


@dataclass(frozen=True, slots=True)
class RescorePlan:
    """Runs that are to be scored again."""

    store: Store
    runs: tuple[RunToRescore, ...]

    def total(self, name: str) -> float | None:
        """Return the sum of a number of the plans over runs and evaluators; ``None`` where one is unknown.

        Args:
            name: A field of :class:`.PlanEntry`.
        """
        entries = [entry for run in self.runs if run.plan for entry in run.plan.entries]
        values = [getattr(entry, name) for entry in entries if name == "reused" or entry.judge_calls]
        return None if None in values else sum(values)

    @property
    def calls(self) -> int:
        """Judge calls that it takes, as estimated."""
        return int(self.total("judge_calls") or 0)


class Rescore(Job[RescoreConfig, RescorePlan, JobSteps, RescoreResult]):
    """Score the answers of the last runs again, and say what the change of judge, prompt or evaluator makes."""

    name = "rescore"
    Config = RescoreConfig
    kept = "Interrupted. Finished chunks and replies are kept: the same command goes on from there."
    label_width = 10

    def check(self, config: RescoreConfig) -> RescorePlan:
        """Find the runs, and plan what scoring them again takes; rows that they share count once.

        Raises:
            UsageError: No run fits, there is no such evaluator or judge, or none of the runs can be scored again.
        """
        store = Store.open(config.store)
        wish = Wish(tuple(word.casefold() for word in config.match), dataset=config.dataset)
        every = RunIndex(store).lines()
        lines = [line for line in every if line.has_report and not line.rescored and wish.fits(line)][: config.last]
        if not lines:
            raise UsageError(
                f"No completed run in the store {store.location} fits.",
                hint="Look at: leadline store runs",
                code=ErrorCode.STORE_NO_RUN,
            )
        planned: dict[str, set[tuple[bytes, int]]] = {}
        runs = tuple(_run_to_rescore(store, config, line, every, planned) for line in reversed(lines))
        if all(run.outcome.state == "refused" for run in runs):
            notes = list(dict.fromkeys(run.outcome.note for run in runs))
            more = f" (and {count(len(notes) - 1, 'other reason')})" if len(notes) > 1 else ""
            raise UsageError(
                f"None of {count(len(runs), 'run')} can be scored again: {notes[0]}{more}",
                hint="Look at: leadline store runs",
                code=ErrorCode.STORE_NO_RESULTS,
            )
        return RescorePlan(store, runs)

    def run(self, config: RescoreConfig, checked: RescorePlan, steps: JobSteps) -> RescoreResult:
        """Score runs again.

        Args:
            config: Which runs, by which judge, and what it may cost.
        """
        from leadline.flows.evaluate.job import EvaluateAgain  # a command's help needs no statistics
        from leadline.tasks.compare.rescored import rescored_differences

        outcomes: list[RescoredRun] = []
        made = _Spent()
        for one in checked.runs:
            outcome = one.outcome
            if one.config is not None and (config.yes or not checked.calls):
                again = made.left_of(one.config)
                if again is None:
                    outcome = outcome.model_copy(update={"state": "left"})
                else:
                    result = steps.run_job(EvaluateAgain(one.line), again)
                    made = made.and_of(result.judge_calls, result.judge_cost_usd, result.judge_unknown_price)
                    outcome = outcome.model_copy(update={"state": "rescored", "rescored": result.run})
            outcomes.append(outcome)
        pairs = [(checked.store.run(one.run), checked.store.run(one.rescored)) for one in outcomes if one.rescored]
        found = steps.step("compare", rescored_differences, checked.store, pairs)
        cost = checked.total("cost_usd")
        return RescoreResult(
            runs=tuple(outcomes),
            planned_calls=checked.calls,
            planned_tokens=int(checked.total("judge_tokens") or 0),
            planned_cost_usd=cost if checked.calls else 0.0,
            judge_calls=made.calls,
            judge_cost_usd=made.cost_usd,
            judge_unknown_price=made.unknown_price,
            differences=tuple(each.to_json() for each in found),
        )

    def asks(self, checked: RescorePlan) -> bool:
        """Return whether a judge is to be asked."""
        return bool(checked.calls)

    def notices(self, checked: RescorePlan) -> Iterable[str]:
        """Yield the price, and why runs are refused."""
        for run in checked.runs:
            if run.outcome.note:
                yield f"Run {run.line.id}: {run.outcome.note}"
        planned = [run for run in checked.runs if run.plan]
        if planned:
            tokens, cost = checked.total("judge_tokens"), checked.total("cost_usd")
            price = f"about {money(cost)}" if cost is not None else "at an unknown price"
            asked = f"at most about {count(checked.calls, 'judge call')}, {tokens or 0:,.0f} tokens, {price}"
            reused = count(int(checked.total("reused") or 0), "row score is", "row scores are")
            takes = asked if checked.calls else "no judge call"
            yield f"{count(len(planned), 'run')} to score again: {takes}; {reused} reused."

    def lines(self, result: RescoreResult) -> Iterable[tuple[str, str]]:
        """Yield what became of the runs, what it cost, and what the instrument changed."""
        states = Counter(run.state for run in result.runs)
        yield "Runs", ", ".join(f"{number:,} {_IN_WORDS[state]}" for state, number in states.items())
        if result.judge_calls:
            price = paid(result.judge_cost_usd, result.judge_calls, result.judge_unknown_price)
            yield "Judge", f"{count(result.judge_calls, 'call')}, {price}"
        for found in result.differences:
            yield "Difference", f"{found['name']} of {found['model']}: {found['words']}"
        if states["same"] == len(result.runs):
            yield "", "Nothing to do: the scores are those that this judge and these prompts give."

    def notes(self, result: RescoreResult) -> Iterable[str]:
        """Yield how to go on where something is left."""
        states = {run.state for run in result.runs}
        if "planned" in states:
            yield "Nothing was asked or computed. The same command with --yes does it."
        if "left" in states:
            yield "The budget is spent. The same command goes on from there."


@dataclass(frozen=True, slots=True)
class _Spent:
    """The judge calls of the runs so far."""

    calls: int = 0
    cost_usd: float = 0.0
    unknown_price: int = 0

    def and_of(self, calls: int, cost_usd: float, unknown_price: int) -> _Spent:
        """Return it with the calls of a further run."""
        return _Spent(self.calls + calls, self.cost_usd + cost_usd, self.unknown_price + unknown_price)

    def left_of(self, config: EvaluateConfig) -> EvaluateConfig | None:
        """Return a request whose budget is what is left of it; ``None`` where nothing is."""
        judges = config.judges
        calls = None if judges.max_calls is None else judges.max_calls - self.calls
        cost = None if judges.max_cost is None else judges.max_cost - self.cost_usd
        if (calls is not None and calls <= 0) or (cost is not None and cost <= 0):
            return None
        return config.model_copy(update={"judges": judges.model_copy(update={"max_calls": calls, "max_cost": cost})})


def _run_to_rescore(
    store: Store,
    config: RescoreConfig,
    line: RunLine,
    every: Sequence[RunLine],
    planned: dict[str, set[tuple[bytes, int]]],
) -> RunToRescore:
    """Plan a run; one that cannot be scored again says why.

    Args:
        every: All runs of the store, of which some scored others again.
        planned: Scores that runs before this one compute.
    """
    found = partial(RescoredRun, run=line.id, started=line.started)
    try:
        record = store.run(line.id).read_current()
        again = _config_of(record, config)
        identities = record.get("identities") or {}
        ids = _candidates(again, identities, config)
        if not ids:
            return RunToRescore(line, found(state="refused", note=_no_candidates(config)))
        again = _only(again, ids)
        prepared = prepared_again(again, line)
    except UsageError as error:
        if error.code not in (ErrorCode.STORE_NO_DATASET, ErrorCode.STORE_OLD_RUN):
            raise
        return RunToRescore(line, found(state="refused", note=str(error)))
    judges = again.judges
    jobs = make_jobs(prepared.choice.evaluators, prepared.settings, trials=judges.trials, trial_rows=judges.trial_rows)
    changed = {job.evaluator: job.config for job in jobs if job.config != digest(identities[job.evaluator])}
    if not changed:
        return RunToRescore(line, found(state="same"))
    chosen = tuple(one for one in prepared.choice.evaluators if one.spec.id in changed)
    again = _only(again, tuple(changed))
    plan = preview(again, replace(prepared, choice=replace(prepared.choice, evaluators=chosen)), planned)
    outcome = found(state="planned", evaluators=tuple(changed))
    if not any(entry.to_compute for entry in plan.entries):
        for other in every:
            if other.rescored == line.id and other.has_report and _is_whole(store, other, line, changed):
                return RunToRescore(line, outcome.model_copy(update={"state": "known", "rescored": other.id}))
    return RunToRescore(line, outcome, again, plan)


def _config_of(record: Mapping[str, Any], config: RescoreConfig) -> EvaluateConfig:
    """Return a run's request as it is to be made again: by the other judge, and for nobody's gate."""
    try:
        was = EvaluateConfig.model_validate(record.get("config"))
    except ValidationError as error:
        raise UsageError(
            f"Its settings are not those of this version: {refusals_of(error, EvaluateConfig)[0]}",
            code=ErrorCode.STORE_OLD_RUN,
        ) from None
    asked = config.judges
    named = {"model", "api_base", "config"} if asked.model else set[str]()
    changes = {name: getattr(asked, name) for name in {*named, "max_calls", "max_cost", "team"}}
    usual = EvaluateConfig(dataset=was.dataset)
    places = {"evaluators_dir", "evaluator_files"}
    kept = {"name", "params", "models", "slices", "model_keys", "policy", "labels", *places}
    return usual.model_copy(
        update={name: getattr(was, name) for name in kept}
        | {"judges": was.judges.model_copy(update=changes), "against": NONE, "store": config.store}
    )


def _only(config: EvaluateConfig, ids: tuple[str, ...]) -> EvaluateConfig:
    params = {name: given for name, given in config.params.items() if name in ids}
    return config.model_copy(update={"evaluators": ids, "params": params})


def _candidates(again: EvaluateConfig, identities: Mapping[str, Any], config: RescoreConfig) -> tuple[str, ...]:
    """Return the evaluators of a run that may be scored again: those that are named, else those that ask the judge."""
    load_own_evaluators(settings_of(again))
    known = all_evaluators()
    for name in config.evaluators:
        get(name)  # which refuses one that there is not
    if config.evaluators:
        return tuple(name for name in sorted(identities) if name in config.evaluators)
    return tuple(
        name for name in sorted(identities) if name in known and (known[name].spec.judge or not config.judges.model)
    )


def _no_candidates(config: RescoreConfig) -> str:
    return "It has none of these evaluators." if config.evaluators else "None of its evaluators asks a judge."


def _is_whole(store: Store, other: RunLine, line: RunLine, changed: Mapping[str, str]) -> bool:
    """Return whether a run has the scores that another one is to have, as far as they could be had."""
    identities = store.run(other.id).read().get("identities") or {}
    lacking = (other.work["unscored"] or 0) - (line.work["unscored"] or 0)
    return lacking <= 0 and all(digest(identities.get(name)) == config for name, config in changed.items())
