"""``leadline init``: look at a file and write the settings for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.ground import FILE, count, listing, nouns
from leadline.flows.command.options import fill_in, form_options, split_ids
from leadline.flows.command.output import clean
from leadline.flows.command.session import Session, say, session_options
from leadline.flows.evaluate.config import EvaluateConfig

if TYPE_CHECKING:
    from leadline.cli.starter.first_look import FirstLook

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
    from leadline.cli.starter.first_look import look, settings_text
    from leadline.tasks.ground.files import hand_out

    seen = look(config)
    for warning in seen.plan.warnings:
        say(f"Warning: {clean(warning)}.")
    FILE.write_text(settings_text(seen), encoding="utf-8")
    hand_out(FILE)
    _print(seen)


def _refuse_other_file(force: bool) -> None:
    from leadline.evaluators.ground import ErrorCode, UsageError

    if FILE.exists() and not force:
        raise UsageError(
            f"{FILE} is here already, and is left as it is.",
            hint="Replace it with --force, or work in another folder.",
            code=ErrorCode.CONFIG_OUTPUT,
        )


def _print(seen: FirstLook) -> None:
    from leadline.tasks.ground.numbers import money

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
    import shlex

    return clean(shlex.quote(str(Path(path))))
