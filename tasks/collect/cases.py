"""The cases of a suite, one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from leadline.tasks.db import attach_dataset, connect, literal, sql

_BATCH: Final = 256
MEMORY: Final = "500MB"


@dataclass(frozen=True, slots=True)
class Case:
    """A case as a model under test sees it, without the expected answers.

    Attributes:
        metadata: Its other fields in the suite.
    """

    key: str
    question: str
    categories: tuple[str, ...]
    metadata: Mapping[str, Any]

    def values(self) -> dict[str, Any]:
        """Return its fields for templates."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """A line of a suite.

    Attributes:
        number: Its place, counted from 0.
        repeat: How many cases before it ask the same question.
        shown: The case as a model sees it; ``None`` where it has no question.
        fields: All its fields in the names of Leadline's format; absent ones left out.
    """

    number: int
    repeat: int
    shown: Case | None
    fields: Mapping[str, Any]


def write_cases(dataset: Path, target: Path) -> None:
    """Write the cases of a loaded suite in their order, with their relationships, as one Parquet file."""
    with connect() as connection:
        connection.execute(f"SET memory_limit = '{MEMORY}'; SET temp_directory = {literal(target.parent / 'spill')}")
        attach_dataset(connection, dataset)
        connection.execute(f"COPY ({sql('collect_cases')}) TO {literal(target)} (FORMAT parquet, ROW_GROUP_SIZE 20480)")


def read_cases(path: Path) -> Iterator[SuiteCase]:
    """Read the file of :func:`write_cases`, a batch at a time."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_BATCH):
            yield from (_case(line) for line in batch.to_pylist())


def _case(line: Mapping[str, Any]) -> SuiteCase:
    metadata = json.loads(line["metadata"])
    fields = {
        "case": line["case_key"],
        "question": line["question"],
        "expected_answer": line["expected_answers"],
        "expected_documents": line["expected_documents"],
        "condition": line["condition"],
        "categories": line["categories"],
        "relationships": _relationships(line["links"]),
        "metadata": metadata,
    }
    question = line["question"]
    shown = None if question is None else Case(line["case_key"], question, tuple(line["categories"]), metadata)
    return SuiteCase(
        number=line["case_id"],
        repeat=line["repeat"],
        shown=shown,
        fields={name: value for name, value in fields.items() if value},
    )


def _relationships(links: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    return [
        {"type": "perturbation_source", "target": link["target"]}
        | ({"perturbation": link["perturbation"]} if link["perturbation"] else {})
        for link in links
    ]
