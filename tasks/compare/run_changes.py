"""Changes in a run since its baseline: the comparison that every run makes by itself, kept in its database.

The lines that this fills are read by :mod:`leadline.tasks.analyse.changes`. A run that is judged in waves asks after
each whether it is worse than its baseline by more than is tolerated. These questions are about cases like these, of
which the dataset is a sample: so the e-processes are those of a mean, and where all is judged without an answer the
ordinary verdict has the other half of the level.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np

from leadline.evaluators.ground import LeadlineError, listing
from leadline.tasks.analyse.changes import MOST_ROWS, OTHER_POLICY
from leadline.tasks.analyse.kept_analysis import known, same_analysis
from leadline.tasks.compare.engine import compare_sides
from leadline.tasks.compare.metric_choice import Pairing, pair_metrics
from leadline.tasks.compare.options import Decided, Options, RunReference, match_models
from leadline.tasks.compare.results import Comparison, MetricComparison
from leadline.tasks.compare.run_pair import MOST_TEXT, metrics_of, models_of, open_sides, pair_rows, pair_values
from leadline.tasks.compare.verdicts import overall
from leadline.tasks.db import connect, lines_shown, literal, open_run, records, replace_lines, sql
from leadline.tasks.runs.baseline import NONE, ChosenBaseline, find_baseline
from leadline.tasks.statistics.bounded_mean import CONFIDENCE
from leadline.tasks.statistics.early_stopping import always_valid_interval
from leadline.tasks.stopping.looks import GateQuestion, Look, Seen, judge_evidence
from leadline.tasks.stopping.waves import WaveOutcome
from leadline.tasks.store.store import Run, Store

CHANGE_LEVEL: Final = 1 / 80
"""Chance of a wrong decision by an e-process: half of the 2.5 % of one side of an ordinary interval."""
LAST_CONFIDENCE: Final = 1 - (1 - CONFIDENCE) / 2
"""Confidence of the ordinary interval where all was judged without a decision: the other half."""


@dataclass(frozen=True, slots=True)
class ChangeQuestion:
    """A metric of a pair of models, with what was seen of its differences.

    Attributes:
        metric: Its evaluator and metric, as ``evaluator.metric``.
        question: The question: its values are differences, from 0 for the worst to 1 for the best.
    """

    metric: str
    model: str
    question: GateQuestion
    seen: Seen
    width: float


def look_at_changes(questions: list[ChangeQuestion]) -> Look:
    """Return what the differences seen so far decide."""
    if not questions:
        return Look("open", ())
    return judge_evidence([each.question for each in questions], [each.seen for each in questions], level=CHANGE_LEVEL)


def read_change_questions(store: Store, baseline: Run, run: Run, wave: int) -> list[ChangeQuestion]:
    """Return the questions of a comparison, with what the waves up to one have shown of them.

    Args:
        run: The run that is judged in waves.
        wave: The last wave; what is known of rows beyond it is not looked at.

    Raises:
        LeadlineError: The runs cannot be compared.
    """
    with open_sides(store, baseline, run) as connection:
        return change_questions(connection, wave)


def change_questions(connection: duckdb.DuckDBPyConnection, wave: int) -> list[ChangeQuestion]:
    """Return the same of two runs that are open.

    Args:
        connection: Both runs, from :func:`leadline.tasks.compare.run_pair.open_sides`.
    """
    options = Options(information=False)
    sides = {side: models_of(connection, side) for side in ("baseline", "candidate")}
    ids = {side: {line["model_key"]: int(line["model_id"]) for line in lines} for side, lines in sides.items()}
    numbers = {key: int(line["metric_id"]) for key, line in metrics_of(connection, "candidate").items()}
    pairings = [pairing for pairing in pair_metrics(connection, options) if _decidable(connection, pairing)]
    out: list[ChangeQuestion] = []
    pairs = match_models(sides["baseline"], sides["candidate"]).pairs if pairings else ()
    for pair in pairs:
        model = ids["candidate"][pair.candidate]
        pair_rows(connection, ids["baseline"][pair.baseline], model)
        pair_values(connection, [(pairing.counted, pairing.sides[1]) for pairing in pairings if pairing.sides])
        seen = _seen(connection, pairings, wave)
        for pairing, each in zip(pairings, seen, strict=True):
            metric = pairing.metric
            width = metric.high - metric.low
            limit = (width - options.margins.of(metric, 0.0)) / (2 * width)
            of = f" of {pair.candidate}" if len(pairs) > 1 else ""
            number = numbers[metric.evaluator, metric.metric]
            question = GateQuestion(number, model, f"{metric.name}{of}", False, limit, limit, 1, 0.0)
            out.append(ChangeQuestion(metric.key, pair.candidate, question, each, width))
    return out


def _decidable(connection: duckdb.DuckDBPyConnection, pairing: Pairing) -> bool:
    """Return whether a metric is a judge's, tested, and a mean of bounded values."""
    if pairing.sides is None or pairing.untested or pairing.over_dataset:
        return False
    if not 0 < pairing.metric.high - pairing.metric.low < float("inf"):
        return False
    found = connection.execute(
        "SELECT lane FROM candidate.evaluators WHERE evaluator = ?", [pairing.metric.evaluator]
    ).fetchall()
    return found == [("judge",)]


def _seen(connection: duckdb.DuckDBPyConnection, pairings: list[Pairing], wave: int) -> list[Seen]:
    columns: dict[str, list[Any]] = {
        "number": list(range(len(pairings))),
        "width": [pairing.metric.high - pairing.metric.low for pairing in pairings],
        "sign": [1.0 if pairing.metric.higher_is_better else -1.0 for pairing in pairings],
    }
    with lines_shown(connection, "asked", columns):
        found = connection.execute(sql("stopping/seen_changes"), {"wave": wave}).fetchnumpy()
    ((largest,),) = connection.execute(sql("stopping/largest_cluster")).fetchall()
    out = []
    for number in range(len(pairings)):
        mine = found["number"] == number
        names = ("good", "scored", "unscored", "absent")
        values = {name: np.asarray(found[name][mine], dtype=np.float64) for name in names}
        out.append(Seen(**values, clusters=None, largest=largest))
    return out


def decisions(questions: list[ChangeQuestion]) -> dict[tuple[str, str], Decided]:
    """Return what a comparison that stopped early says of its metrics, by metric and the candidate's model.

    The intervals hold although the run stopped because of what it showed.
    """
    out = {}
    for each, evidence in zip(questions, look_at_changes(questions).evidence, strict=True):
        seen = each.seen
        ends = always_valid_interval(seen.good, seen.scored, largest=seen.largest)
        low, high = (each.width * (2 * end - 1) for end in ends)
        verdict = "inconclusive" if evidence.decision == "open" else evidence.decision
        out[each.metric, each.model] = Decided(verdict, low, high)
    return out


log = logging.getLogger("leadline.compare")

MOST_CHURN: Final = 6
"""Metrics and models whose changed verdicts are told net of noise."""

TABLES: Final = ("baseline", "model_changes", "metric_changes", "row_changes")


def find_changes(store: Store, run: Run, against: str | None = None) -> None:
    """Compare a run with its baseline, each model with itself, and fill the tables of what changed.

    A baseline that cannot be read, or has nothing in common with the run, is noted: it never makes the run fail.

    Args:
        run: The run; its aggregates are there.
        against: The baseline, as :func:`leadline.tasks.runs.baseline.find_baseline` takes it; ``none``: do not
            compare.
    """
    with tempfile.TemporaryDirectory(prefix="changes-", dir=_scratch(store)) as folder:
        rows = Path(folder) / "row_changes.parquet"
        lines = {} if against == NONE else _compared(store, run, against, rows)
        with open_run(store, run) as connection:
            for table in TABLES:
                replace_lines(connection, table, lines.get(table, ()))
            if rows.exists():
                connection.execute(f"INSERT INTO row_changes BY NAME FROM read_parquet({literal(rows)})")


def _scratch(store: Store) -> Path:
    folder = store.root / "tmp"
    folder.mkdir(exist_ok=True)
    return folder


def _compared(store: Store, run: Run, against: str | None, rows: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of the tables, and write those of ``row_changes`` to a file."""
    chosen = ChosenBaseline(None)
    try:
        chosen = find_baseline(store, run, against)
        if chosen.run is None:
            return {"baseline": [_baseline(chosen, note=chosen.note)]}
        if lines := _found_before(store, run, chosen):
            return lines
        with open_sides(store, chosen.run, run) as connection:
            found = compare_sides(
                connection, RunReference(chosen.run), RunReference(run), _options(connection, run, chosen.run)
            )
            most = {"shown": MOST_ROWS, "most": MOST_TEXT, "file": literal(rows)}
            connection.execute(sql("compare/row_changes").format(**most))
            return _lines(connection, run, chosen, found)
    except LeadlineError as error:
        return {"baseline": [_baseline(chosen, note=str(error).splitlines()[0])]}
    except Exception as error:  # whatever is wrong with the other run, this one is complete without it
        log.exception("Run %s could not be compared with its baseline", run.id)
        return {"baseline": [_baseline(chosen, note=f"the comparison failed: {type(error).__name__}")]}


def _found_before(store: Store, run: Run, chosen: ChosenBaseline) -> dict[str, list[dict[str, Any]]]:
    """Return the lines that an earlier run had, where all four runs have the same analysis; else none.

    The earlier run is the one whose analysis this run took over; it found that nothing changed since its own baseline.
    """
    record = run.read()
    if not known(record).get("of") or chosen.run is None or not same_analysis(record, chosen.run.read()):
        return {}
    earlier = store.run(known(record)["of"])
    compared = ("baseline", "model_changes", "metric_changes", "row_changes")
    try:
        with connect(earlier.database, read_only=True, threads=1) as connection:
            found = {table: records(connection, f"FROM {table}") for table in compared}
        before: dict[str, Any] = found["baseline"][0] if found["baseline"] else {"baseline_run": None}
        if not before["baseline_run"] or before["note"] or found["row_changes"]:
            return {}
        if not same_analysis(record, store.run(before["baseline_run"]).read()):
            return {}
    except (duckdb.Error, LeadlineError):  # as if it had found nothing
        return {}
    counts = {name: before[name] for name in ("new_cases", "removed_cases")}
    return found | {"baseline": [_baseline(chosen, notes=before["notes"], **counts)]}


def _options(connection: duckdb.DuckDBPyConnection, run: Run, baseline: Run) -> Options:
    """Return the settings of the comparison; a run that looked at it in waves has a share of the level left."""
    options = Options(shown=0, information=False)
    waves = WaveOutcome.of(run.read())
    if waves is None or waves.against != baseline.id:
        return options
    if waves.early:
        return replace(options, decided=decisions(change_questions(connection, waves.wave)))
    judged = connection.execute("SELECT evaluator FROM candidate.evaluators WHERE lane = 'judge'").fetchall()
    return replace(options, confidence={evaluator: LAST_CONFIDENCE for (evaluator,) in judged})


def _baseline(chosen: ChosenBaseline, *, note: str = "", notes: Sequence[str] = (), **counts: int) -> dict[str, Any]:
    record = chosen.run.read() if chosen.run and not note else {}
    run = chosen.run.id if chosen.run else None
    if note and run:
        note = f"not compared with run {run}: {note}"
    texts = {name: str(record.get(name) or "") for name in ("name", "dataset_name", "started")}
    numbers = {"new_cases": 0, "removed_cases": 0} | counts
    return {"baseline_run": run, "tag": chosen.tag, **texts, **numbers, "note": note, "notes": list(notes)}


def _lines(
    connection: duckdb.DuckDBPyConnection, run: Run, chosen: ChosenBaseline, found: Comparison
) -> dict[str, list[dict[str, Any]]]:
    models = {line["model_key"]: int(line["model_id"]) for line in models_of(connection, "candidate")}
    metrics = {key: int(line["metric_id"]) for key, line in metrics_of(connection, "candidate").items()}
    both = [metric for metric in found.metrics if metric.verdict != "one_sided"]
    (cases,) = records(connection, sql("compare/new_cases"))
    policies = [each.read().get("policy") or {} for each in (run, chosen.run) if each]
    same = len({policy.get("digest") for policy in policies}) < 2
    policy = () if same else (OTHER_POLICY,)
    return {
        "baseline": [_baseline(chosen, notes=[*policy, *found.notes, *_one_sided(found), *_churn(both)], **cases)],
        "model_changes": [
            {
                "model_id": models[answers.models.candidate],
                "baseline_model": answers.models.baseline,
                **dict(zip(("verdict", "reason"), overall(_of(both, answers.models)), strict=True)),
                "n_rows": answers.rows,
                "n_same_answers": answers.same,
                "n_changed": answers.changed,
            }
            for answers in found.answers
        ],
        "metric_changes": [
            {
                "metric_id": metrics[metric.metric.evaluator, metric.metric.metric],
                "model_id": models[metric.models.candidate],
                **{name: getattr(metric, name) for name in ("verdict", "change", "reason", "baseline", "candidate")},
                **{name: getattr(metric, name) for name in ("effect", "ci_low", "ci_high")},
                "n_pairs": metric.coverage.pairs,
                "n_unscored": metric.coverage.unscored,
            }
            for metric in both
        ],
    }


def _of(metrics: Sequence[MetricComparison], models: object) -> list[MetricComparison]:
    return [metric for metric in metrics if metric.models == models]


def _churn(metrics: Sequence[MetricComparison]) -> Iterator[str]:
    """Yield how many verdicts of judges changed net of their own noise, where that was measured."""
    told = [metric for metric in metrics if metric.churn and metric.churn.noise is not None and metric.churn.rate]
    for metric in sorted(told, key=lambda metric: -metric.churn.rate if metric.churn else 0.0)[:MOST_CHURN]:
        if metric.churn:
            yield f"{metric.metric.evaluator_name}, {metric.models.candidate}: {metric.churn.in_words}"


def _one_sided(found: Comparison) -> Iterator[str]:
    for run, whose in (("candidate", "Not measured by the baseline"), ("baseline", "Measured by the baseline only")):
        names = dict.fromkeys(
            metric.metric.evaluator
            for metric in found.metrics
            if metric.verdict == "one_sided" and metric.reason.startswith(f"Only the {run}'s")
        )
        if names:
            yield f"{whose}: {listing(names)}."
