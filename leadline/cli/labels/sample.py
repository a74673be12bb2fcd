"""Let people label rows of a run: those that are drawn at random, or those on which they are tied."""

from __future__ import annotations

import sys
from typing import Any

import click

from leadline.evaluators.ground import count
from leadline.flows.command.options import fill_in, form_options
from leadline.flows.command.output import clean, print_table
from leadline.flows.command.running import print_outcome, run_here
from leadline.flows.command.session import Session, say, session_options
from leadline.flows.sample_labels import SampleLabels, SampleLabelsConfig, hand_out
from leadline.tasks.judges.labels.known_labels import dataset_labels, labels_of_question
from leadline.tasks.judges.labels.labelled_rows import ties
from leadline.tasks.judges.labels.labelling_tasks import tasks_of_ties
from leadline.tasks.runs.lookup import find_run


@click.command("sample")
@form_options(SampleLabelsConfig)
@click.option(
    "--disagreed",
    is_flag=True,
    help="Instead of drawing, take the rows on which people are tied, for somebody who decides (adjudication).",
)
@click.option("--queue", is_flag=True, help="Write no file: people label in the browser (leadline ui).")
@session_options
@click.pass_obj
def labels_sample(session: Session, /, disagreed: bool, queue: bool, **options: Any) -> None:
    """Draw rows of a run at random for people to label."""
    config = fill_in(SampleLabelsConfig, "labels sample", options | {"store": session.store})
    if config.output is None and not queue:
        run = find_run(session.open_store(), config.run).id
        page = f"labels-{config.asked}-{run}{'-disagreed' * disagreed}.html"
        config = config.model_copy(update={"run": run, "output": page})
    if disagreed:
        _sample_ties(config)
        return
    print_outcome(SampleLabels(), run_here(SampleLabels(), config), as_json=False)
    if config.output and options["output"] is None and sys.stdout.isatty():
        click.launch(config.output)
    if config.question:
        say("And the command that made the run once more: nothing is computed twice, and the labels decide.")


def _sample_ties(config: SampleLabelsConfig) -> None:
    """Show the rows on which people are tied, whatever the set, and write them for whoever decides."""
    found = SampleLabels().check(config)
    store, run, judged = found.store, found.run, found.judged
    tied = ties(judged, labels_of_question(store, judged.metric.id, None, lambda: [dataset_labels(store, run)]).labels)
    if not tied:
        say(f"People are tied on no row of {run.id}.")
        return
    lines = [(judged.cases[tie.index], judged.models[tie.index], ", ".join(tie.said)) for tie in tied]
    print_table(("case", "model", "people"), [[clean(part) for part in line] for line in lines])
    if config.output:
        tasks = tasks_of_ties(store, run, judged, tied[: config.rows])
        hand_out(found, tasks, config.output)
        say(f"{count(len(tasks), 'answer')} of {len(tied):,} on which people are tied: {config.output}")
        say(f"Then: leadline labels import FILE --set {config.labels}")
