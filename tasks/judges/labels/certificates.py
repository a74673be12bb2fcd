"""Certificates: how far people and one configuration of a judge agree, kept beside the labels that it was earned with.

A configuration is prompt, judge and parameters (the digest that names the folder of its scores) with the threshold that
makes passes of its scores. A certificate is one file that never changes,
``labels/<set>/certificates/<digest>.json``; later runs of the same configuration show it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.ground.files import digest, write_json

if TYPE_CHECKING:
    from leadline.tasks.db import CertificateState
    from leadline.tasks.judges.labels.judged_rows import JudgedMetric
    from leadline.tasks.judges.labels.label_report import LabelReport
    from leadline.tasks.judges.labels.label_sets import LabelSet

MEASURES: Final = tuple(
    "accuracy kappa kappa_low kappa_high ac1 alpha people_alpha recall_fail recall_pass rank_correlation".split()
)
"""Fields of a certificate that say how far people and judge agree; ``None`` where that is not known."""

EARNED: Final = ("valid", "failed")
"""States that enough labels of rows drawn at random lead to, one way or the other."""


_ADVICE: Final = "Set it aside: leadline store verify --repair. It is earned again."


@dataclass(frozen=True, slots=True)
class Certificate:
    """Agreement of people and a judge's configuration.

    Attributes:
        question: ``EVALUATOR.METRIC``.
        config: Digest of the evaluator's configuration.
        threshold: The threshold that made passes of its scores; ``None`` for numbers and for 0 or 1.
        state: ``valid`` or ``failed``.
        earned: When, as an ISO time.
        held_out: Whether only labels counted that no prompt was chosen by.
        labels: Digest of the labels.
        accuracy: Share of rows on which people and judge agree.
        kappa: Cohen's kappa.
        kappa_low: Lower end of its 95 % interval.
        ac1: Gwet's AC1.
        alpha: Krippendorff's alpha, judge against people.
        people_alpha: The same between people.
        recall_fail: Share of the bad answers that the judge fails.
        recall_pass: Share of the good answers that it passes.
        n_bad: Number of bad answers that counts, effective where rows have weights.
        rank_correlation: Spearman's, for numbers.
    """

    question: str
    config: str
    threshold: float | None
    state: CertificateState
    run: str
    earned: str
    held_out: bool
    label_sets: tuple[str, ...]
    labels: str
    n_labels: int
    n_people: int
    labelled_from: str
    labelled_to: str
    accuracy: float | None = None
    kappa: float | None = None
    kappa_low: float | None = None
    kappa_high: float | None = None
    ac1: float | None = None
    alpha: float | None = None
    people_alpha: float | None = None
    recall_fail: float | None = None
    recall_pass: float | None = None
    n_bad: float = 0.0
    n_good: float = 0.0
    rank_correlation: float | None = None

    @property
    def is_earned(self) -> bool:
        """True if there were enough labels of rows drawn at random."""
        return self.state in EARNED


def certificate_of(
    metric: JudgedMetric, report: LabelReport, run: str, label_sets: Sequence[str], *, held_out: bool = False
) -> Certificate:
    """Return what a report of labels certifies, of all models together.

    Args:
        held_out: Whether the report is of labels only that no prompt was chosen by.
    """
    every = report.models[-1] if report.models else None  # there is none where no row was scored
    measured: dict[str, Any] = {"people_alpha": report.people_alpha}
    if every is not None:
        measured["rank_correlation"] = every.rank_correlation
    if every is not None and (agreed := every.agreed) is not None:
        measured |= {name: getattr(agreed, name) for name in ("kappa", "kappa_low", "kappa_high", "ac1", "alpha")}
        bad, good = agreed.recall_fail, agreed.recall_pass
        measured |= {"accuracy": agreed.accuracy.value, "recall_fail": bad.value, "recall_pass": good.value}
        measured |= {"n_bad": bad.n, "n_good": good.n}
    finite: dict[str, Any] = {name: value if math.isfinite(value) else None for name, value in measured.items()}
    return Certificate(
        question=metric.id,
        config=metric.config,
        threshold=metric.threshold,
        state=every.state if every else "none",
        run=run,
        earned=datetime.now(UTC).isoformat(timespec="seconds"),
        held_out=held_out,
        label_sets=tuple(label_sets),
        labels=report.labels_digest,
        n_labels=every.labels if every else 0,
        n_people=every.people if every else 0,
        labelled_from=report.labelled_from,
        labelled_to=report.labelled_to,
        **finite,
    )


def keep_certificate(labels: LabelSet, certificate: Certificate) -> Path:
    """Write a certificate beside its labels, unless the same one is there, and return its file.

    One that a killed process left here reaches the bucket as well.
    """
    return keep_record(labels, "certificates", asdict(certificate))


def keep_record(labels: LabelSet, folder: str, record: dict[str, Any]) -> Path:
    """Write what labels earned beside them, unless the same is there, and return its file.

    Args:
        record: The content, of which ``run`` and ``earned`` do not make another.
    """
    path = labels.folder / folder / f"{_name(record)}.json"
    if not path.exists():
        write_json(path, record)
    labels.store.sync([path.parent])
    return path


def kept_certificates(labels: LabelSet, question: str | None = None) -> list[Certificate]:
    """Return the certificates of a metric, or of all, that were earned with a set of labels, oldest first.

    Args:
        question: ``EVALUATOR.METRIC``.

    Raises:
        StoreError: A file is damaged.
    """
    names = {field.name for field in fields(Certificate)}

    def read(path: Path) -> Certificate:
        record = json.loads(path.read_text(encoding="utf-8"))
        known = {name: value for name, value in record.items() if name in names}
        return Certificate(**known | {"label_sets": tuple(record.get("label_sets", [labels.name]))})

    found = labels.files("certificate", "certificates/*.json", read, _ADVICE)
    return sorted((each for each in found if question in (None, each.question)), key=lambda each: each.earned)


def is_as_written(path: Path, name: str) -> bool:
    """Return whether a certificate's file says what it was written with.

    Args:
        name: Its name beside the labels, without the ending.
    """
    return _name(json.loads(path.read_text(encoding="utf-8"))) == name


def certificate_for(metric: JudgedMetric, kept: Sequence[Certificate]) -> Certificate | None:
    """Return the certificate of a metric's present configuration, the last one; held-out labels go first.

    Args:
        kept: Certificates of it, oldest first.
    """
    same = [each for each in kept if each.config == metric.config and each.threshold == metric.threshold]
    held_out = [each for each in same if each.held_out]
    return next(reversed(held_out or same), None)


def _name(record: Mapping[str, Any]) -> str:
    """Return the name of a certificate's file: the digest of what it says, whenever and by which run it was earned."""
    return digest({name: value for name, value in record.items() if name not in ("run", "earned")})[:24]
