"""Take labels of people, and correct a judge by what they say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, count, listing
from leadline.flows.command.output import clean, number, print_json, print_table
from leadline.flows.command.session import LABELS_HELP, F, Session, say, session_options
from leadline.tasks.ground.files import handed_out
from leadline.tasks.judges.labels.label_sets import LabelSet, find_label_set, label_sets
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from leadline.tasks.judges.labels.label_report import LabelledModel
    from leadline.tasks.judges.labels.label_sets import LabelSet
    from leadline.tasks.judges.labels.run_corrections import LabelledMetric
    from leadline.tasks.load.label import Label
    from leadline.tasks.statistics.label_correction import Corrected


_SET = click.option("--set", "set_name", default="labels", show_default=True, metavar="NAME", help="The set of labels.")
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _output(text: str) -> Callable[[F], F]:
    """Return the option that names the file to write."""
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.option("-o", "--output", type=kind, required=True, metavar="FILE", help=text)


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_SET
@click.option("--run", "run_name", metavar="RUN", help="The run whose rows a file names by case and model.")
@click.option("--metric", metavar="NAME", help="Metric of labels whose file names none: EVALUATOR or EVALUATOR.METRIC.")
@click.option("--person", default="", metavar="NAME", help="Person of labels whose file names none.")
@session_options
@click.pass_obj
def labels_import(
    session: Session, /, files: Sequence[Path], set_name: str, run_name: str | None, metric: str | None, person: str
) -> None:
    """Take labels from files.

    These are of the labelling page, CSV, JSON Lines, or of Label Studio or Argilla.
    """
    from leadline.tasks.judges.labels.judged_rows import read_judged_rows
    from leadline.tasks.judges.labels.label_files import read_labels

    store = session.open_store()
    judged = None
    if run_name:
        if not metric:
            raise UsageError("--run needs --metric too, whose rows the file names.", code=ErrorCode.LABEL_FILE)
        judged = read_judged_rows(store, find_run(store, run_name), metric)
    question = judged.metric.id if judged else metric or ""
    found = [label for path in files for label in read_labels(path, judged, person=person, question=question)]
    if not found:
        raise UsageError(
            f"{listing(map(str, files), most=3)}: there is no label.",
            hint="Fill in value and person of each line first.",
            code=ErrorCode.LABEL_FILE,
        )
    added = LabelSet(store, set_name).add(found)
    known = len(found) - added
    say(f"{count(added, 'label')} added to {set_name}" + (f", {number(known)} known already." if known else "."))
    _correct_runs(store, LabelSet(store, set_name), found, run_name)


def _correct_runs(store: Store, labels_of: LabelSet, found: Sequence[Label], run_name: str | None) -> None:
    """Bring labels beside the scores of the runs whose rows they are: those of their samples, and the one named."""
    from leadline.tasks.pipeline import correct_again

    given = {label.sample for label in found}
    runs = {sample.run for sample in labels_of.samples() if sample.id in given}
    if run_name:
        runs.add(find_run(store, run_name).id)
    for run in sorted(runs):
        try:
            corrected = correct_again(store, find_run(store, run))
        except LeadlineError as error:  # the run was dropped, or is in work
            say(f"Run {run} was not corrected: {clean(str(error))}")
        else:
            if corrected:
                say(f"Corrected by them: leadline show {run}")


@click.command("export")
@_SET
@_output("CSV, .json or .jsonl.")
@session_options
@click.pass_obj
def labels_export(session: Session, /, set_name: str, output: Path) -> None:
    """Write the labels of a set to a file, with the texts of their rows."""
    from leadline.tasks.judges.labels.known_labels import known_labels
    from leadline.tasks.judges.labels.label_files import write_labels
    from leadline.tasks.judges.labels.labelled_rows import seen_rows

    store = session.open_store()
    found = find_label_set(store, set_name).labels()
    seen = seen_rows(store, known_labels(store, set_name))
    with handed_out(output) as temporary:
        temporary.write_text(write_labels(found, output, seen), encoding="utf-8")
    without = sum((label.question, label.key) not in seen for label in found)
    say(
        f"{count(len(found), 'label')}: {output}" + f" ({without:,} of texts that are not in the store)" * bool(without)
    )


@click.command("list")
@_AS_JSON
@session_options
@click.pass_obj
def labels_list(session: Session, /, as_json: bool) -> None:
    """List the sets of labels."""
    lines = []
    for labels_of in label_sets(session.open_store()):
        found, samples = labels_of.labels(), labels_of.samples()
        for question in sorted({label.question for label in found} | {sample.question for sample in samples}):
            those = [label for label in found if label.question == question]
            lines.append(
                {
                    "set": labels_of.name,
                    "metric": question,
                    "rows": len({label.key for label in those}),
                    "people": len({label.person for label in those}),
                    "given": len({row.key for sample in samples if sample.question == question for row in sample.rows}),
                    "last": max((label.at for label in those), default=None),
                }
            )
    if as_json:
        print_json(lines)
    elif lines:
        print_table(
            ("set", "metric", "rows labelled", "people", "rows given", "last"),
            [[clean(str(value if value is not None else "-")) for value in line.values()] for line in lines],
            right=("rows labelled", "people", "rows given"),
        )
    else:
        say("There are no labels. Draw rows: leadline labels sample RUN --metric NAME -o page.html")


@click.command("report")
@click.argument("run_name", metavar="RUN")
@click.option("--metric", required=True, metavar="NAME", help="EVALUATOR for its primary metric, or EVALUATOR.METRIC.")
@click.option("--set", "set_name", metavar="NAME", help=LABELS_HELP)
@_AS_JSON
@session_options
@click.pass_obj
def labels_report(session: Session, /, run_name: str, metric: str, set_name: str | None, as_json: bool) -> None:
    """Say what labels say of a judge.

    Its scores corrected, how far it agrees with people, and which threshold fits.
    """
    from leadline.tasks.judges.labels.judged_rows import read_judged_rows
    from leadline.tasks.judges.labels.known_labels import dataset_labels, labels_of_question
    from leadline.tasks.judges.labels.run_corrections import measure

    store = session.open_store()
    run = find_run(store, run_name)
    judged = read_judged_rows(store, run, metric)
    known = labels_of_question(store, judged.metric.id, set_name, lambda: [dataset_labels(store, run)])
    found = measure(judged, known, run.id, keep=False, bootstrapped=True)
    if as_json:
        print_json(_plain(asdict(found.report) | {"state": found.state, "borrowed": found.borrowed}))
    else:
        _print_report(found, run.id)


def _plain(value: Any) -> Any:
    """Return JSON: what is not a number becomes null."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_report(found: LabelledMetric, run: str) -> None:
    from leadline.tasks.judges.labels.run_corrections import STATES
    from leadline.tasks.statistics.label_correction import in_words

    report = found.report
    click.echo(f"{report.question}")
    rows = sum(model.judged for model in report.models if model.model)
    for model in report.models:
        name = model.model or ("all models" if model.judged == rows else "models with labels")
        _print_model(name, model, found.corrected(model), binary=report.binary)
    if found.state == "stale" or found.borrowed:
        other = "of other rows, " * (found.state != "stale")
        click.echo(f"The judge's certificate, {found.certificate.config[:6]}: {other}{STATES[found.state]}.")
    if not math.isnan(report.people_alpha):
        ends = f"{report.people_alpha_low:.2f} to {report.people_alpha_high:.2f}"
        click.echo(f"People agree among themselves with alpha {report.people_alpha:.2f} ({ends}): a judge's ceiling.")
    last = report.models[-1] if report.models else None
    if last and last.state in ("few", "open"):
        rows = last.labels + (last.more_labels or last.labels)
        draw = f"leadline labels sample {run} --metric {report.question} --n {rows}"
        click.echo(f"{in_words(last.more_labels).capitalize()} would tell: {draw}")
    if report.tied:
        decide = f"leadline labels sample {run} --metric {report.question} --disagreed"
        click.echo(
            f"People are tied on {count(report.tied, 'row')}, which tell nothing of the judge. To decide: {decide}"
        )
    if report.stale:
        click.echo(f"{count(report.stale, 'labelled row')} of the set: not in this run, or its texts differ.")
    if report.saw_judge:
        click.echo(
            f"{count(report.saw_judge, 'label')} given with the judge's verdict in sight: agreement is flattered."
        )
    if report.advice:
        advice = report.advice
        what = "Keep the threshold" if advice.keep else f"A threshold of {advice.threshold:g} would fit better than"
        click.echo(
            f"{what} {advice.present:g}: F1 of bad answers {advice.present_f1:.2f}; "
            f"the best one has {advice.f1:.2f} on other rows ({advice.f1_low:.2f} to {advice.f1_high:.2f})."
        )


def _print_model(name: str, model: LabelledModel, corrected: Corrected | None, *, binary: bool) -> None:
    def shown(value: float) -> str:
        return f"{100 * value:.1f} %" if binary else f"{value:.3f}"

    told = f"judge {shown(model.judge)} of {count(model.judged, 'row')}"
    if corrected:
        borrowed = ", borrowed from other rows" if corrected.method == "rogan-gladen" else ""
        told += f" · corrected {corrected.words(share=binary)}{borrowed}"
    who = f"{count(model.labels, 'label')} of {count(model.people, 'person', 'people')}"
    click.echo(f"  {clean(name)}: {told} · {who}" + (f", {model.untold} can't tell" * bool(model.untold)))
    if model.agreed:
        agreed = model.agreed
        kappa = f"κ {agreed.kappa:.2f} ({agreed.kappa_low:.2f} to {agreed.kappa_high:.2f}), "
        parts = (
            f"agrees on {shown(agreed.accuracy.value)}",
            f"{kappa * math.isfinite(agreed.kappa)}AC1 {agreed.ac1:.2f}",
            f"catches {shown(agreed.recall_fail.value)} of the bad answers" * bool(agreed.recall_fail.n),
            f"passes {shown(agreed.recall_pass.value)} of the good" * bool(agreed.recall_pass.n),
        )
        click.echo(f"    {' · '.join(filter(None, parts))}")
    elif not math.isnan(model.rank_correlation):
        click.echo(f"    rank correlation {model.rank_correlation:.2f}, κ of the scale {model.scale_kappa:.2f}")
    click.echo(f"    {_STATES[model.state]}")


_STATES = {
    "none": "no labels: draw rows with leadline labels sample",
    "few": "too few labels to certify: 50 are wanted",
    "not drawn": "not corrected: these rows were not drawn at random",
    "open": "open: these labels cannot tell yet whether the judge tells good from bad",
    "failed": "not certified: the judge hardly tells good from bad",
    "valid": "the judge tells good from bad, and the corrected value is narrow: these labels certify it",
    "stale": "stale: only another prompt, judge or threshold was certified",
}
