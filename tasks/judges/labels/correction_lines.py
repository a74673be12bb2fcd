"""Lines of the tables ``corrections`` and ``certificates`` in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leadline.evaluators.ground import count
from leadline.tasks.db import CertificateState, Certification, Correction, read_lines
from leadline.tasks.statistics.correction import in_words

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.judges.labels.certificates import Certificate

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
