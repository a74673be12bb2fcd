"""``leadline init``: look at a file, and write the settings that suit it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from leadline.evaluators.core import Metric, get
from leadline.evaluators.core.suites import PURPOSES
from leadline.evaluators.data import RowField
from leadline.evaluators.ground import FILE, ErrorCode, UsageError, count, listing, nouns
from leadline.flows.command.options import fill_in, form_options, split_ids
from leadline.flows.command.output import clean
from leadline.flows.command.session import Session, say, session_options
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.prepare import PlanPreview, prepare, preview
from leadline.flows.shared.settings import Judges
from leadline.tasks.ground.files import hand_out
from leadline.tasks.ground.numbers import money
from leadline.tasks.load.columns import ColumnMap, field_of, normalized, project_map
from leadline.tasks.plan.dataset_profile import DatasetProfile, profile, why_not
from leadline.tasks.plan.selection import NO_JUDGE
from leadline.tasks.policy.policy import DEFAULT, Role, Rule, load_policy
from leadline.tasks.policy.questions import DECIDED_BY_ROWS, Question

OPTIONS: Final = frozenset({"evaluators", "suite", "format", "map", "model_name", "judges.model", "judges.api_base"})

_EXPLAINED: Final = """\
leadline init FILE looks at a file of questions and answers and writes leadline.toml for it, here.
It scores nothing, asks no judge and sends nothing anywhere.

FILE is CSV, JSON, JSON Lines or Parquet, such as

  question,expected_answer,actual_answer
  How deep is berth seven?,9.4 metres,Berth seven is 9.4 metres deep.

Other names of columns are understood, and --map FIELD=COLUMN tells the rest. With retrieved_context it
is a RAG application's, with a column model those of several. Exports of ragas, deepeval, promptfoo,
Databricks and H2O are read as they are.

No answers yet: leadline collect suite.csv --model … -o answers.jsonl asks a model or application for them."""


@click.command()
@click.argument("file", metavar="[FILE]", required=False, type=click.Path())
@form_options(EvaluateConfig, only=OPTIONS, set_others=False)
@click.option("--force", is_flag=True, help=f"Replace a {FILE} that is here.")
@session_options
@click.pass_obj
def init(session: Session, /, file: str | None, force: bool, **options: Any) -> None:
    """Look at FILE and write a leadline.toml for it.

    It has the suite, the columns and the policy that suit the file. Nothing is scored. Without FILE it explains itself.
    """
    if file is None:
        click.echo(_EXPLAINED)
        return
    options |= {"dataset": file, "evaluators": split_ids(options["evaluators"]), "store": session.store}
    config = fill_in(EvaluateConfig, "init", options)
    _refuse_other_file(force)
    seen = look(config)
    for warning in seen.plan.warnings:
        say(f"Warning: {clean(warning)}.")
    FILE.write_text(settings_text(seen), encoding="utf-8")
    hand_out(FILE)
    _print(seen)


def _refuse_other_file(force: bool) -> None:
    if FILE.exists() and not force:
        raise UsageError(
            f"{FILE} is here already, and is left as it is.",
            hint="Replace it with --force, or work in another folder.",
            code=ErrorCode.CONFIG_OUTPUT,
        )


def _print(seen: FirstLook) -> None:
    planned = seen.plan
    models = f"{count(len(planned.models), 'model')} ({listing(map(clean, planned.models), most=5)})"
    columns = ", ".join(
        f"{clean(column)} → {field}" if column != field else field for column, field in planned.columns.items()
    )
    kept = listing(map(clean, planned.metadata_columns), most=8) if planned.metadata_columns else "none"
    asking = [entry.evaluator for entry in planned.entries if entry.judge_calls]
    price = "price unknown" if seen.judge_cost_usd is None else f"about {money(seen.judge_cost_usd)}"
    calls = f"{count(seen.judge_calls, 'call')}, {price}"
    free = len(planned.entries) - len(asking)
    lines = [
        ("File", f"{clean(planned.dataset)} ({planned.format}): {count(planned.rows, 'row')}, "
                 f"{count(planned.cases, 'case')}, {models}"),
        ("Columns", columns or "those of its format"),
        ("Metadata", kept),
        ("Runs", f"{count(free, 'evaluator')} for free: {listing(seen.running, most=30)}"),
    ]  # fmt: skip
    if asking:
        lines.append(("Judge", f"{len(asking)} of them {nouns(len(asking), 'asks', 'ask')} the judge: {calls}"))
    elif seen.judged:
        lines.append(("Judge", f"--judge openai/gpt-4o-mini would bring {len(seen.judged)} more: {calls}"))
    lines += [
        ("Wrote", f"{FILE}: {f'suite {seen.config.suite}' if seen.config.suite else 'what suits the data'}, policy"),
        ("Next", f"leadline evaluate {_quoted(seen.config.dataset)}"),
    ]
    for label, text in lines:
        click.echo(f"{label:<9} {text}")


def _quoted(path: str) -> str:
    return clean(shlex.quote(str(Path(path))))


_EXAMPLE_JUDGE: Final = "openai/gpt-4o-mini"
"""Judge whose calls and price are estimated where none is named."""

_OF_A_PURPOSE: Final = {"summarization": "summarization_judge", "classification": "classification"}
"""Suites, each with an evaluator that suits just the datasets of its purpose."""

_LISTED: Final = 20
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_ROLES: Final = {
    "must": "no answer may fail; tolerance_share = 0.05 tolerates 5 %",
    "should": "the model's value must meet the threshold",
}


@dataclass(frozen=True, slots=True)
class FirstDecision:
    """The gate's demand on one metric by the default policy.

    Attributes:
        name: The rule's name: the evaluator, and its metric if that is not the primary one.
        role: Its weight in the decision.
        threshold: Value that separates good from bad, ``None`` where there is none.
    """

    name: str
    role: Role
    threshold: float | None


@dataclass(frozen=True, slots=True)
class FirstLook:
    """The facts about a file before anything is scored.

    Attributes:
        config: The request: the file and the options that were given, with the suite.
        plan: What would run.
        purpose: What the suite is for, ``""`` without a suite.
        asked: Column or columns by field, as the user mapped them, now or in the ``leadline.toml`` that is here.
        unsure: Field by column, for columns that are taken for a field with a warning.
        decisions: The metrics that can fail the gate.
        can_ask: The questions that what would run can answer.
        judged: Evaluators that would run besides with a judge.
        judge_calls: Calls that the judge would be asked, of the one named or of :data:`_EXAMPLE_JUDGE`.
        judge_cost_usd: Their estimated price, ``None`` where it is unknown.
    """

    config: EvaluateConfig
    plan: PlanPreview
    purpose: str
    asked: ColumnMap
    unsure: Mapping[str, str]
    decisions: tuple[FirstDecision, ...]
    can_ask: tuple[str, ...]
    judged: tuple[str, ...]
    judge_calls: int
    judge_cost_usd: float | None

    @property
    def running(self) -> tuple[str, ...]:
        """Ids of the evaluators that would run."""
        return tuple(entry.evaluator for entry in self.plan.entries)


def look(config: EvaluateConfig) -> FirstLook:
    """Load a file and find what suits it; nothing is scored, and no judge is asked.

    Args:
        config: The file, and what the user said of it.

    Raises:
        UsageError: A setting is wrong.
        DatasetError: The file was refused.
    """
    if config.suite is None and not config.evaluators:
        facts = profile(prepare(config).loaded.path)
        config = config.model_copy(update={"suite": suite_for(facts)})
    planned = preview(config)
    there = {*planned.columns, *planned.metadata_columns}
    kept = {field: columns for field, columns in project_map().items() if there.issuperset(several(columns))}
    lacking = tuple(id_ for id_, why in planned.left_out.items() if why == NO_JUDGE)
    judged = preview(config.model_copy(update={"judges": Judges(model=_EXAMPLE_JUDGE)})) if lacking else planned
    costs = [entry for entry in judged.entries if entry.judge_calls]
    prices = [entry.cost_usd for entry in costs]
    return FirstLook(
        config=config,
        plan=planned,
        purpose=PURPOSES[config.suite][0] if config.suite in PURPOSES else "",
        asked={**kept, **config.map},
        unsure={column: field for column, field in planned.columns.items() if _is_unsure(column, field)},
        decisions=tuple(_decisions(planned)),
        can_ask=_questions(planned),
        judged=tuple(entry.evaluator for entry in judged.entries if entry.evaluator in lacking),
        judge_calls=sum(entry.judge_calls or 0 for entry in costs),
        judge_cost_usd=None if None in prices else sum(price or 0.0 for price in prices),
    )


def several(columns: str | Sequence[str]) -> Sequence[str]:
    """Return the columns of a field, of which a mapping may name one or several."""
    return [columns] if isinstance(columns, str) else columns


def suite_for(facts: DatasetProfile) -> str | None:
    """Return the suite that a dataset is plainly for, ``None`` where only its data can decide."""
    if not facts.texts or facts.rgb:
        return None
    for suite, typical in _OF_A_PURPOSE.items():
        if not why_not(get(typical)(), facts, by_kind=True):
            return suite
    return "rag" if any(RowField.RETRIEVED_CONTEXT in together for together in facts.fields) else None


def _is_unsure(column: str, field: str) -> bool:
    match = field_of(column)
    return match is not None and match.field == field and not match.clear


def _decisions(planned: PlanPreview) -> list[FirstDecision]:
    """Return what the default policy asks of the metrics that would be measured, what blocks first at the top."""
    policy, found = load_policy(DEFAULT), []
    for entry in planned.entries:
        kind = get(entry.evaluator)
        for metric in kind().metrics:
            rule = policy.rule(kind.spec, metric)
            if rule.role is not Role.INFORMATION:
                name = entry.evaluator if metric.primary else f"{entry.evaluator}:{metric.key}"
                found.append(FirstDecision(name, rule.role, _threshold(rule, metric)))
    return sorted(found, key=lambda decision: list(Role).index(decision.role))


def _questions(planned: PlanPreview) -> tuple[str, ...]:
    """Return the questions of which something that would run can show that answers are good."""
    policy, found = load_policy(DEFAULT), set()
    for entry in planned.entries:
        rules = policy.rules_of(get(entry.evaluator)())
        found |= {
            rule.question
            for rule in rules.values()
            if rule.role is not Role.INFORMATION
            and (rule.proof not in ("none", "likeness") or rule.question not in DECIDED_BY_ROWS)
        }
    return tuple(str(question) for question in Question if question in found)


def _threshold(rule: Rule, metric: Metric) -> float | None:
    return metric.threshold if rule.threshold is None else rule.threshold


def settings_text(look: FirstLook) -> str:
    """Return the text of ``leadline.toml``."""
    config, planned = look.config, look.plan
    asked = {column for columns in look.asked.values() for column in several(columns)}
    others = {column: field for column, field in planned.columns.items() if column not in asked}
    renamed = {column: field for column, field in others.items() if normalized(column) != normalized(field)}
    listed = [column for column in planned.metadata_columns if column not in asked]
    more = ", …" if len(listed) > _LISTED else ""
    cost = "" if look.judge_cost_usd is None else f", about {money(look.judge_cost_usd)}"
    return _template().render(
        file=toml(Path(config.dataset).name),
        suite=config.suite,
        purpose=look.purpose or "named for this file",
        evaluators=list(config.evaluators),
        running=list(look.running),
        format=config.format,
        model_name=config.model_name,
        judge=config.judges.model,
        example=_EXAMPLE_JUDGE,
        judge_calls=look.judge_calls,
        cost=cost,
        priced=look.judge_cost_usd is not None,
        api_base=config.judges.api_base,
        asked=list(look.asked.items()),
        unsure=[(field, column) for column, field in others.items() if column in look.unsure],
        understood=[(field, column) for column, field in renamed.items() if column not in look.unsure],
        metadata=", ".join(map(toml, listed[:_LISTED])) + more,
        decisions=look.decisions,
        can_ask=look.can_ask,
        roles=_ROLES,
    )


def toml(value: object) -> str:
    """Return a text, or a list of texts, as TOML writes it on one line, whatever characters it has."""
    escaped = json.dumps(value, ensure_ascii=False)
    return re.sub(
        r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda found: f"\\u{min(ord(found[0]), 0xFFFD):04x}", escaped
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml(name)


@cache
def _template() -> Template:
    environment = Environment(  # noqa: S701 - TOML; the filters escape
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"toml": toml, "key": _key}
    return environment.get_template("starter.toml.jinja")
