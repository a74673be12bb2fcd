"""Adding cases of runs to a suite: a file of JSON Lines, which is replaced as a whole once it was read again.

Each line that is added says under ``origin`` in its metadata from which run and case it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from leadline.evaluators.ground import DatasetError, ErrorCode, UsageError, count
from leadline.tasks.collect.cases import SuiteCase, find_cases, read_cases, write_cases
from leadline.tasks.ground.files import digest, handed_out, locked_if_possible, scratch_folder
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.store.store import Store

MOST_ADDED: Final = 500
"""Cases that are added at once."""

LARGEST: Final = 64 << 20
"""Bytes of a suite that is added to."""

ORIGIN: Final = "origin"
ENDING: Final = ".jsonl"

_ASKED: Final = (
    "question", "expected_answer", "expected_documents", "condition", "messages", "tools", "expected_tool_calls",
    "expected_outcome", "scenario",
)  # fmt: skip
"""Fields that make two cases the same, whatever their keys and labels."""


@dataclass(frozen=True, slots=True)
class SuiteAddition:
    """The outcome of adding cases to a suite.

    Attributes:
        added: Keys that the added cases have in the suite.
        known: Keys that the others have, which the suite had already.
        cases: Cases of the suite now.
    """

    file: Path
    added: tuple[str, ...]
    known: tuple[str, ...]
    cases: int


class _Origin(NamedTuple):
    run: str
    case: str


def add_to_suite(store: Store, wanted: Mapping[str, Sequence[str]], file: Path) -> SuiteAddition:
    """Add cases of runs to a suite, those left out that it asks already or once got from there.

    A key that the suite has for another case becomes ``KEY@RUN``. A copy stays linked to its original where that is
    added with it. The file appears complete or stays as it is.

    Args:
        wanted: Keys of cases, by the id of their run.
        file: JSON Lines in any format of a dataset; made if it is not there.

    Raises:
        UsageError: There is no such case, too many are wanted, or the file is no suite of JSON Lines.
    """
    number = sum(map(len, wanted.values()))
    if number > MOST_ADDED:
        raise UsageError(
            f"{number:,} cases are too many to be added at once.",
            hint=f"Choose at most {MOST_ADDED}.",
            code=ErrorCode.CONFIG_OPTION,
        )
    target = _checked(store, file)
    lock = store.root / "tmp" / f"suite-{digest(str(target))}.lock"
    lock.parent.mkdir(exist_ok=True)
    with locked_if_possible(lock), scratch_folder(store.root, "suite") as folder:
        aside = Store(folder / "store")
        suite = _load(aside, target, str(file)) if target.exists() else None
        growth = _Growth(list(_cases(suite, folder / "before.parquet")) if suite else [])
        for run, keys in wanted.items():
            growth.add(run, _of_run(store, run, keys))
        if growth.lines:
            names = {field: column for column, field in suite.columns.items()} if suite else {}
            grown = folder / target.name
            grown.write_bytes(_text(target) + b"".join(_line(fields, names) for fields in growth.lines))
            _require_all(growth, _cases(_load(aside, grown, str(file)), folder / "after.parquet"), str(file))
            with handed_out(target) as temporary:
                shutil.copyfile(grown, temporary)
    return SuiteAddition(file, tuple(growth.added), tuple(growth.known), len(growth.keys))


class _Growth:
    """The cases of a suite, by what they ask and where they are from, and the lines that it gets."""

    def __init__(self, cases: Sequence[SuiteCase]) -> None:
        self.keys = {str(case.fields["case"]) for case in cases}
        self.digests = {_digest(_fields(case)): str(case.fields["case"]) for case in cases}
        self.origins = {
            _Origin(str(of.get("run")), str(of.get("case"))): str(case.fields["case"])
            for case in cases
            if isinstance(of := case.fields.get("metadata", {}).get(ORIGIN), dict)
        }
        self.lines: list[dict[str, Any]] = []
        self.added: list[str] = []
        self.known: list[str] = []

    def add(self, run: str, cases: Sequence[SuiteCase]) -> None:
        """Add cases of a run."""
        names: dict[str, str] = {}
        lines: list[dict[str, Any]] = []
        for case in cases:
            key, fields = str(case.fields["case"]), _fields(case)
            origin, asked = _Origin(run, key), _digest(fields)
            known = self.digests.get(asked) or self.origins.get(origin)
            names[key] = known or (f"{key}@{run}" if key in self.keys else key)
            if known:
                self.known.append(known)
                continue
            self.added.append(names[key])
            self.keys.add(names[key])
            self.digests[asked] = self.origins[origin] = names[key]
            about = {**fields.get("metadata", {}), ORIGIN: origin._asdict()}
            lines.append({**fields, "case": names[key], "metadata": about})
        for line in lines:
            links = [
                {**link, "target": names[link["target"]]}
                for link in line.pop("relationships", ())
                if link["target"] in names
            ]
            self.lines.append(line | ({"relationships": links} if links else {}))


def _checked(store: Store, file: Path) -> Path:
    """Return the file itself, wherever links lead.

    Raises:
        UsageError: It cannot be a suite that is added to.
    """
    target = file.absolute().resolve()
    why = ""
    if target.suffix != ENDING:
        why = "is not a file of JSON Lines"
    elif target.is_relative_to(store.root.resolve()):
        why = "is in the store"
    elif not target.parent.is_dir():
        why = "would be in a folder that is not there"
    elif target.exists() and (not target.is_file() or target.stat().st_size > LARGEST):
        why = f"is no file of at most {LARGEST >> 20} MiB"
    if why:
        raise UsageError(
            f"Cases cannot be added to {file}, which {why}.",
            hint=f"Name a file of the project that ends in {ENDING}.",
            code=ErrorCode.CONFIG_OUTPUT,
        )
    return target


def _load(aside: Store, path: Path, shown: str) -> LoadedDataset:
    """Load a suite apart from the store, which keeps none of it.

    Args:
        shown: The file as the user named it.
    """
    try:
        suite = load_dataset(aside, path, cases_only=True, shared=False)
    except DatasetError as error:
        raise UsageError(
            f"Cases cannot be added: {replace(error.faults[0], file=shown)}.",
            hint="The file is as it was.",
            code=ErrorCode.DATA_REFUSED,
        ) from None
    if suite.container != "jsonl" or "actual_answer" in suite.columns.values():
        why = "holds answers of models" if suite.container == "jsonl" else "is not JSON Lines"
        raise UsageError(
            f"Cases cannot be added to {shown}: it {why}.",
            hint=f"Name a file with cases alone, or a new one that ends in {ENDING}.",
            code=ErrorCode.DATA_FORMAT,
        )
    return suite


def _cases(suite: LoadedDataset, file: Path) -> Iterator[SuiteCase]:
    write_cases(suite.path, file)
    return read_cases(file)


def _of_run(store: Store, run: str, keys: Sequence[str]) -> list[SuiteCase]:
    dataset = str(store.run(run).read().get("dataset", ""))
    found = find_cases(store.dataset(dataset), keys) if store.has_dataset(dataset) else []
    missing = set(keys) - {str(case.fields["case"]) for case in found}
    if missing:
        raise UsageError(f"Run {run} has no case {min(missing)!r}.", code=ErrorCode.QUERY_NO_CASE)
    return found


def _fields(case: SuiteCase) -> dict[str, Any]:
    """Return the fields of a case in a suite; a conversation asks by its messages, the first that was held."""
    if not case.recordings:
        return dict(case.fields)
    held = {name: value for name, value in case.recordings[0].items() if value is not None}
    return {name: value for name, value in case.fields.items() if name != "question"} | held


def _digest(fields: Mapping[str, Any]) -> str:
    return digest([fields.get(name) for name in _ASKED])


def _text(file: Path) -> bytes:
    """Return a file's content, its last line ended."""
    text = file.read_bytes() if file.exists() else b""
    return text if not text or text.endswith(b"\n") else text + b"\n"


def _line(fields: Mapping[str, Any], names: Mapping[str, str]) -> bytes:
    """Return a case in the names of the file's columns."""
    named = {names.get(name, name): value for name, value in fields.items()}
    return orjson.dumps(named, option=orjson.OPT_APPEND_NEWLINE)


def _require_all(growth: _Growth, cases: Iterator[SuiteCase], shown: str) -> None:
    """Refuse a file that is not read as what was written."""
    found = {_digest(_fields(case)) for case in cases}
    if lost := growth.digests.keys() - found:
        raise UsageError(
            f"Cases cannot be added to {shown}: {count(len(lost), 'case')} would be read as something else in its "
            "format.",
            hint=f"Name a new file that ends in {ENDING}.",
            code=ErrorCode.DATA_FORMAT,
        )
