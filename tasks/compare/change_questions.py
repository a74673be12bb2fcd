"""The questions of a comparison: is the new run worse than its baseline by more than is tolerated?

They are about cases like these, of which the dataset is a sample: so the e-processes are those of a mean, and where all
is judged without an answer the ordinary verdict has the other half of the level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.tasks.compare.metric_choice import Pairing, pair_metrics
from leadline.tasks.compare.options import Decided, Options
from leadline.tasks.compare.run_pair import metrics_of, models_of, open_sides, pair_rows, pair_values
from leadline.tasks.compare.sides import match_models
from leadline.tasks.db import lines_shown, sql
from leadline.tasks.statistics.bounded_mean import CONFIDENCE
from leadline.tasks.statistics.early_stopping import always_valid_interval
from leadline.tasks.stopping.looks import GateQuestion, Look, Seen, judge_evidence
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CHANGE_LEVEL: Final = 1 / 80
"""Chance of a wrong decision by an e-process: half of the 2.5 % of one side of an ordinary interval."""
LAST_CONFIDENCE: Final = 1 - (1 - CONFIDENCE) / 2
"""Confidence of the ordinary interval where all was judged without a decision: the other half."""


@dataclass(frozen=True, slots=True)
class ChangeQuestion:
    """A metric of a pair of models, with what was seen of its differences.

    Attributes:
        metric: Its evaluator and metric, as ``evaluator.metric``.
        model: Key of the candidate's model.
        question: The question: its values are differences, from 0 for the worst to 1 for the best.
        seen: What was seen of it.
        width: Width of the metric's range.
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
        store: The store of both runs.
        baseline: The run to compare with.
        run: The run that is judged in waves.
        wave: The last wave; what is known of rows beyond it is not looked at.

    Raises:
        LeadlineError: The runs cannot be compared.
    """
    with open_sides(store, baseline, run) as connection:
        return change_questions(connection, wave)


def change_questions(connection: DuckDBPyConnection, wave: int) -> list[ChangeQuestion]:
    """Return the same of two runs that are open.

    Args:
        connection: Both runs, from :func:`leadline.tasks.compare.run_pair.open_sides`.
        wave: The last wave.
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


def _decidable(connection: DuckDBPyConnection, pairing: Pairing) -> bool:
    """Return whether a metric is a judge's, tested, and a mean of bounded values."""
    if pairing.sides is None or pairing.untested or pairing.over_dataset:
        return False
    if not 0 < pairing.metric.high - pairing.metric.low < float("inf"):
        return False
    found = connection.execute(
        "SELECT lane FROM candidate.evaluators WHERE evaluator = ?", [pairing.metric.evaluator]
    ).fetchall()
    return found == [("judge",)]


def _seen(connection: DuckDBPyConnection, pairings: list[Pairing], wave: int) -> list[Seen]:
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

    Args:
        questions: The questions with what was seen of them.
    """
    out = {}
    for each, evidence in zip(questions, look_at_changes(questions).evidence, strict=True):
        seen = each.seen
        ends = always_valid_interval(seen.good, seen.scored, largest=seen.largest)
        low, high = (each.width * (2 * end - 1) for end in ends)
        verdict = "inconclusive" if evidence.decision == "open" else evidence.decision
        out[each.metric, each.model] = Decided(verdict, low, high)
    return out
