"""Doubts that keep a question from being decided: the instrument, too few rows, or what labels leave open."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import count, listing, number, percent
from leadline.tasks.db import records, sql
from leadline.tasks.policy.policy import Policy
from leadline.tasks.statistics.correction import in_words, more_for_value
from leadline.tasks.statistics.statistics import FEW_SEEN, TRUSTING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_NAMES: Final = 3
"""Evaluators that a reason names."""


def doubts(
    connection: DuckDBPyConnection,
    policy: Policy,
    question: str | None = None,
    min_coverage: float | None = None,
    run: str = "latest",
) -> Iterator[str]:
    """Yield what keeps a run from being decided, each in a sentence, the gravest first.

    Args:
        connection: The run, after problems were found.
        policy: The run's policy.
        question: Only of this question; ``None`` for all that was measured.
        min_coverage: Least share of applicable rows that must be scored, per evaluator and model; the policy's for
            each metric if it is not given.
        run: Its id, for commands.
    """
    asked = {"question": question}
    if crashed := records(connection, sql("gate/crashed"), asked):
        yield f"{count(len(crashed), 'evaluator')} could not run, the first: {crashed[0]['name']}."
    if silent := records(connection, sql("gate/named_without_scores"), asked):
        names = listing((line["evaluator"] for line in silent), most=MOST_NAMES)
        yield f"{names} {'was' if len(silent) == 1 else 'were'} asked for by name and measured nothing."
    if poor := records(connection, sql("gate/poor_coverage"), {"least": min_coverage, **asked}):
        yield (
            f"{poor[0]['name']} could score only {percent(poor[0]['coverage'])} of the rows of model "
            f"{poor[0]['model_key']}; {percent(poor[0]['least'])} were asked for."
        )
    corrected = records(connection, sql("gate/corrected"), asked)
    if open_ := [why for line in corrected if (why := _uncorrected(line, run, certain=policy.certain))]:
        yield f"{open_[0]}{_more(len(open_))}."
    if policy.problems == "grouped":
        unsure = records(connection, sql("gate/unsure"), {"certain": policy.certain, **asked})
        if unsure:
            yield _unsure(unsure)
        # Too few rows to tell of a slice that the policy names, or no such column.
        yield from (line["description"] for line in records(connection, sql("gate/open_slices"), asked))


def _more(n: int) -> str:
    return f" ({count(n - 1, 'more such metric')})" if n > 1 else ""


def _unsure(unsure: list[dict[str, Any]]) -> str:
    first, more = unsure[0], _more(len(unsure))
    rows, share = count(first["n_scored"], "row"), first["pass_share"]
    if first["role"] == "must" and first["surely"]:
        failed = first["n_scored"] - first["n_pass"]
        return (
            f"{failed:,} of {rows} of model {first['model_key']} may fail {first['name']}, whose own errors could "
            f"explain that{more}: look at the rows that its problem names."
        )
    if first["role"] == "should" and not first["is_share"] and share is not None and share < first["min_pass_share"]:
        return (
            f"{percent(share)} of the answers of model {first['model_key']} satisfy {first['name']}, "
            f"{percent(first['min_pass_share'])} should, which {rows} cannot decide{more}."
        )
    few = f": {FEW_SEEN}" if first["verdict"] == "inconclusive" and first["ci_method"] == TRUSTING else ""
    return (
        f"{first['name']} of model {first['model_key']} is {number(first['value'])} against a threshold of "
        f"{number(first['threshold'])}, which {rows} cannot decide{few}{more}."
    )


def _uncorrected(line: Mapping[str, Any], run: str, *, certain: bool) -> str:
    """Return why a value that people's labels correct decides nothing, ``""`` where it decides."""
    metric = f"{line['evaluator']}.{line['metric']}"
    if line["state"] != "valid":
        rows = count(line["to_judge"], "labelled row")
        have, more = line["n_certified"] or 0, line["more_labels"]
        draw = f"leadline labels sample {run} --metric {metric} --n {have + (more or max(100, have))}"
        certify = f"leadline judges certify {run} --metric {metric}"
        why = _WITHOUT_CERTIFICATE[line["state"]].format(draw=draw, certify=certify, rows=rows, more=in_words(more))
        return f"{line['name']} is decided by people's labels, and {why}"
    metric += f" --model {shlex.quote(line['model_key'])}"
    if line["value"] is None or line["method"] == "rogan-gladen":
        return (
            f"{line['name']} is decided by people's labels, and none is of this run's answers of model "
            f"{line['model_key']}: leadline labels sample {run} --metric {metric}"
        )
    if line["verdict"] == "pass" or (not certain and line["value"] >= line["wanted"]):
        return ""
    have, end = line["n_labels"], line["ci_low"] if line["value"] >= line["wanted"] else line["ci_high"]
    more = more_for_value(have, line["value"], end, line["wanted"])
    if more is None or have + more > line["judged"]:
        do = f"more labels than this run has rows ({line['judged']:,}) would, so run more cases and label those"
    else:
        rows = f"--metric {metric} --n {have + more}"
        do = f"{in_words(more)} would: leadline labels sample {run} {rows}"
    return (
        f"{line['name']} of model {line['model_key']}, corrected by {count(line['n_labels'], 'label')}, is "
        f"{percent(line['value'])} ({percent(line['ci_low'])} to {percent(line['ci_high'])}) against "
        f"{percent(line['wanted'])} asked for, which these labels cannot decide: {do}"
    )


_WITHOUT_CERTIFICATE: Final[Mapping[str, str]] = {
    "none": "there are none: {draw}",
    "few": "there are too few to certify its judge, {more} are wanted: {draw}",
    "not drawn": "those that there are were not drawn at random: {draw}",
    "open": "they cannot tell yet whether its judge tells good from bad, {more} would: {draw}",
    "failed": "its judge hardly tells what they call good from bad: mend the prompt, or take another judge",
    "stale": "its judge's certificate was earned with another prompt or judge: {certify} ({rows} to judge)",
}
"""What there is to say, and to do, by the state of a certificate."""
