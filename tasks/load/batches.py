"""Gathers cases and answers in columns and hands them to the staging tables batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.limits import BATCH_BYTES, BATCH_ROWS, FREE_EXPANSION, MAX_EXPANSION, MAX_ROWS
from leadline.tasks.load.values import Chunks

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
_ENOUGH: Final = BATCH_ROWS * len(_ROWS)


class Batches:
    """Writes the staging tables of ``load.sql``.

    Attributes:
        connection: The staging database.
        rows: Answers so far.
        answered: Answers so far that are texts, annotations or errors of a host.
    """

    def __init__(self, connection: DuckDBPyConnection, faults: Faults, *, file_size: int) -> None:
        self.connection = connection
        self._faults = faults
        self._limit = max(FREE_EXPANSION, MAX_EXPANSION * file_size)
        # Values line after line; a column is every n-th of them. Lines of their own would keep the collector busy.
        self._cases: list[Any] = []
        self._links: list[Any] = []
        self._rows: list[Any] = []
        self._mentions = 0
        self._pending = 0
        self._staged = 0
        self.rows = 0
        self.answered = 0

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
        self._rows.extend((self.rows, *place, *case, model, answer, context, error, *numbers, metadata))
        self._rows.append(annotations)
        self.rows += 1
        self.answered += answer is not None or error is not None or annotations is not None

    def end_of_record(self, size: int) -> None:
        """Stage what has gathered if it is enough; ``size`` is the record's size in bytes."""
        self._pending += size
        if len(self._rows) >= _ENOUGH or len(self._cases) >= _ENOUGH or self._pending >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Stage what has gathered."""
        self._staged += self._pending
        if self._staged > self._limit:
            self._faults.stop(None, "", "the file unpacks to more than a thousand times its size: a decompression bomb")
        if self.rows > MAX_ROWS:
            self._faults.stop(None, "", f"the file has more than {MAX_ROWS:,} answers")
        self._insert("staged_cases", _CASES, self._cases)
        self._insert("staged_links", _LINKS, self._links)
        self._insert("staged_rows", _ROWS, self._rows)
        self._pending = 0

    def _insert(self, table: str, names: tuple[str, ...], values: list[Any]) -> None:
        if not values:
            return
        import pyarrow as pa

        columns = [_READINGS[name](values[index :: len(names)]) for index, name in enumerate(names)]
        self.connection.register("batch", pa.table(columns, names=list(names)))
        self.connection.execute(f"INSERT INTO {table} SELECT * FROM batch")
        self.connection.unregister("batch")
        values.clear()


def _array(kind: str) -> Callable[[list[Any]], Any]:
    def build(values: list[Any]) -> Any:
        import pyarrow as pa

        return pa.array(values, type=getattr(pa, kind)())

    return build


def _texts(values: list[list[str] | None]) -> Any:
    import pyarrow as pa

    return pa.array(values, type=pa.large_list(pa.large_string()))


def _chunks(values: list[Chunks]) -> Any:
    """Return the lists of chunks as an Arrow list of structs, built column by column."""
    import numpy as np
    import pyarrow as pa

    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([len(chunks) for chunks in values], out=offsets[1:])
    flat = [chunk for chunks in values for chunk in chunks]
    structs = pa.StructArray.from_arrays(
        [
            pa.array([content for content, _ in flat], type=pa.large_string()),
            pa.array([uri for _, uri in flat], type=pa.large_string()),
        ],
        names=["content", "doc_uri"],
    )
    return pa.LargeListArray.from_arrays(pa.array(offsets), structs)


_TEXT: Final = _array("large_string")
_READINGS: Final[dict[str, Callable[[list[Any]], Any]]] = (
    dict.fromkeys((*_CASES, *_LINKS, *_ROWS), _TEXT)
    | dict.fromkeys(("seq", "record", "row_id", "case_seq"), _array("uint32"))
    | dict.fromkeys(("derived", "bare"), _array("bool_"))
    | dict.fromkeys(("expected_answers", "expected_documents", "categories"), _texts)
    | dict.fromkeys(("duration_s", "cost_usd"), _array("float64"))
    | dict.fromkeys(("input_tokens", "output_tokens"), _array("uint64"))
    | {"model_id": _array("uint16"), "retrieved_context": _chunks}
)
