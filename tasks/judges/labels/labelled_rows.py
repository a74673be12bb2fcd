"""Rows that people labelled, found again in the store's datasets by what they saw; and those on which they are tied.

Labels name no run and no row: they belong to texts. So every judge can be asked about the rows that were labelled, as
long as a dataset with these texts is in the store.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.tasks.analyse.clusters import perturbation_clusters
from leadline.tasks.db import attach_dataset, connect, records, sql
from leadline.tasks.judges.labels.judged_rows import JudgedRows
from leadline.tasks.judges.labels.known_labels import KnownLabels
from leadline.tasks.judges.labels.label_sets import labels_by_key
from leadline.tasks.load.label import TIE, Label, consensus
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from leadline.tasks.statistics.bounded_mean import Floats


_HALVES: Final = "held-out-v2"


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """A row with its labels.

    Attributes:
        key: Digest of what people saw.
        dataset: Digest of the dataset that holds its texts.
        cluster: Number of its original among the labelled rows, which its perturbed copies share.
        family: Key of the case that stands for its original and all copies of that, labelled or not.
        chance: The chance with which it was drawn for labelling; not a number where somebody chose it.
    """

    key: str
    dataset: str
    row_id: int
    case: str
    model: str
    cluster: int
    family: str
    labels: tuple[Label, ...]
    chance: float

    @property
    def held_out(self) -> bool:
        """True for the half of all cases on which a choice is certified that was made on the other half.

        A case is in one half with its copies and all models' answers, whatever is labelled later.
        """
        name = f"{_HALVES}\0{self.family}".encode("utf-8", "surrogatepass")
        return bool(hashlib.sha256(name).digest()[0] & 1)


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """The rows that have labels.

    Attributes:
        question: ``EVALUATOR.METRIC``, which people answered.
        rows: The rows whose texts are in the store, one for each thing that people saw, by key.
        missing: Labelled things whose texts are in no dataset of the store.
        run: The last run of which rows were drawn, or else whose dataset brought labels; ``""`` without any.
    """

    question: str
    rows: tuple[LabelledRow, ...]
    missing: int
    run: str

    def values(self, *, binary: bool) -> Floats:
        """Return what people say together of each row; one half for a tie, not a number where nobody can tell."""
        told = [consensus(row.labels, binary=binary) for row in self.rows]
        return np.array([math.nan if value is None else value for value in told], dtype=float)

    def weights(self) -> Floats:
        """Return how many rows each stands for, with a mean of 1; all alike where some were not drawn at random."""
        chances = np.array([row.chance for row in self.rows], dtype=float)
        if not len(chances) or np.isnan(chances).any():
            return np.ones(len(chances))
        weights: Floats = 1 / chances
        weights /= weights.mean()
        return weights

    def half(self, *, held_out: bool) -> LabelledRows:
        """Return one half of the rows, told by their cases, so that it is the same for every judge and at any time.

        Args:
            held_out: The half on which choices are certified; else the one on which they are made.
        """
        return replace(self, rows=tuple(row for row in self.rows if row.held_out == held_out))


def find_labelled_rows(store: Store, known: Mapping[str, KnownLabels], question: str = "") -> LabelledRows:
    """Return the rows that people labelled.

    Args:
        question: ``EVALUATOR.METRIC``, or ``EVALUATOR``; ``""`` where people answered one question only.

    Raises:
        UsageError: Nobody answered this question, or there are several and none was chosen.
    """
    labels = known[_question(known, question)]
    by_key = labels_by_key(labels.labels)
    drawn = {row.key: row for sample in labels.samples for row in sample.rows}
    sampled_runs = sorted({sample.run for sample in labels.samples})
    runs = [*sampled_runs[::-1], *labels.runs[::-1]]
    found: dict[str, LabelledRow] = {}
    clusters: dict[tuple[str, int], int] = {}
    for dataset in _datasets(store, runs):
        wanted = sorted(by_key.keys() - found.keys())
        if not wanted:
            break
        for place in _places(store, dataset, wanted):
            key, sampled = place.key, drawn.get(place.key)
            preferred = sampled is not None and (place.case, place.model) == (sampled.case, sampled.model)
            if key not in found or preferred:
                cluster = clusters.setdefault((dataset, place.cluster), len(clusters))
                chance = sampled.chance if sampled else math.nan
                found[key] = replace(place, cluster=cluster, labels=tuple(by_key[key]), chance=chance)
    rows = tuple(found[key] for key in sorted(found))
    return LabelledRows(labels.question, rows, len(by_key) - len(rows), next(iter(runs), ""))


def texts_of(connection: DuckDBPyConnection, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return what a person sees of rows, by their number."""
    return {
        line["row_id"]: {
            "question": line["question"] or "",
            "contexts": list(line["contexts"] or ()),
            "expected": list(line["expected_answers"] or ()),
            "answer": line["actual_answer"] or "",
        }
        for line in records(connection, sql("labels/texts"), [list(numbers)])
    }


def seen_rows(store: Store, known: Mapping[str, KnownLabels]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return model and texts of the labelled rows that are in the store, by what was asked and what was seen."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for question in (name for name, labels in known.items() if labels.labels):
        by_dataset: dict[str, list[LabelledRow]] = defaultdict(list)
        for row in find_labelled_rows(store, known, question).rows:
            by_dataset[row.dataset].append(row)
        for dataset, rows in by_dataset.items():
            with connect() as connection:
                attach_dataset(connection, store.dataset(dataset))
                texts = texts_of(connection, [row.row_id for row in rows])
            found |= {(question, row.key): {"model": row.model, **texts[row.row_id]} for row in rows}
    return found


def _question(known: Mapping[str, KnownLabels], question: str) -> str:
    """Return the whole name of a question that people answered."""
    answered = sorted(labels.question for labels in known.values() if labels.labels)
    fits = [name for name in answered if question in ("", name) or name.rpartition(".")[0] == question]
    if len(fits) == 1:
        return fits[0]
    if len(fits) > 1:
        raise UsageError(
            f"The labels answer {count(len(fits), 'question')}: {', '.join(fits)}.",
            hint=f"Choose one: --metric {fits[0]}",
            code=ErrorCode.LABEL_SET,
        )
    raise UsageError(
        f"There are no labels of {question!r}." if question else "There are no labels.",
        hint=f"There are those of: {', '.join(answered)}." if answered else "Import some: leadline labels import FILE",
        code=ErrorCode.LABEL_SET,
    )


def _datasets(store: Store, runs: Iterable[str]) -> list[str]:
    """Return the datasets in which texts may be found: those of some runs first, then the youngest."""
    records_of = {run.id: run.read() for run in store.runs()}
    order = [*runs, *sorted(records_of, reverse=True)]
    found = [str(records_of[run].get("dataset", "")) for run in order if run in records_of]
    return [dataset for dataset in dict.fromkeys(found) if dataset and store.has_dataset(dataset)]


def _places(store: Store, dataset: str, keys: Sequence[str]) -> list[LabelledRow]:
    """Return the rows of a dataset with these keys, still without labels."""
    with connect() as connection:
        attach_dataset(connection, store.dataset(dataset))
        lines = records(connection, sql("labels/rows_of_keys").format(row_key=sql("labels/row_key")), [keys])
        families = perturbation_clusters(connection)
        family = dict(zip(families["case_id"].tolist(), families["family"].tolist(), strict=True))
        known = connection.execute(sql("labels/keys_of_cases"), [list(family)]).fetchall() if family else []
    first: dict[int, str] = {}
    for case_id, key in known:  # in the order of the keys
        first.setdefault(family[case_id], key)
    return [
        LabelledRow(
            key=line["key"],
            dataset=dataset,
            row_id=line["row_id"],
            case=line["case_key"],
            model=line["model_key"],
            cluster=-1 - family[line["case_id"]] if line["case_id"] in family else line["case_id"],
            family=first.get(family.get(line["case_id"], -1), line["case_key"]),
            labels=(),
            chance=math.nan,
        )
        for line in lines
    ]


@dataclass(frozen=True, slots=True)
class Tie:
    """A row on which people are tied.

    Attributes:
        index: Its place in the judged rows.
    """

    index: int
    labels: tuple[Label, ...]

    @property
    def said(self) -> list[str]:
        """The words of each: ``anna: good (as the map has it)``."""
        words = {1.0: "good", 0.0: "bad", None: "can't tell"}
        return [
            f"{label.person}: {words.get(label.value, label.value)}" + f" ({label.note})" * bool(label.note)
            for label in self.labels
        ]

    @property
    def sample(self) -> str:
        """The sample in which the row was drawn, ``""`` for none: a label that decides the tie is of it too."""
        return max(label.sample for label in self.labels)


def ties(judged: JudgedRows, labels: Sequence[Label]) -> list[Tie]:
    """Return the rows of a run on which people are tied, each thing that they saw once.

    Args:
        labels: The last label of each person on each row.

    Raises:
        UsageError: Rows have numbers, of which the mean counts.
    """
    if not judged.metric.is_binary:
        raise UsageError(
            f"{judged.metric.id} is a number: of several people's labels the mean counts, and none is a tie.",
            code=ErrorCode.LABEL_SAMPLE,
        )
    by_key = labels_by_key(sorted(labels, key=lambda label: label.person))
    place = {key: index for index, key in reversed(list(enumerate(judged.keys)))}
    return [
        Tie(index, tuple(by_key[key]))
        for key, index in sorted(place.items(), key=lambda item: item[1])
        if consensus(by_key[key], binary=True) == TIE
    ]
