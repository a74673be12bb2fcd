"""A run's scores beside people's labels: the tables ``corrections`` and ``certificates``, and their lines in words.

Labels belong to texts. A run whose judge scored enough labelled rows is measured on them, whichever prompt and judge it
has, and its configuration earns a certificate, which stays beside the labels. A run that has too few of them shows the
certificate that its configuration earned elsewhere, and its means are corrected by the error rates found there, which
are *borrowed*. Where another configuration earned the only certificate, it is *stale*: the present one has to judge the
labelled rows first (``leadline judges certify``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from leadline.evaluators.ground import count
from leadline.tasks.db import CertificateState, Certification, Correction, read_lines, records, replace_lines, sql
from leadline.tasks.judges.labels.certificates import (
    MEASURES,
    Certificate,
    certificate_for,
    certificate_of,
    keep_certificate,
)
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows, judged_rows, row_metrics
from leadline.tasks.judges.labels.known_labels import (
    KnownLabels,
    known_labels,
    open_dataset_labels,
    show_question_labels,
)
from leadline.tasks.judges.labels.label_report import LEAST_LABELS, LabelledModel, LabelReport, report_labels
from leadline.tasks.judges.labels.label_sets import labels_digest
from leadline.tasks.policy.policy import Role
from leadline.tasks.statistics.label_correction import Corrected, ErrorRates, in_words, rogan_gladen

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.store.store import Run, Store


_DIGITS: Final = 6
"""Digits of a configuration's digest that a reader sees."""

STATES: Final[Mapping[CertificateState, str]] = {
    "none": "no labels",
    "few": "too few labels: 50 are wanted",
    "not drawn": "these rows were not drawn at random: they compare, and do not correct",
    "open": "open: it cannot be told yet whether the judge tells good from bad",
    "failed": "failed: the judge hardly tells good from bad",
    "valid": "valid",
    "stale": "stale: earned with another prompt or judge",
}


@dataclass(frozen=True, slots=True)
class CorrectionLine(Correction):
    """A judge's mean of one model's rows, and what people would say."""

    @property
    def borrowed(self) -> bool:
        """True where labels of other rows correct it."""
        return self.method == "rogan-gladen"

    @property
    def judge_in_words(self) -> str:
        """The judge's mean."""
        return self._shown(self.judge)

    @property
    def corrected_in_words(self) -> str:
        """The corrected mean with its interval, ``""`` where there is none."""
        return self._with_interval(self.value, self.ci_low, self.ci_high)

    @property
    def labels_alone_in_words(self) -> str:
        """The mean by the labels alone with its interval, ``""`` where there is none."""
        return self._with_interval(self.labels_value, self.labels_low, self.labels_high)

    @property
    def labels_in_words(self) -> str:
        """The number of labels and of people, and that they are of other rows where they are."""
        words = f"{count(self.n_labels, 'label')} of {count(self.n_people, 'person', 'people')}"
        return f"{words}, borrowed from other rows" if self.borrowed else words

    @property
    def words(self) -> str:
        """``judge 82.4 % · corrected 76.1 % (70.9 to 80.6) · 100 labels of 2 people``."""
        corrected = self.corrected_in_words
        parts = [f"judge {self.judge_in_words}", f"corrected {corrected}" if corrected else "", self.labels_in_words]
        return " · ".join(part for part in parts if part)

    def _with_interval(self, value: float | None, low: float | None, high: float | None) -> str:
        if value is None or low is None or high is None:
            return ""
        ends = [self._shown(end).removesuffix(" %") for end in (low, high)]
        return f"{self._shown(value)} ({' to '.join(ends)})"

    def _shown(self, value: float) -> str:
        return f"{100 * value:.1f} %" if self.is_share else f"{value:.3f}"


@dataclass(frozen=True, slots=True)
class CertificateLine(Certification):
    """The agreement of people and a judge."""

    @property
    def agreement_in_words(self) -> str:
        """``κ 0.71 (0.57 to 0.84), AC1 0.78; catches 64 % of the bad answers``, ``""`` where nothing is known."""
        return agreement_in_words(self)

    @property
    def origin_in_words(self) -> str:
        """The day on which it was earned, and with which prompt and model: ``2026-11-20 · prompt+model 3f9a1c``."""
        when = (self.earned or self.labelled_to or "")[:10]
        which = (self.earned_config or self.config)[:_DIGITS]
        also = [word for word, holds in (("other rows", self.borrowed), ("held-out labels", self.held_out)) if holds]
        return " · ".join(part for part in (when, f"prompt+model {which}", *also) if part)

    @property
    def state_in_words(self) -> str:
        """The state, with the calls that bring a stale one up to date."""
        words = STATES[self.state]
        if self.state == "stale" and self.to_judge:
            words += f"; judging {count(self.to_judge, 'labelled row')} recomputes it"
        if self.state in ("few", "open"):
            words += f"; {in_words(self.more_labels)} would tell"
        return words

    @property
    def words(self) -> str:
        """All of it in one line."""
        parts = (self.agreement_in_words, self.origin_in_words, self.state_in_words)
        return " · ".join(part for part in parts if part)


def agreement_in_words(found: CertificateLine | Certificate) -> str:
    """Return agreement in words, ``""`` where nothing is known."""
    parts = []
    if found.kappa is not None and found.kappa_low is not None and found.kappa_high is not None:
        ac1 = "" if found.ac1 is None else f", AC1 {found.ac1:.2f}"
        parts.append(f"κ {found.kappa:.2f} ({found.kappa_low:.2f} to {found.kappa_high:.2f}){ac1}")
    elif found.accuracy is not None:
        parts.append(f"agrees on {100 * found.accuracy:.0f} %")
    elif found.rank_correlation is not None:
        parts.append(f"rank correlation {found.rank_correlation:.2f}")
    if found.recall_fail is not None:
        parts.append(f"catches {100 * found.recall_fail:.0f} % of the bad answers")
    if found.people_alpha is not None:
        parts.append(f"people among themselves alpha {found.people_alpha:.2f}")
    return "; ".join(parts)


def read_corrections(connection: DuckDBPyConnection) -> dict[tuple[int, int], CorrectionLine]:
    """Return a run's corrections by metric and model."""
    lines = read_lines(connection, CorrectionLine, order="metric_id, model_id")
    return {(line.metric_id, line.model_id): line for line in lines}


def read_certificates(connection: DuckDBPyConnection) -> dict[int, CertificateLine]:
    """Return a run's certificates by metric."""
    return {line.metric_id: line for line in read_lines(connection, CertificateLine, order="metric_id")}


GateOn: TypeAlias = Literal["policy", "judge", "corrected"]


def correct_run(
    connection: DuckDBPyConnection,
    store: Store,
    run: Run,
    set_name: str | None = None,
    gate_on: GateOn | None = "policy",
    *,
    keep: bool = True,
) -> int:
    """Fill the tables ``corrections`` and ``certificates``, keep certificates that were earned, and count corrections.

    What decides each metric is settled in the table ``rules``: a metric of the whole dataset has no corrected value.

    Args:
        connection: The run's database, after its scores were gathered.
        set_name: The only set of labels that counts; by default all together, with those of the dataset.
        gate_on: What decides metrics that ask a judge: ``judge``, ``corrected``, or what the policy says of each;
            ``None`` where that is settled.
        keep: Whether certificates are kept.

    Raises:
        UsageError: There is no such set.
    """
    if gate_on is not None:
        connection.execute(sql("labels/decided_by"), {"gate_on": gate_on})
    known = known_labels(store, set_name, lambda: [open_dataset_labels(connection, store, run)])
    show_question_labels(connection, store, run, known)
    asked = [metric for metric in row_metrics(connection) if metric.id in known] if known else []
    lines: list[dict[str, Any]] = []
    certificates: list[dict[str, Any]] = []
    for metric in asked:
        labelled = measure(judged_rows(connection, metric), known[metric.id], run.id, keep=keep)
        (rule,) = records(connection, "SELECT * FROM rules WHERE metric_id = ?", [metric.metric_id])
        lines += _correction_lines(connection, labelled, rule)
        certificates.append(_certificate_line(labelled, _judge_of(connection, metric)))
    connection.execute(sql("labels/more_labels"))
    replace_lines(connection, "certificates", certificates)
    return replace_lines(connection, "corrections", lines)


@dataclass(frozen=True, slots=True)
class PresentLabels:
    """The labels of a store as they are now, by which its history corrects the means of runs."""

    store: Store

    def digest(self) -> str:
        """Return the digest of all that they say, "" without any."""
        return labels_digest(self.store)

    def questions(self) -> list[str]:
        """Return the metrics that people were asked about."""
        return [*known_labels(self.store)]

    def correct(self, connection: DuckDBPyConnection, run: Run) -> None:
        """Fill the tables of a run's corrections as it asked for; no certificate is kept."""
        asked = run.read().get("config") or {}
        correct_run(connection, self.store, run, asked.get("labels"), None, keep=False)


@dataclass(frozen=True, slots=True)
class LabelledMetric:
    """A metric of a run beside its labels.

    Attributes:
        certificate: The certificate that counts for its configuration; of another one where it is stale.
        borrowed: Whether it was earned on rows that are not in this run.
    """

    judged: JudgedRows
    known: KnownLabels
    report: LabelReport
    certificate: Certificate
    state: CertificateState
    borrowed: bool

    def corrected(self, model: LabelledModel) -> Corrected | None:
        """Return a model's corrected value: by its own labels, or else by error rates that its judge had elsewhere."""
        found = self.certificate
        if model.corrected or self.state != "valid" or not self.borrowed or not self.report.binary:
            return model.corrected
        if found.recall_pass is None or found.recall_fail is None:
            return None
        return rogan_gladen(
            model.judge, model.independent, ErrorRates(found.recall_pass, found.n_good, found.recall_fail, found.n_bad)
        )


def measure(
    judged: JudgedRows, known: KnownLabels, run: str, *, keep: bool = True, bootstrapped: bool = False
) -> LabelledMetric:
    """Return a metric of a run beside its labels.

    Where every row of a model has a label, nobody drew these rows from others: what they say of a judge is no
    certificate for other rows, and is not kept.

    Args:
        bootstrapped: Let the report give what takes a thousand samples too.
    """
    metric = judged.metric
    known = known.with_whole_models(judged, run)
    report = report_labels(judged, known.labels, known.samples, bootstrapped=bootstrapped)
    fitted = certificate_of(metric, report, run, known.names)
    kept = certificate_for(metric, known.certificates)
    if fitted.is_earned and keep and not known.is_whole:
        keep_certificate(known.sets[0], fitted)
    if kept is not None and (kept.held_out or not fitted.is_earned):
        return LabelledMetric(judged, known, report, kept, kept.state, borrowed=not fitted.is_earned)
    if fitted.is_earned:
        return LabelledMetric(judged, known, report, fitted, fitted.state, borrowed=False)
    if fitted.state not in ("none", "few"):
        return LabelledMetric(judged, known, report, fitted, fitted.state, borrowed=False)
    if known.certificates:
        return LabelledMetric(judged, known, report, known.certificates[-1], "stale", borrowed=True)
    stale = _drawn_by_another(known, metric) and report.stale >= LEAST_LABELS
    return LabelledMetric(judged, known, report, fitted, "stale" if stale else fitted.state, borrowed=False)


def _drawn_by_another(known: KnownLabels, metric: JudgedMetric) -> bool:
    """Say whether labelled rows were drawn by the scores of another configuration."""
    given = {label.sample for label in known.labels}
    return any(sample.config != metric.config for sample in known.samples if sample.id in given)


def _correction_lines(
    connection: DuckDBPyConnection, labelled: LabelledMetric, rule: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield a line for each model that has labels, or a judge certified elsewhere."""
    report, metric = labelled.report, labelled.judged.metric
    ids = dict(connection.execute("SELECT model_key, model_id FROM models").fetchall())
    wanted = good_share_wanted(metric, rule) if report.binary else None
    for model in report.models:
        corrected = labelled.corrected(model)
        if model.model == "" or not (model.labels or corrected):
            continue
        own = corrected is None or corrected.method != "rogan-gladen"
        yield {
            "metric_id": metric.metric_id,
            "model_id": ids[model.model],
            "label_set": labelled.known.name,
            "n_labels": model.labels if own else labelled.certificate.n_labels,
            "n_people": model.people if own else labelled.certificate.n_people,
            "n_groups": model.groups,
            "judged": model.judged,
            "is_share": report.binary,
            "judge": model.judge,
            "value": corrected.value if corrected else None,
            "ci_low": corrected.low if corrected else None,
            "ci_high": corrected.high if corrected else None,
            "method": corrected.method if corrected else None,
            "weight": corrected.weight if corrected else None,
            "labels_value": model.labels_alone.value if model.labels_alone else None,
            "labels_low": model.labels_alone.low if model.labels_alone else None,
            "labels_high": model.labels_alone.high if model.labels_alone else None,
            "bias": model.judge - corrected.value if corrected else None,
            "bias_low": model.judge - corrected.high if corrected else None,
            "bias_high": model.judge - corrected.low if corrected else None,
            "wanted": wanted,
            "verdict": corrected_verdict(corrected, wanted),
        }


def good_share_wanted(metric: JudgedMetric, rule: Mapping[str, Any]) -> float | None:
    """Return the share of good answers that a policy asks for; ``None`` where the metric has no threshold.

    Of a *must* metric that is all but the tolerated share. Of another it is the least share of passing answers that the
    policy names, else the place of the threshold in the metric's range: 75 % for a threshold of 0.75 in 0 to 1.
    """
    if metric.threshold is None or not math.isfinite(metric.low) or not math.isfinite(metric.high):
        return None
    if rule["role"] == Role.MUST:
        return 1 - float(rule["tolerance_share"])
    if rule["min_pass_share"] and not metric.is_share:
        return float(rule["min_pass_share"])
    place = (metric.threshold - metric.low) / (metric.high - metric.low)
    return min(1.0, max(0.0, place if metric.higher_is_better else 1 - place))


def corrected_verdict(corrected: Corrected | None, wanted: float | None) -> str | None:
    """Return whether a corrected share of good answers suffices: surely, surely not, or it cannot be told."""
    if corrected is None or wanted is None:
        return None
    if corrected.low >= wanted:
        return "pass"
    return "fail" if corrected.high < wanted else "inconclusive"


def _certificate_line(labelled: LabelledMetric, judge: str) -> dict[str, Any]:
    found, metric = labelled.certificate, labelled.judged.metric
    return {
        "metric_id": metric.metric_id,
        "config": metric.config,
        "judge": judge,
        "label_set": labelled.known.name,
        "state": labelled.state,
        "borrowed": labelled.borrowed,
        "held_out": found.held_out,
        "earned": found.earned if found.is_earned else None,
        "earned_config": found.config if found.is_earned else None,
        "n_labels": found.n_labels,
        "n_people": found.n_people,
        "labelled_from": found.labelled_from or None,
        "labelled_to": found.labelled_to or None,
        **{name: getattr(found, name) for name in MEASURES},
        "to_judge": labelled.report.stale,
        "more_labels": labelled.report.models[-1].more_labels if labelled.report.models else None,
    }


def _judge_of(connection: DuckDBPyConnection, metric: JudgedMetric) -> str:
    """Return the model of the judge in a metric's configuration, ``""`` where it asks none."""
    ((identity,),) = connection.execute(
        "SELECT identity FROM evaluators JOIN metrics USING (evaluator_id) WHERE metric_id = ?", [metric.metric_id]
    ).fetchall()
    judge = json.loads(identity).get("judge")
    return str(judge.get("model") or "") if isinstance(judge, dict) else ""
