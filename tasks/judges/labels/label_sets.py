"""Sets of labels in the store, only ever added to; samples given to people, and each row's chance in them.

Layout, below the store's root::

    labels/<set>/<digest>.parquet       labels of one import; importing the same again adds nothing
    labels/<set>/samples/<id>.json      the rows that were drawn, with the chance of each
    labels/<set>/certificates/<id>.json what judges earned with them
    labels/<set>/improvements/<id>.json what candidates with guidance came to on the held-out half

Labels belong to texts, and an answer that did not change keeps its label in a later run. The answers of a run that did
not change are no random part of it, though: often they are the better ones. So a sample stands for a model of another
run only where hardly any of the answers that were drawn have changed there.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from leadline.evaluators.ground import ErrorCode, StoreError, UsageError
from leadline.tasks.ground.files import digest, replacing, write_json
from leadline.tasks.load.label import Label
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    import pyarrow as pa

    from leadline.tasks.judges.labels.judged_rows import JudgedRows


DEFAULT_SET: Final = "labels"

LABELS_ADVICE: Final = "Restore the file from a backup, or remove it and import its labels again."
SAMPLE_ADVICE: Final = "Restore the file from a backup, or remove it and draw the rows again: leadline labels sample."

_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")
_MOST_CHANGED: Final = 0.05
"""Share of a sample's answers that may have changed in a run for which the sample stands."""

T = TypeVar("T")

Drawing: TypeAlias = Literal["uniform", "balanced", "by-score"]

_Row: TypeAlias = tuple[str, str]
"""What people see of a row, and its model."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A row that was drawn.

    Attributes:
        index: Its place in the judged rows.
        stratum: What it was drawn from: a model's rows, or those with one verdict or a part of the scores.
        chance: The chance with which it was drawn, in (0, 1].
    """

    index: int
    stratum: str
    chance: float


@dataclass(frozen=True, slots=True)
class SampledRow:
    """A row that people were given.

    Attributes:
        key: Digest of what they see of it.
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
        question: ``EVALUATOR.METRIC``.
        config: Digest of the evaluator's configuration, by whose scores rows were drawn.
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
        from pyarrow import Table, parquet

        known = {_said(label) for label in self.labels()}
        fresh = [label for label in dict.fromkeys(labels) if _said(label) not in known]
        if not fresh:
            return 0
        path = self.folder / f"{digest([asdict(label) for label in fresh])}.parquet"
        with replacing(path) as temporary:
            parquet.write_table(Table.from_pylist([asdict(label) for label in fresh], _schema()), temporary)
        self.store.share_new(path)
        return len(fresh)

    def history(self) -> list[Label]:
        """Return every label that was ever given, oldest first.

        Raises:
            StoreError: A file is damaged.
        """
        files = self.files("labels", "*.parquet", _read_labels, LABELS_ADVICE)
        return sorted(chain.from_iterable(files), key=lambda label: label.at)

    def files(self, what: str, pattern: str, read: Callable[[Path], T], advice: str) -> Iterator[T]:
        """Yield the content of the set's files of a kind, by name.

        Raises:
            StoreError: A file is damaged.
        """
        folder = (self.folder / pattern).parent
        self.store.sync([folder])
        for path in sorted(folder.glob(Path(pattern).name)):
            try:
                yield read(path)
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                raise StoreError(
                    f"The {what} in {path} cannot be read: {error}.", hint=advice, code=ErrorCode.STORE_FAILED
                ) from error

    def labels(self, question: str | None = None) -> list[Label]:
        """Return the last label of each person on each row."""
        last = {(label.key, label.question, label.person): label for label in self.history()}
        return [label for label in last.values() if question in (None, label.question)]

    def keep_sample(self, sample: LabelSample) -> Path:
        """Write a sample, and return its file."""
        path = self.folder / "samples" / f"{sample.id}.json"
        write_json(path, asdict(sample))
        self.store.share_new(path)
        return path

    def samples(self, question: str | None = None) -> list[LabelSample]:
        """Return the samples that people were given.

        Raises:
            StoreError: A file is damaged.
        """
        found = self.files("sample", "samples/*.json", read_sample, SAMPLE_ADVICE)
        return [sample for sample in found if question in (None, sample.question)]


def labels_by_key(labels: Iterable[Label]) -> defaultdict[str, list[Label]]:
    """Return labels by the key of what people saw, in their order."""
    by_key: defaultdict[str, list[Label]] = defaultdict(list)
    for label in labels:
        by_key[label.key].append(label)
    return by_key


def _said(label: Label) -> Label:
    return replace(label, at="", case="", model="")


def label_sets(store: Store) -> list[LabelSet]:
    """Return the sets of a store by name."""
    folder = store.root / "labels"
    names = {path.name for path in folder.glob("*") if path.is_dir()}
    if store.remote:
        names |= set(store.remote.folders(folder))
    return [LabelSet(store, name) for name in sorted(names) if _NAME.fullmatch(name)]


def labels_digest(store: Store) -> str:
    """Return the digest of all that labels say in a store, "" without any; files are named after what they hold."""
    folder = store.root / "labels"
    store.sync([folder])
    kinds = ("*/*.parquet", "*/samples/*.json", "*/certificates/*.json")
    labels, *others = ([str(path.relative_to(folder)) for path in folder.glob(kind)] for kind in kinds)
    return digest(sorted(chain(labels, *others))) if labels else ""


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
    """Return what was drawn as a sample; the same rows of the same scores have the same id."""
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
    from pyarrow import parquet

    return digest(parquet.read_table(path).to_pylist()) == name


def _read_labels(path: Path) -> tuple[Label, ...]:
    about = path.stat()
    return _labels_in(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=20_000)
def _labels_in(path: Path, changed: int, size: int) -> tuple[Label, ...]:
    """Return the labels of a file, which a page that gives one label at a time asks for again and again."""
    from pyarrow import ArrowException, parquet

    del changed, size  # what tells a file that was replaced from the one that was read
    try:
        return tuple(Label(**line) for line in parquet.read_table(path, schema=_schema()).to_pylist())
    except ArrowException as error:
        raise ValueError(str(error)) from error


def _schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {"value": pa.float64(), "saw_judge": pa.bool_()}
    return pa.schema([(field.name, kinds.get(field.name, pa.string())) for field in fields(Label)])


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One sample's chances of one model: in the order that ``seed`` names, by what is drawn and by its stratum."""

    seed: str
    by_key: Mapping[str, float]
    by_stratum: Mapping[str, float]

    def chance_of(self, row: SampledRow) -> float:
        """Return the chance of a row, which another sample may have drawn: then that of its stratum."""
        return self.by_key.get(row.key, self.by_stratum.get(row.stratum, 0.0))


@dataclass(frozen=True, slots=True)
class RowChance:
    """The drawing of one row.

    Attributes:
        chance: The chance with which any of the samples has the row, in (0, 1].
        seeds: Names of the random orders by which it was drawn.
    """

    chance: float
    seeds: frozenset[str]

    def with_other(self, other: RowChance) -> float:
        """Return the chance with which both rows were drawn: of the same random order, that of the rarer one."""
        return min(self.chance, other.chance) if self.seeds == other.seeds else self.chance * other.chance


def row_chances(judged: JudgedRows, samples: Sequence[LabelSample]) -> dict[_Row, RowChance]:
    """Return the drawing of each row of the samples that stand for a run, by key and model."""
    drawings: defaultdict[str, list[_Drawing]] = defaultdict(list)
    for sample, model, rows in _standing(judged, samples):
        drawings[model].append(
            _Drawing(
                f"{sample.seed}/{model}",
                {row.key: row.chance for row in rows},
                {row.stratum: row.chance for row in rows},
            )
        )
    return {
        (row.key, row.model): _chance_of(row, drawings[row.model])
        for sample in samples
        for row in sample.rows
        if any(row.key in drawing.by_key for drawing in drawings[row.model])
    }


def holding_all(samples: Sequence[LabelSample], rows: set[_Row]) -> LabelSample | None:
    """Return a sample that has all of some rows, the smallest one."""
    holding = [sample for sample in samples if rows <= {(row.key, row.model) for row in sample.rows}]
    return min(holding, key=lambda sample: len(sample.rows), default=None)


def _standing(
    judged: JudgedRows, samples: Sequence[LabelSample]
) -> Iterator[tuple[LabelSample, str, list[SampledRow]]]:
    """Yield each model's rows of each sample, unless their answers have changed since."""
    keys: defaultdict[_Row, set[str]] = defaultdict(set)
    sampled = {(row.case, row.model) for sample in samples for row in sample.rows}
    for case, model, key in zip(judged.cases, judged.models, judged.keys, strict=True) if sampled else ():
        if (case, model) in sampled:
            keys[case, model].add(key)
    for sample in samples:
        by_model: defaultdict[str, list[SampledRow]] = defaultdict(list)
        for row in sample.rows:
            by_model[row.model].append(row)
        for model, rows in by_model.items():
            here = [row for row in rows if (row.case, row.model) in keys]
            changed = sum(row.key not in keys[row.case, row.model] for row in here)
            if changed <= _MOST_CHANGED * len(here):
                yield sample, model, rows


def _chance_of(row: SampledRow, drawings: Sequence[_Drawing]) -> RowChance:
    """Return the chance with which any sample has a row; of one random order the larger sample holds the smaller."""
    by_seed: defaultdict[str, list[float]] = defaultdict(list)
    for drawing in drawings:
        by_seed[drawing.seed].append(drawing.chance_of(row))
    missed = math.prod(1 - max(chances) for chances in by_seed.values())
    return RowChance(1 - missed, frozenset(by_seed))
