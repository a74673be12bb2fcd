"""Improvements of judges: candidates with guidance from labels, certified on the half of the cases that is held out.

A held-out half tells less with each candidate that is tried on it, since the best of many is lucky. So the first may
err in 2.5 % of tries, the second in 0.8 %, the k-th in 5/(k(k+1)) %: all together in 5 %, however many are tried.

Each try is a file that never changes beside the labels, ``labels/<set>/improvements/<digest>.json``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.evaluators.settings import Guidance
from leadline.tasks.ground.files import digest
from leadline.tasks.judges.labels.certificates import keep_record
from leadline.tasks.judges.labels.judge_comparison import ALPHA, ComparedJudge, JudgeComparison
from leadline.tasks.judges.labels.jury_training import toml_key, toml_text
from leadline.tasks.judges.labels.label_sets import LabelSet, label_sets
from leadline.tasks.judges.labels.labelled_rows import LabelledRows
from leadline.tasks.load.label import TIE
from leadline.tasks.store.store import Store

FOLDER: Final = "improvements"
LEAST_ROWS: Final = 20
"""Labelled rows of either half below which nothing is learned or certified."""
LEAST_OF_CLASS: Final = 5
"""Good rows, and bad ones, of either half below which nothing is learned of passes and fails."""

Outcome: TypeAlias = Literal["better", "worse", "not told apart"]


@dataclass(frozen=True, slots=True)
class Improvement:
    """A candidate and what the held-out half says of it.

    Attributes:
        question: ``EVALUATOR.METRIC``, which people answered.
        guidance: The guidance, as ``leadline.toml`` has it.
        config: Digest of the evaluator's configuration with the candidate.
        present_config: The same with the present judge.
        learned: Rows of the other half on which judge and people said something.
        differing: Those of them on which they differ.
        held_out: Keys of the held-out rows, in order.
        labels: Digest of what people say of them.
        tried: How many candidates were tried on a held-out half with some of these rows, this one included.
        alpha: Chance with which one that is no better is taken for better.
        rows: Held-out rows on which people and both judges said something.
        present: Share of them on which the present judge agrees with people; of numbers the mean distance.
        candidate: The same of the candidate.
        effect: How much nearer to people the candidate is.
        low: Lower end of the interval of that, at 1 - ``alpha``; ``None`` without one.
        p: Two-sided p-value of the difference.
        lost: Held-out rows of which the candidate gave no verdict although the present judge did.
        outcome: Whether it may be adopted: only ``better``.
        earned: When, as an ISO time.
    """

    question: str
    judge: str
    proposer: str
    guidance: Mapping[str, Any]
    config: str
    present_config: str
    learned: int
    differing: int
    held_out: tuple[str, ...]
    labels: str
    tried: int
    alpha: float
    rows: int
    present: float
    candidate: float
    effect: float
    low: float | None
    high: float | None
    p: float | None
    lost: int
    outcome: Outcome
    binary: bool
    earned: str

    @property
    def sentence(self) -> str:
        """The finding in a sentence, with its figures."""
        unit, factor, digits = (" points", 100, 1) if self.binary else ("", 1, 3)
        share = " %" if self.binary else ""
        both = f"{factor * self.present:.{digits}f}{share} → {factor * self.candidate:.{digits}f}{share}"
        amount = f"{factor * self.effect:+.{digits}f}{unit}"
        if self.low is not None and self.high is not None:
            ends = f"{factor * self.low:.{digits}f} to {factor * self.high:.{digits}f}"
            amount += f" ({ends}, {100 * (1 - self.alpha):.3g} % interval)"
        p = "" if self.p is None else f", p {self.p:.2g} (below {self.alpha:.2g} is needed)"
        what = {
            "better": "The candidate agrees with people more than the present judge",
            "worse": "The candidate agrees with people less than the present judge",
            "not told apart": "The candidate is not told apart from the present judge",
        }[self.outcome]
        lost = (
            f" It gives no verdict of {count(self.lost, 'row')} that the present judge has one of." if self.lost else ""
        )
        measure = "agrees on" if self.binary else "is off by"
        return f"{what}: {measure} {both} of {count(self.rows, 'held-out row')}, {amount}{p}.{lost}"

    @property
    def toml(self) -> str:
        """The guidance for ``leadline.toml``."""
        guidance = Guidance.model_validate(self.guidance)
        name = f"judges.{toml_key(self.judge)}.guidance.{toml_key(guidance.evaluator)}"
        lines = [f"[{name}]", f"instructions = {toml_text(guidance.instructions)}"]
        for example in guidance.examples:
            lines += ["", f"[[{name}.examples]]"]
            lines += [f"{key} = {toml_text(text)}" for key, text in example.model_dump().items() if text]
        return "\n".join(lines) + "\n"


def require_labels(halves: Sequence[LabelledRows], *, binary: bool) -> None:
    """Refuse to improve a judge by too few labels, and say how many more it takes.

    Args:
        halves: The rows to learn from, and those that are held out.

    Raises:
        UsageError: There are too few of them in a half.
    """
    found, more = [], 0
    for half in halves:
        labels = half.values(binary=binary)
        told = labels[~np.isnan(labels) & ((labels != TIE) | (not binary))]
        bad = int((told == 0).sum())
        rarer = min(bad, len(told) - bad)
        more = max(more, LEAST_ROWS - len(told))
        if binary:
            share = max(rarer / max(1, len(told)), 0.05)
            more = max(more, math.ceil((LEAST_OF_CLASS - rarer) / share))
        found.append(f"{count(len(told), 'label')}" + (f" ({rarer} of the rarer kind)" if binary else ""))
    if more > 0:
        kinds = f", {LEAST_OF_CLASS} of them good and {LEAST_OF_CLASS} bad," if binary else ""
        raise UsageError(
            f"Improving a judge takes {LEAST_ROWS} labelled rows{kinds} to learn from and as many held out; there are "
            f"{found[0]} and {found[1]}.",
            hint=f"Label about {count(2 * more, 'more row')}: leadline labels sample",
            code=ErrorCode.LABEL_SET,
        )


def labels_digest(rows: LabelledRows, *, binary: bool) -> str:
    """Return a digest of what people say of rows."""
    values = rows.values(binary=binary).tolist()
    return digest(
        [[row.key, None if math.isnan(value) else value] for row, value in zip(rows.rows, values, strict=True)]
    )


def level_of_try(tried: int) -> float:
    """Return the error that the ``tried``-th candidate on a held-out half may have: all together :data:`ALPHA`."""
    return ALPHA / (tried * (tried + 1))


def outcome_of(comparison: JudgeComparison, present: str, candidate: str, lost: int) -> Outcome:
    """Return what the held-out half says of a candidate, by the names of both judges.

    Args:
        lost: Rows of which it alone gave no verdict: with any of them it is never better.
    """
    [pair] = comparison.pairs
    if pair.better == present:
        return "worse"
    return "better" if pair.better == candidate and not lost else "not told apart"


def agreement_figure(judge: ComparedJudge) -> float:
    """Return a judge's share of rows that agree with people; of numbers its mean distance from theirs."""
    return judge.agreed.accuracy.value if judge.agreed else float(judge.error or 0.0)


def now() -> str:
    """Return the time, as an ISO time."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def keep_improvement(labels: LabelSet, improvement: Improvement) -> Path:
    """Write a try beside its labels, and return its file."""
    return keep_record(labels, FOLDER, asdict(improvement))


def kept_improvements(store: Store, question: str | None = None) -> list[Improvement]:
    """Return all tries of a metric, or of all, oldest first.

    Args:
        question: ``EVALUATOR.METRIC``.

    Raises:
        StoreError: A file is damaged.
    """

    def read(path: Path) -> Improvement:
        record = json.loads(path.read_text(encoding="utf-8"))
        return Improvement(**record | {"held_out": tuple(record["held_out"])})

    advice = "Restore the file from a backup: it counts how often the held-out half was looked at."
    found = [
        one for labels in label_sets(store) for one in labels.files("improvement", f"{FOLDER}/*.json", read, advice)
    ]
    return sorted((one for one in found if question in (None, one.question)), key=lambda one: (one.earned, one.tried))
