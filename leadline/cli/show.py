"""``leadline show``: a run at a glance, or one case in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import click

from leadline.evaluators.data import Messages, dialogue_of
from leadline.evaluators.ground import count
from leadline.evaluators.judge.transcript import call_text
from leadline.flows.command.output import clean, number, print_json, print_table
from leadline.flows.command.session import Session, session_options
from leadline.tasks.db import FlipCause, line_of
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.runs.run_facts import RunFacts, tally, tally_in_words
from leadline.tasks.runs.run_sentences import gate_line, scores_line, spending, work_line
from leadline.tasks.runs.show import case, overview

SHOWN: Final = 20
"""Problems and insights of a kind that the overview prints; --json and the report have all."""
BOARD: Final = (
    "evaluator", "metric", "model", "value", "95 % interval", "threshold", "role", "verdict", "scored", "unscored",
)  # fmt: skip


@click.command()
@click.argument("name", metavar="RUN")
@click.option("--case", "case_key", metavar="KEY", help="Show one case: its answers and every score with its evidence.")
@click.option("--all-metrics", is_flag=True, help="Show all metrics, not just the primary ones.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def show(session: Session, /, name: str, case_key: str | None, all_metrics: bool, as_json: bool) -> None:
    """Show what a run found.

    RUN is its id, the beginning of it, or `latest`.
    """
    store = session.open_store()
    run = find_run(store, name)
    found = overview(store, run) if case_key is None else case(store, run, case_key)
    if as_json:
        print_json(found)
    elif case_key is None:
        _print_overview(found, all_metrics=all_metrics)
    else:
        _print_case(found)


def _print_overview(found: Mapping[str, Any], *, all_metrics: bool) -> None:
    run = RunFacts(found["run"], found["record"])
    problems = tally((problem["severity"], problem["instrument"]) for problem in found["problems"])
    facts = (
        ("Run", f"{found['run']}  {clean(found['name'])}"),
        ("Status", found["status"] + (f": {clean(found['error'])}" if found["error"] else "")),
        (
            "Dataset",
            f"{clean(found['dataset_source'])}: {_counted(found['rows'], 'row')}, {_counted(found['cases'], 'case')}",
        ),
        ("Gate", clean(gate_line(run))),
        *((f"  {answer.question}", clean(answer.line)) for answer in run.questions),
        *((("Judging", clean(run.stopping)),) if run.stopping else ()),
        ("Problems", tally_in_words(problems)),
        ("Scores", scores_line(run)),
        ("Rows", work_line(run)),
        *((("Time", run.time.in_words()),) if run.time else ()),
        ("Report", found["report"] or "-"),
    )
    for label, text in facts:
        click.echo(f"{label:<10} {text}")
    lines = [line for line in found["board"] if all_metrics or line["is_primary"]]
    if lines:
        click.echo("\nLeaderboards" + ("" if all_metrics else " (primary metrics)"))
        print_table(BOARD, [_board_line(line) for line in lines], right=("value", "threshold", "scored", "unscored"))
    _print_labels(found["corrections"], found["certificates"], all_metrics=all_metrics)
    _print_flips(found["flip_rates"], found["flip_causes"], all_metrics=all_metrics)
    _print_trials(found["trial_spread"], all_metrics=all_metrics)
    _print_calls(run)
    columns = ("severity", "type", "evaluator", "model", "description", "actions")
    for whose, instrument in (("models", False), ("the instrument or the data", True)):
        lines = [problem for problem in found["problems"] if problem["instrument"] == instrument]
        _print_findings(f"Problems of {whose}", lines, columns)
    _print_findings("Insights", found["insights"], ("type", "evaluator", "model", "description"))


def _counted(n: int | None, what: str) -> str:
    """Return a number with its noun; a run that failed early has no numbers."""
    return f"- {what}s" if n is None else count(n, what)


def _board_line(line: Mapping[str, Any]) -> Sequence[object]:
    low, high = line["ci_low"], line["ci_high"]
    return (
        line["evaluator"],
        line["metric"],
        line["model"],
        number(line["value"]),
        "-" if low is None or high is None else f"{low:.3f} to {high:.3f}",
        number(line["threshold"]),
        line["role"] or "-",
        (line["verdict"] or "-") if line["n_scored"] or line["n_unscored"] else "not applicable",
        number(line["n_scored"]),
        number(line["n_unscored"]),
    )


def _print_labels(
    corrections: Sequence[Mapping[str, Any]], certificates: Sequence[Mapping[str, Any]], *, all_metrics: bool
) -> None:
    """Print what people's labels say of the judges: values corrected, and the certificate of each."""
    lines = [line for line in certificates if all_metrics or line["is_primary"]]
    if not lines:
        return
    from leadline.tasks.judges.labels.run_corrections import CertificateLine, CorrectionLine

    click.echo("\nPeople's labels")
    for line in lines:
        name = f"{line['evaluator']}.{line['metric']}"
        click.echo(f"  {clean(name)}")
        for own in corrections:
            if f"{own['evaluator']}.{own['metric']}" == name:
                click.echo(f"    {clean(own['model'])}: {line_of(CorrectionLine, own).words}")
        click.echo(f"    certificate: {line_of(CertificateLine, line).words}")


def _print_flips(rates: Sequence[Mapping[str, Any]], causes: Sequence[Mapping[str, Any]], *, all_metrics: bool) -> None:
    """Print what is known of flips under perturbation where a judge may make them itself."""
    if not rates:
        return
    from leadline.tasks.publish.facts import FlipRateLine
    from leadline.tasks.publish.summary import flip_sentences

    known = {(line["metric_id"], line["model_id"]): line for line in causes if not line["perturbation"]}
    told = []
    for line in rates:
        rate = line_of(FlipRateLine, line)
        if rate.word and not rate.perturbation and (all_metrics or line["is_primary"]):
            found = known.get((rate.metric_id, rate.model_id))
            told.append((line, flip_sentences(rate, line_of(FlipCause, found) if found else None)))
    if told:
        click.echo("\nFlips under perturbation")
    for line, sentences in told:
        click.echo(
            f"  {clean(line['evaluator'])}.{clean(line['metric'])}, {clean(line['model'])}: {' '.join(sentences)}"
        )


def _print_trials(lines: Sequence[Mapping[str, Any]], *, all_metrics: bool) -> None:
    """Print how much the verdicts differ that a judge gave to the same row."""
    lines = [line for line in lines if all_metrics or line["is_primary"]]
    if not lines:
        return
    click.echo("\nTrials: how much the verdicts on the same row differ")
    counts = ("trials", "rows", "differ", "pass and fail", "std within a row", "reliability", "std of a rerun")
    print_table(
        ("evaluator", "metric", "model", *counts, "means of single trials"),
        [
            (
                line["evaluator"], line["metric"], line["model"], number(line["n_trials"]), number(line["n_rows"]),
                number(line["differ_share"]), number(line["cross_share"]), number(line["within_std"]),
                number(line.get("reliability")), number(line.get("rerun_std")),
                "-" if line["lowest_mean"] is None else f"{line['lowest_mean']:.3f} to {line['highest_mean']:.3f}",
            )
            for line in lines
        ],
        right=counts,
    )  # fmt: skip


def _print_calls(run: RunFacts) -> None:
    """Print what the run's judge calls came to."""
    lines = spending(run.record)
    if not lines:
        return
    again = run.judge_made_again
    click.echo("\nJudge calls" + (f" ({again:,} made again, lost with an earlier process)" if again else ""))
    counts = ("calls", "answered", "failed", "lost", "retries", "tokens in", "tokens out", "cost")
    print_table(
        ("evaluator", *counts),
        [
            (
                line.evaluator or "all", number(line.asked), number(line.answered), number(line.failed),
                number(line.lost), number(line.retries), number(line.input_tokens), number(line.output_tokens),
                line.price,
            )
            for line in lines
        ],
        right=counts,
    )  # fmt: skip


def _print_findings(title: str, lines: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    click.echo(f"\n{title}: {len(lines) or 'none'}")
    if lines:
        print_table(columns, [[line[column] for column in columns] for line in lines[:SHOWN]])
    if len(lines) > SHOWN:
        click.echo(f"and {len(lines) - SHOWN} more, in the report and with --json")


def _print_case(found: Mapping[str, Any]) -> None:
    click.echo(f"Case      {clean(found['case_key'])}   (run {found['run']})")
    _print_text("Question", found["question"])
    for answer in found["expected_answers"]:
        _print_text("Expected", answer)
    _print_text("Condition", found["condition"])
    for answer in found["answers"]:
        click.echo(f"\n{clean(answer['model'])}")
        _print_messages(answer["history"] or (), "before: ")
        if not _print_messages(answer["messages"] or ()):
            _print_text("Answer", answer["actual_answer"])
        _print_text("Error", answer["error"])
        for number_, chunk in enumerate(answer["retrieved_context"], 1):
            _print_text(f"Context {number_}", chunk["content"])
        print_table(
            ("evaluator", "metric", "value", "threshold", "verdict", "why"),
            [_score_line(score, before) for before, score in pairwise([{}, *answer["scores"]])],
            right=("value", "threshold"),
        )


def _print_messages(messages: Messages, before: str = "") -> bool:
    """Print a dialogue with its calls; return whether it is one: more than a question and its answer.

    Args:
        before: What the lines of a history begin with.
    """
    lines = dialogue_of(messages)
    turns = lines[-1].turn if lines else 0
    if not before and turns < 2 and not any(line.calls for line in lines):
        return False
    for message, calls, turn, opens in lines:
        if opens and turns > 1 and not before:
            click.echo(f"Turn {turn}")
        if message["content"]:
            _print_text(message["role"].capitalize(), before + message["content"])
        for call in calls:
            _print_text("Call", f"{before}{call_text(call.name, call.arguments)}")
            if call.result or call.error is None:
                _print_text("Result", call.result)
            if call.error != call.result:
                _print_text("Failed", call.error)
    return True


def _print_text(label: str, text: str | None) -> None:
    if text is not None:
        lines = [clean(line) for line in text.splitlines()] or ['""']
        click.echo(f"{label:<9} " + f"\n{'':<10}".join(lines))


def _score_line(score: Mapping[str, Any], before: Mapping[str, Any]) -> Sequence[object]:
    """Return a line of the table; what several metrics of an evaluator rest on stands with the first one."""
    why = _why(score)
    passes = score["passes"]
    verdict = score["status"] if score["value"] is None else "" if passes is None else "pass" if passes else "fail"
    return (
        score["evaluator"],
        score["metric"] + (f" (trial {score['trial']})" if score["trial"] else ""),
        number(score["value"]),
        number(score["threshold"]),
        verdict.replace("_", " "),
        "" if before.get("evaluator") == score["evaluator"] and why == _why(before) else why,
    )


def _why(score: Mapping[str, Any]) -> str:
    """Return what a score rests on, in one line."""
    evidence = score.get("evidence") or {}
    spans = [
        f"{span['source']}[{span['start']}:{span['end']}]"
        + (f" {span['note']}" if span.get("note") else "")
        + (f" {span['value']:.3f}" if span.get("value") is not None else "")
        for span in evidence.get("spans", [])[:5]
    ]
    flags = [flag["message"] for flag in score.get("flags") or []]
    parts = [score["reason"], score.get("error"), evidence.get("message"), "; ".join(spans), *flags]
    return " · ".join(str(part) for part in parts if part)
