"""Gathers cases and answers in columns and hands them to the staging tables batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Self

from leadline.tasks.db import sql
from leadline.tasks.load.column_values import ARRAYS, array_of
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.label import GivenLabel
from leadline.tasks.load.limits import BATCH_BYTES, BATCH_ROWS, FREE_EXPANSION, MAX_EXPANSION, MAX_ROWS
from leadline.tasks.load.staged_tables import CASES, LABELS, LINKS, ROWS
from leadline.tasks.load.values import Chunks

if TYPE_CHECKING:
    import pyarrow as pa

    from leadline.tasks.load.staging import Staging

CASE_FIELDS: Final = (
    "question",
    "expected_answers",
    "expected_documents",
    "condition",
    "categories",
    "expected_annotations",
    "metadata",
)
_CASES: Final = ("seq", "record", "part", "case_key", "derived", "bare", *CASE_FIELDS)
_LINKS: Final = ("record", "part", "case_key", "target", "perturbation")
_ROWS: Final = (
    *("row_id", "record", "part", "case_key", "derived", "case_seq", "model_id"),
    *("actual_answer", "retrieved_context", "error", "duration_s", "cost_usd", "input_tokens", "output_tokens"),
    *("metadata", "predicted_annotations"),
)
_LABELS: Final = ("row_id", *GivenLabel._fields)
_ENOUGH: Final = BATCH_ROWS * len(_ROWS)


WORDS_FOR_NOTHING: Final = frozenset({"nan", "NaN", "None", "null", "NULL", "<NA>", "NaT"})
"""What Python, pandas and databases write for a missing value when it is made a text."""


class Batches:
    """Gathers records for the staging tables of ``load.sql``.

    Attributes:
        connection: The staging database.
        rows: Answers so far.
        answered: Answers so far that are texts, annotations or errors of a host.
        words_for_nothing: Answers so far that are a word for a missing value, such as ``nan``.
        blank: What a row without answer, annotations and error gets: ``""`` in a table of texts that has a column of
            answers, where an empty cell is an empty answer.
    """

    def __init__(self, staged: Staging, faults: Faults, *, file_size: int) -> None:
        self.connection = staged.connection
        self._staged_tables = staged.tables
        self._faults = faults
        self._limit = max(FREE_EXPANSION, MAX_EXPANSION * file_size)
        # Values line after line; a column is every n-th of them. Lines of their own would keep the collector busy.
        self._cases: list[Any] = []
        self._links: list[Any] = []
        self._rows: list[Any] = []
        self._labels: list[Any] = []
        self._mentions = 0
        self._pending = 0
        self._staged = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leadline-staging")
        self._writing: Future[None] | None = None
        self._tables: list[tuple[pa.Table, pa.Table]] = []
        self.rows = 0
        self.answered = 0
        self.words_for_nothing = 0
        self.blank: str | None = None

    def case(self, place: Place, key: str, *, derived: bool, bare: bool, fields: tuple[Any, ...]) -> int:
        """Stage a mention of a case; ``fields`` are those of :data:`CASE_FIELDS`. Returns the mention's number.

        Args:
            place: Where the mention is.
            key: The case's key.
            derived: Whether the key was made from the case's content.
            bare: Whether an answer names the case by its key and gives nothing else of it.
            fields: Values of :data:`CASE_FIELDS`, in their order.
        """
        seq = self._mentions
        self._mentions += 1
        self._cases.extend((seq, place.row, place.part, key, derived, bare, *fields))
        return seq

    def link(self, place: Place, key: str, target: str, perturbation: str) -> None:
        """Stage that a case is a perturbed copy of another.

        Args:
            place: Where the link is.
            key: Key of the copy.
            target: Key of the case that it was made from.
            perturbation: Name of the perturbation.
        """
        self._links.extend((place.row, place.part, key, target, perturbation))

    def answer(
        self,
        place: Place,
        case: tuple[str, bool, int],
        model: int,
        answer: str | None,
        context: Chunks,
        error: str | None,
        numbers: tuple[float | None, float | None, int | None, int | None],
        metadata: str,
        annotations: str | None = None,
    ) -> None:
        """Stage what a model answered.

        Args:
            place: Where it stands.
            case: The case's key, whether it was derived, and the number of its mention.
            model: The model's id.
            answer: The answer, if there is one.
            context: The retrieved chunks.
            error: What the host returned instead.
            numbers: Seconds, US dollars, input tokens, output tokens.
            metadata: JSON object.
            annotations: What the model found in a data item: JSON list.
        """
        given = answer is not None or error is not None or annotations is not None
        said = answer if given else self.blank
        self._rows.extend((self.rows, *place, *case, model, said, context, error, *numbers, metadata))
        self._rows.append(annotations)
        self.rows += 1
        self.answered += given
        self.words_for_nothing += answer in WORDS_FOR_NOTHING

    def labels(self, given: Iterable[GivenLabel]) -> None:
        """Stage what people say of the answer that was staged last."""
        for label in given:
            self._labels.extend((self.rows - 1, *label))

    def records(
        self,
        rows: Sequence[int],
        both: Mapping[str, pa.Array],
        case: Mapping[str, pa.Array],
        answer: Mapping[str, pa.Array],
        *,
        size: int,
    ) -> None:
        """Stage many records, each a mention of a case with an answer; columns that are left out are empty.

        They are written while the next ones are read.

        Args:
            rows: Their rows in the file.
            both: Columns of the cases and of the answers: the cases' keys, and which of them were derived.
            case: Columns of the cases.
            answer: Columns of the answers.
            size: Size of the records in bytes.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._cases:  # rows are staged in their order
            self.flush()
        seq = np.arange(self._mentions, self._mentions + len(rows), dtype=np.uint32)
        row_id = np.arange(self.rows, self.rows + len(rows), dtype=np.uint32)
        given = [answer[name].is_valid() for name in ("actual_answer", "error") if name in answer]
        answer = dict(answer)
        if self.blank is not None:
            kind = answer["actual_answer"].type if "actual_answer" in answer else pa.string()
            blank = pa.array([self.blank] * len(rows), kind)
            if "error" in answer:
                blank = pc.if_else(answer["error"].is_valid(), pa.scalar(None, kind), blank)
            answer["actual_answer"] = (
                pc.coalesce(answer["actual_answer"], blank) if "actual_answer" in answer else blank
            )
        shared = {"record": pa.array(rows, pa.uint32())} | dict(both)
        cases = {"seq": pa.array(seq)} | shared | dict(case)
        answers = {"row_id": pa.array(row_id), "case_seq": pa.array(seq)} | shared | dict(answer)
        self._tables.append((self._completed(CASES, cases), self._completed(ROWS, answers)))
        self._mentions += len(rows)
        self.rows += len(rows)
        if given:
            self.answered += pc.sum(pc.or_(given[0], given[-1])).as_py()
        if "actual_answer" in answer:
            words = pa.array(sorted(WORDS_FOR_NOTHING), answer["actual_answer"].type)
            self.words_for_nothing += pc.sum(pc.is_in(answer["actual_answer"], words)).as_py() or 0
        self._pending += size
        if self._pending >= BATCH_BYTES:
            self._write_tables()

    def _write_tables(self) -> None:
        """Have the tables that have gathered written; those before them have been."""
        import pyarrow as pa

        self._check_size()
        self._wait()
        if self._tables:
            cases, answers = (pa.concat_tables(parts) for parts in zip(*self._tables, strict=True))
            self._tables = []
            self._writing = self._thread.submit(self._append, {CASES: cases, ROWS: answers})

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def end_of_record(self, size: int) -> None:
        """Stage what has gathered if it is enough; ``size`` is the record's size in bytes."""
        self._pending += size
        gathered = max(len(self._rows), len(self._cases), len(self._labels))
        if gathered >= _ENOUGH or self._pending >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Stage what has gathered."""
        self._write_tables()
        self._wait()
        self._insert(CASES, _CASES, self._cases)
        self._insert(LINKS, _LINKS, self._links)
        self._insert(ROWS, _ROWS, self._rows)
        self._insert(LABELS, _LABELS, self._labels)

    def finish(self) -> None:
        """Stage what has gathered, and show all that was staged to the database."""
        self.flush()
        self._staged_tables.finish(self.connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()  # or the connection would be closed below it

    def _check_size(self) -> None:
        """Refuse a file that unpacks to too much."""
        self._staged += self._pending
        self._pending = 0
        if self._staged > self._limit:
            self._faults.stop(None, "", "the file unpacks to more than a thousand times its size: a decompression bomb")
        if self.rows > MAX_ROWS:
            self._faults.stop(None, "", f"the file has more than {MAX_ROWS:,} answers")

    def _insert(self, table: str, names: tuple[str, ...], values: list[Any]) -> None:
        if not values:
            return
        columns = {name: _ARRAYS[name](values[index :: len(names)]) for index, name in enumerate(names)}
        self._append({table: self._completed(table, columns)})
        values.clear()

    def _completed(self, table: str, columns: Mapping[str, pa.Array]) -> pa.Table:
        import pyarrow as pa

        return self._staged_tables.completed(table, pa.table(dict(columns)))

    def _append(self, tables: Mapping[str, pa.Table]) -> None:
        for table, batch in tables.items():
            self._staged_tables.append(table, batch)
        if ROWS in tables:
            self.connection.register("batch", tables[ROWS])
            self.connection.execute(sql("load/digests"))
            self.connection.unregister("batch")


_ARRAYS: Final[Mapping[str, Callable[[list[Any]], Any]]] = (
    dict.fromkeys((*_CASES, *_LINKS, *_ROWS, *_LABELS), ARRAYS["text"])
    | dict.fromkeys(("seq", "record", "row_id", "case_seq"), array_of("uint32"))
    | dict.fromkeys(("derived", "bare"), array_of("bool_"))
    | dict.fromkeys(("expected_answers", "expected_documents", "categories"), ARRAYS["texts"])
    | dict.fromkeys(("duration_s", "cost_usd", "value"), ARRAYS["number"])
    | dict.fromkeys(("input_tokens", "output_tokens"), ARRAYS["count"])
    | {"model_id": array_of("uint16"), "retrieved_context": ARRAYS["chunks"]}
)
