"""Sets of labels in the store: Parquet files that are only ever added, and the samples that people were given.

Layout, below the store's root::

    labels/<set>/<digest>.parquet       labels of one import; importing the same again adds nothing
    labels/<set>/samples/<id>.json      the rows that were drawn, with the chance of each
    labels/<set>/certificates/<id>.json what judges earned with them
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import StoreError, UsageError
from leadline.tasks.ground.files import digest, replacing, write_json
from leadline.tasks.judges.labels.drawing import Drawing, Drawn
from leadline.tasks.judges.labels.judged_rows import JudgedRows
from leadline.tasks.load.label import Label
from leadline.tasks.store.store import Run, Store

DEFAULT_SET: Final = "labels"

LABELS_ADVICE: Final = "Restore the file from a backup, or remove it and import its labels again."
SAMPLE_ADVICE: Final = "Restore the file from a backup, or remove it and draw the rows again: leadline labels sample."

_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


@dataclass(frozen=True, slots=True)
class SampledRow:
    """A row that people were given.

    Attributes:
        key: Digest of what they see of it.
        case: Key of its case.
        model: Key of its model.
        stratum: What it was drawn from.
        chance: The chance with which it was drawn.
    """

    key: str
    case: str
    model: str
    stratum: str
    chance: float


@dataclass(frozen=True, slots=True)
class LabelSample:
    """Rows of a run that were drawn for labelling.

    Attributes:
        id: What identifies it.
        question: ``EVALUATOR.METRIC``.
        how: How rows were drawn.
        seed: By which seed.
        config: Digest of the evaluator's configuration, by whose scores rows were drawn.
        judged: Number of rows from which they were drawn.
    """

    id: str
    run: str
    question: str
    how: Drawing
    seed: int
    config: str
    judged: int
    rows: tuple[SampledRow, ...]


class LabelSet:
    """A set of labels by its name.

    Raises:
        UsageError: The name cannot be one.
    """

    def __init__(self, store: Store, name: str = DEFAULT_SET) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of a set of labels.",
                hint="Take letters, digits, dots, dashes and underscores.",
                code=ErrorCode.LABEL_SET,
            )
        self.store, self.name = store, name
        self.folder = store.root / "labels" / name

    def add(self, labels: Sequence[Label]) -> int:
        """Write labels that the set does not have yet, and return their number.

        A label that says what its person says of the row already is not written again, whenever it was given, and
        whatever it tells readers of the row.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        known = {_said(label) for label in self.labels()}
        fresh = [label for label in dict.fromkeys(labels) if _said(label) not in known]
        if not fresh:
            return 0
        path = self.folder / f"{digest([asdict(label) for label in fresh])}.parquet"
        with replacing(path) as temporary:
            pq.write_table(pa.Table.from_pylist([asdict(label) for label in fresh], _schema()), temporary)
        self.store.push([path])
        return len(fresh)

    def history(self) -> list[Label]:
        """Return every label that was ever given, oldest first.

        Raises:
            StoreError: A file is damaged.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.store.sync([self.folder])
        found: list[Label] = []
        for path in sorted(self.folder.glob("*.parquet")):
            try:
                found += [Label(**line) for line in pq.read_table(path, schema=_schema()).to_pylist()]
            except (pa.ArrowException, OSError, ValueError) as error:
                raise StoreError(
                    f"The labels in {path} cannot be read: {error}.",
                    hint=LABELS_ADVICE,
                    code=ErrorCode.STORE_FAILED,
                ) from error
        return sorted(found, key=lambda label: label.at)

    def labels(self, question: str | None = None) -> list[Label]:
        """Return the last label of each person on each row.

        Args:
            question: Only labels of this metric.
        """
        last = {(label.key, label.question, label.person): label for label in self.history()}
        return [label for label in last.values() if question in (None, label.question)]

    def keep_sample(self, sample: LabelSample) -> Path:
        """Write a sample, and return its file."""
        path = self.folder / "samples" / f"{sample.id}.json"
        write_json(path, asdict(sample))
        self.store.push([path])
        return path

    def samples(self, question: str | None = None) -> list[LabelSample]:
        """Return the samples that people were given.

        Args:
            question: Only samples for this metric.

        Raises:
            StoreError: A file is damaged.
        """
        folder = self.folder / "samples"
        self.store.sync([folder])
        found = []
        for path in sorted(folder.glob("*.json")):
            try:
                found.append(read_sample(path))
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise StoreError(
                    f"The sample in {path} cannot be read: {error}.",
                    hint=SAMPLE_ADVICE,
                    code=ErrorCode.STORE_FAILED,
                ) from error
        return [sample for sample in found if question in (None, sample.question)]


def _said(label: Label) -> Label:
    return replace(label, at="", case="", model="")


def label_sets(store: Store) -> list[LabelSet]:
    """Return the sets of a store by name."""
    folder = store.root / "labels"
    names = {path.name for path in folder.glob("*") if path.is_dir()}
    if store.remote:
        names |= set(store.remote.folders(folder))
    return [LabelSet(store, name) for name in sorted(names) if _NAME.fullmatch(name)]


def find_label_set(store: Store, name: str) -> LabelSet:
    """Return a set that has labels or samples.

    Raises:
        UsageError: There is none.
    """
    found = {labels.name: labels for labels in label_sets(store)}
    if name not in found:
        raise UsageError(
            f"There is no set of labels {name!r} in the store.",
            hint=f"Sets: {', '.join(found)}." if found else "Draw rows first: leadline labels sample RUN --metric NAME",
            code=ErrorCode.LABEL_SET,
        )
    return found[name]


def make_sample(
    run: Run, judged: JudgedRows, drawn: Sequence[Drawn], *, how: Drawing, seed: int, model: str | None = None
) -> LabelSample:
    """Return what was drawn as a sample; the same rows of the same scores have the same id.

    Args:
        judged: The rows that were judged.
        drawn: The rows drawn from them.
        how: How they were drawn.
        seed: By which seed.
        model: The only model whose rows are meant.
    """
    metric = judged.metric
    rows = tuple(
        SampledRow(judged.keys[row.index], judged.cases[row.index], judged.models[row.index], row.stratum, row.chance)
        for row in drawn
    )
    return LabelSample(
        id=digest([run.id, metric.id, metric.config, how, seed, len(rows), *([model] if model else [])])[:12],
        run=run.id,
        question=metric.id,
        how=how,
        seed=seed,
        config=metric.config,
        judged=len(judged.rows),
        rows=rows,
    )


def read_sample(path: Path) -> LabelSample:
    """Return the sample of a file."""
    record = dict(json.loads(path.read_text(encoding="utf-8")))
    return LabelSample(**record | {"rows": tuple(SampledRow(**row) for row in record["rows"])})


def has_its_labels(path: Path, name: str) -> bool:
    """Return whether a file of labels has those that it was written with, which its name is the digest of.

    Args:
        name: Its name in the set, without the ending.
    """
    import pyarrow.parquet as pq

    return digest(pq.read_table(path).to_pylist()) == name


def _schema() -> Any:
    import pyarrow as pa

    kinds = {"value": pa.float64(), "saw_judge": pa.bool_()}
    return pa.schema([(field.name, kinds.get(field.name, pa.string())) for field in fields(Label)])
