"""Collecting: models under test are asked for their answers to the cases of a suite, which become a dataset."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.evaluators.judge_client.budget import Limits
from leadline.flows.prefect import outside_requests as outside
from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.job import Job, JobSteps, output_file, reading, report
from leadline.flows.shared.judge_access import limits_for
from leadline.flows.shared.settings import (
    ColumnMapping,
    FormatName,
    ModelName,
    NoCredentials,
    ServerAddress,
    StorePlace,
    TeamName,
)
from leadline.tasks.collect import Collected, ReplayRules, Target, check_target, find_targets, read_targets
from leadline.tasks.collect import collect as ask_models
from leadline.tasks.ledger.ledger import new_name, open_ledger, read_ledger
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.plan.cost import require_model_price
from leadline.tasks.runs.run_sentences import paid
from leadline.tasks.runs.versions import VERSION_PATTERN
from leadline.tasks.store.store import Store


class CollectConfig(FormModel):
    """Suite, models and budget of a collection."""

    suite: Annotated[str, NoCredentials, Option(metavar="SUITE")] = Field(
        min_length=1, description="File with the cases; answers in it are ignored."
    )
    models: Annotated[tuple[ModelName, ...], Option("--model", metavar="M")] = Field(
        (),
        description="Models: a key of a targets file, a LiteLLM name, an address http://… or "
        "python:package.module:function or mcp+http://… Default: all of the targets files.",
    )
    targets: Annotated[tuple[str, ...], Option(metavar="FILE")] = Field(
        (), description="Targets files (TOML or YAML): models, HTTP endpoints, Python callables and MCP tools."
    )
    api_base: Annotated[ServerAddress | None, Option(metavar="URL")] = Field(
        None, description="Address of an OpenAI-compatible server with the named models."
    )
    api_key_env: Annotated[str | None, Option(metavar="NAME")] = Field(
        None, description="Name of the environment variable with their API key; never the key itself."
    )
    system: str | None = Field(None, description="Their system prompt.")
    temperature: float = Field(0.0, ge=0, le=2, description="Their sampling temperature.")
    max_tokens: int = Field(4096, ge=1, description="Their longest answer in tokens.")
    version: Annotated[str | None, Option("--model-version", metavar="V")] = Field(
        None, pattern=VERSION_PATTERN, max_length=100, description="Version of the models that state none."
    )
    max_calls: Annotated[int | None, Option(metavar="N")] = Field(
        None, ge=0, description="Calls that may be made. Default: no limit."
    )
    max_cost: Annotated[float | None, Option(metavar="USD")] = Field(
        None, ge=0, description="US dollars that may be spent. Default: no limit."
    )
    copies: Annotated[int, Option(metavar="N")] = Field(
        1, ge=1, le=1000, description="How often each case is asked; each copy is a trial of its own, as for pass^k."
    )
    replay: Literal["own", "teacher-forced"] = Field(
        "own",
        description="History of a conversation that is held anew: the model's own answers; or the recorded ones, so "
        "that each turn is asked by itself.",
    )
    on_unrecorded: Literal["error", "live", "simulate"] = Field(
        "error",
        description="Calls of tools whose result is not recorded: an error of the instrument; live: made on the tool "
        "source; simulate: the tool source, a model, writes the result.",
    )
    tool_source: Annotated[ModelName | None, Option(metavar="M")] = Field(
        None, description="Target that gives such results, named as a model is: mcp+…, http://…, python:… or a model."
    )
    max_turns: Annotated[int, Option(metavar="N")] = Field(50, ge=1, description="Turns of a conversation, at most.")
    max_rounds: Annotated[int, Option(metavar="N")] = Field(
        20, ge=1, description="Replies in a turn, at most, where tools are called."
    )
    max_seconds: Annotated[float, Option(metavar="S")] = Field(
        1800.0, gt=0, description="Seconds that the replies in a conversation may take together."
    )
    team: TeamName = None
    format: FormatName = Field("auto", description="How the suite is read.")
    map: ColumnMapping = Field({})
    output: Annotated[str | None, Option("-o", "--output", metavar="FILE")] = Field(
        None, description="The dataset to write. Default: SUITE.answers.jsonl here."
    )
    store: StorePlace = None

    @model_validator(mode="after")
    def _check_tool_source(self) -> Self:
        if (self.on_unrecorded == "error") != (self.tool_source is None):
            raise ValueError("unrecorded results need both: --on-unrecorded live or simulate, --tool-source M")
        return self


class CollectResult(BaseModel):
    """Outcome of a collection."""

    model_config = ConfigDict(frozen=True)

    dataset: Path = Field(description="The dataset with the answers.")
    run: str = Field(description="Under which name the ledger has the calls.")
    models: tuple[str, ...] = Field(description="Keys of the models asked.")
    cases: int = Field(description="Cases of the suite.")
    copies: int = Field(1, description="How often each was asked.")
    answered: int = Field(description="Rows with an answer.")
    failed: int = Field(description="Rows with an error instead.")
    truncated: int = Field(0, description="Answers that were cut off at the token limit.")
    unasked: int = Field(0, description="Rows of cases without a question.")
    calls: int = Field(description="Calls made now that were answered.")
    reused: int = Field(description="Answers that the ledger had.")
    stopped: int = Field(0, description="Conversations that a limit ended.")
    cost_usd: float = Field(description="What the calls made now cost, as far as their price is known.")
    unknown_price: int = Field(0, description="Calls made now whose price is not known.")
    seconds: float = Field(description="Seconds from the command, or from the call, to the end.")
    errors: dict[str, int] = Field({}, description="The commonest errors with their number.")


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection that could begin."""

    store: Store
    suite: LoadedDataset
    targets: tuple[Target, ...]
    output: Path
    limits: Limits
    copies: int = 1
    rules: ReplayRules = field(default_factory=ReplayRules)

    def collected(self, steps: JobSteps) -> CollectResult:
        """Ask the models, as one step, and return where the dataset is and what became of the calls."""
        started = time.monotonic()
        name = new_name("collect")
        done: Collected = steps.step(
            "collect",
            ask_models,
            self.store,
            self.suite,
            self.targets,
            self.output,
            ledger=open_ledger(self.store, name, Limits(team=self.limits.team)),  # the own budget stays in this process
            limits=self.limits,
            copies=self.copies,
            rules=self.rules,
            progress=lambda model, finished, total: report("collect", model, finished, total),
        )
        spent = read_ledger(self.store).total(name)  # replies without an answer were paid for as well
        steps.log.info("%d answers, %d errors, %d calls", done.answered, done.failed, spent.answered)
        for error, rows in done.commonest_errors().items():
            steps.log.warning("%s an error instead of an answer: %s", count(rows, "row has", "rows have"), error)
        result = CollectResult(
            dataset=self.output.absolute(),
            run=name,
            models=tuple(target.key for target in self.targets),
            cases=done.cases,
            copies=self.copies,
            answered=done.answered,
            failed=done.failed,
            truncated=done.truncated,
            unasked=done.unasked,
            calls=spent.answered,
            reused=done.reused,
            stopped=done.stopped,
            cost_usd=spent.cost_usd,
            unknown_price=spent.unknown_price,
            seconds=round(time.monotonic() - started, 2),
            errors=done.commonest_errors(),
        )
        steps.show("leadline-collect", _summary(result), f"Answers to {self.suite.name}")
        return result


class Collect(Job[CollectConfig, Collection, JobSteps, CollectResult]):
    """Ask models for their answers to the cases of a suite, and write them as a dataset."""

    name = "collect"
    Config = CollectConfig
    first_step = "load"
    named = "suite"
    kept = "Interrupted. Answers are kept: the same command asks only for what is missing."

    def check(self, config: CollectConfig) -> Collection:
        """Find the models and the place of the dataset, and load the suite.

        Raises:
            UsageError: A targets file or a name makes no sense, money is limited for a model of unknown price, or the
                dataset cannot be written.
            DatasetError: The suite was refused.
        """
        targets, source = _targets(config), _tool_source(config)
        every = (*targets, *([source] if source else []))
        limits = limits_for(config.max_calls, config.max_cost, config.team)
        require_target_prices(every, limits)
        output = output_file(config.output, f"{Path(config.suite).stem}.answers.jsonl", sources=[config.suite])
        for target in every:
            check_target(target)
        store = Store.open(config.store)
        how = reading(config.map, format=config.format)
        suite = load_dataset(store, config.suite, cases_only=True, **how)
        rules = ReplayRules(
            config.replay, config.on_unrecorded, source, config.max_turns, config.max_rounds, config.max_seconds
        )
        return Collection(store, suite, targets, output, limits, config.copies, rules)

    def run(self, config: CollectConfig, checked: Collection, steps: JobSteps) -> CollectResult:
        """Collect answers.

        Args:
            config: Which models, which cases, and what it may cost.
        """
        return checked.collected(steps)

    def check_outside(self, config: CollectConfig, rules: outside.Allowed) -> None:
        """Refuse targets that requests from outside may not name."""
        for file in config.targets:
            rules.check_file("targets file", file)
        own = [target for file in config.targets for target in read_targets(Path(file))]
        source = _tool_source(config)
        for target in (*_targets(config), *([source] if source else [])):
            outside.check_target(rules, target, own)

    def notices(self, checked: Collection) -> Iterable[str]:
        """Yield what is wrong with the suite's columns."""
        return (f"Warning: {warning}." for warning in checked.suite.column_warnings)

    def lines(self, result: CollectResult) -> Iterable[tuple[str, str]]:
        """Yield what was collected."""
        price = paid(result.cost_usd, result.calls, result.unknown_price)
        made = f"{result.calls:,} made{f', {price}' if result.calls else ''}"
        cases = f"{count(result.cases, 'case')}{f', {result.copies:,} copies each' if result.copies > 1 else ''}"
        yield "Answers", f"{result.answered:,} of {count(len(result.models), 'model')} to {cases}"
        yield "Calls", f"{made}; {count(result.reused, 'answer')} reused; {result.seconds:.1f} s"
        if result.failed:
            yield "Errors", f"{result.failed:,}"
        if result.truncated:
            yield "Cut off", f"{count(result.truncated, 'answer')}, at the token limit"
        if result.stopped:
            yield "Stopped", f"{count(result.stopped, 'conversation')}, at a limit"
        if result.unasked:
            yield "Unasked", f"{count(result.unasked, 'row')} of cases without a question"
        yield "Dataset", str(result.dataset)

    def notes(self, result: CollectResult) -> Iterable[str]:
        """Yield the commonest errors."""
        for error, number in result.errors.items():
            yield f"{count(number, 'row')}: {error}"
        if result.failed:
            yield "The same command asks again for what failed."


def require_target_prices(targets: Sequence[Target], limits: Limits) -> None:
    """Refuse models whose price is unknown where money is limited.

    Raises:
        UsageError: The price of a model is unknown.
    """
    for target in targets:
        require_model_price(target.config(), limits, target.call_cost_usd, by_token=target.kind == "litellm")


def _targets(config: CollectConfig) -> tuple[Target, ...]:
    """Return the models to ask."""
    found = find_targets(config.targets, config.models, version=config.version, defaults=_defaults(config))
    asked = tuple(target for target in found if config.models or target.key != config.tool_source)
    if not asked:
        raise UsageError(
            "The targets files have a tool source, and no model.",
            hint="Add: --model MODEL",
            code=ErrorCode.COLLECT_NO_MODEL,
        )
    return asked


def _tool_source(config: CollectConfig) -> Target | None:
    """Return the target that gives results of tools that are not recorded."""
    if config.tool_source is None:
        return None
    (source,) = find_targets(config.targets, [config.tool_source], defaults=_defaults(config) | {"system": None})
    return source


def _defaults(config: CollectConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in ("api_base", "api_key_env", "system", "temperature", "max_tokens")}


def _summary(result: CollectResult) -> str:
    lines = [
        "| | |\n|---|---|",
        f"| Models | {', '.join(result.models)} |",
        f"| Answers | {result.answered} to {count(result.cases, 'case')}, {result.reused} of them reused |",
        f"| Errors | {result.failed} |",
        f"| Calls | {result.calls}, {result.cost_usd:.4f} USD, {result.unknown_price} of unknown price |",
        f"| Dataset | `{result.dataset}` |",
    ]
    return "\n".join(lines)
