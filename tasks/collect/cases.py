"""The cases of a suite, one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from leadline.tasks.db import attach_dataset, connect, literal, records, sql
from leadline.tasks.load.conversation import RECORDINGS_FILE

_BATCH: Final = 256
MEMORY: Final = "500MB"
_NO_RECORDINGS: Final = "(SELECT '' AS case_key, '' AS recording, 0 AS place WHERE false)"
_OF_CONVERSATIONS: Final = ("messages", "tools", "conversation_id", "tool_call")

Recording: TypeAlias = Mapping[str, Any]
"""A conversation that was held about a case, see :meth:`leadline.tasks.load.conversation.Conversation.recording`."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case as a model under test sees it, without the expected answers.

    Attributes:
        question: What the user says now.
        metadata: Its other fields in the suite.
        messages: The conversation so far in OpenAI's form, ending with the question or the results of tools.
        tools: The tools that the model may call, in the same form.
        conversation_id: What tells the conversation from others, the same in all its turns and in a rerun; ``""`` for a
            single question.
        tool_call: ``name`` and ``arguments`` of a call, where the case is put to the source of a tool's results.
    """

    key: str
    question: str
    categories: tuple[str, ...]
    metadata: Mapping[str, Any]
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    conversation_id: str = ""
    tool_call: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.messages:
            object.__setattr__(self, "messages", ({"role": "user", "content": self.question},))

    def values(self) -> dict[str, Any]:
        """Return its fields for templates."""
        return asdict(self)

    def asked(self) -> dict[str, Any]:
        """Return the fields that say what is asked: a single question has the same as before there were others."""
        left_out = () if self.conversation_id else _OF_CONVERSATIONS
        return {name: value for name, value in self.values().items() if name not in left_out}


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """A line of a suite.

    Attributes:
        number: Its place among all copies of all cases, counted from 0.
        repeat: How many cases before it ask the same question.
        shown: The case as a model sees it; ``None`` where it has no question.
        fields: All its fields in the names of Leadline's format; absent ones left out.
        copy: Which copy of the case it is, counted from 0.
        recordings: The conversations that were held about it; none for a single question.
    """

    number: int
    repeat: int
    shown: Case | None
    fields: Mapping[str, Any]
    copy: int = 0
    recordings: Sequence[Recording] = ()


def write_cases(dataset: Path, target: Path) -> None:
    """Write the cases of a loaded suite in their order, with their relationships, as one Parquet file."""
    with connect() as connection:
        connection.execute(f"SET memory_limit = '{MEMORY}'; SET temp_directory = {literal(target.parent / 'spill')}")
        attach_dataset(connection, dataset)
        recorded = dataset / RECORDINGS_FILE
        numbered = (
            f"(SELECT *, file_row_number AS place FROM read_parquet({literal(recorded)}, file_row_number = true))"
        )
        recordings = numbered if recorded.exists() else _NO_RECORDINGS
        cases = sql("collect_cases/cases").format(cases="cases", recordings=recordings)
        connection.execute(f"COPY ({cases}) TO {literal(target)} (FORMAT parquet, ROW_GROUP_SIZE 20480)")


def read_cases(path: Path, copies: int = 1) -> Iterator[SuiteCase]:
    """Read the file of :func:`write_cases`, a batch at a time; yield each case as often as there are to be copies."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_BATCH):
            for line in batch.to_pylist():
                yield from (_case(line, copy, copies) for copy in range(copies))


def find_cases(dataset: Path, keys: Sequence[str]) -> list[SuiteCase]:
    """Return cases of a dataset with answers by their keys, each with the conversations that were held about it."""
    with connect() as connection:
        attach_dataset(connection, dataset)
        statement = sql("collect_cases/cases").format(
            cases=sql("collect_cases/chosen"), recordings=sql("collect_cases/held")
        )
        return [_case(line, 0, 1) for line in records(connection, statement, {"keys": list(keys)})]


def copied(key: str, copy: int) -> str:
    """Return the key of a copy of a case; the first is the case itself."""
    return f"{key} copy {copy + 1}" if copy else key


def _case(line: Mapping[str, Any], copy: int, copies: int) -> SuiteCase:
    metadata = json.loads(line["metadata"])
    fields = {
        "case": copied(line["case_key"], copy),
        "question": line["question"],
        "expected_answer": line["expected_answers"],
        "expected_documents": line["expected_documents"],
        "condition": line["condition"],
        "categories": line["categories"],
        "relationships": _relationships(line["links"], copy),
        "metadata": metadata,
    }
    question = line["question"]
    shown = None if question is None else Case(line["case_key"], question, tuple(line["categories"]), metadata)
    return SuiteCase(
        number=line["case_id"] * copies + copy,
        repeat=line["repeat"],
        shown=shown,
        fields={name: value for name, value in fields.items() if value},
        copy=copy,
        recordings=tuple(map(json.loads, line["recordings"])),
    )


def _relationships(links: Sequence[Mapping[str, str]], copy: int) -> list[dict[str, str]]:
    return [
        {"type": "perturbation_source", "target": copied(link["target"], copy)}
        | ({"perturbation": link["perturbation"]} if link["perturbation"] else {})
        for link in links
    ]
