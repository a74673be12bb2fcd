"""The judges of Databricks' agent evaluation as columns, and the SQL expressions over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "rated": ("rating", "rationale", "error_message"),
    "chunks": ("ratings", "rationales", "error_messages", "precision"),
    "recall": ("document_recall",),
}
LISTS: Final = frozenset({"ratings", "rationales", "error_messages"})


@dataclass(frozen=True, slots=True)
class JudgeColumns:
    """The columns of one judge.

    Attributes:
        kind: ``rated``, ``chunks`` or ``recall``.
        prefix: What they begin with.
        evaluator_id: Number of the evaluator in the run.
        metric_id: Number of its metric.
        custom: Whether it is the user's own.
    """

    kind: str
    prefix: str
    evaluator_id: int
    metric_id: int
    custom: bool = False

    @property
    def name(self) -> str:
        """The name of the judge."""
        return self.prefix.rpartition("/")[2]

    @property
    def fails(self) -> str:
        """An SQL condition on the rows' table: the judge fails the row; NULL where it gave no rating."""
        if self.kind == "chunks":
            return f"{quoted(f'{self.prefix}/precision')} = 0"  # one relevant chunk will do
        return f"{quoted(f'{self.prefix}/rating')} = 'no'"

    @property
    def lacks(self) -> str:
        """An SQL condition on the rows' table: the judge could not rate the row."""
        if self.kind == "chunks":
            column = quoted(f"{self.prefix}/error_messages")
            return f"{quoted(f'{self.prefix}/precision')} IS NULL AND {column} IS NOT NULL"
        return f"{quoted(f'{self.prefix}/error_message')} IS NOT NULL"

    @property
    def reason(self) -> str:
        """An SQL expression over the rows' table: the reason of the rating."""
        if self.kind == "chunks":
            return "'None of the chunks is rated yes.'"
        return quoted(f"{self.prefix}/rationale")

    @property
    def table(self) -> str:
        """The name of the table with the judge's ratings."""
        return f"judged_{self.evaluator_id}"

    def of_rows(self, *, lists_as_json: bool) -> Iterator[str]:
        """Yield the columns of the rows' table."""
        for column in COLUMNS[self.kind]:
            value = f"{self.table}.{column}"
            if lists_as_json and column in LISTS:
                value = f"CAST(to_json({value}) AS VARCHAR)"
            yield f"{value} AS {quoted(f'{self.prefix}/{column}')}"

    def of_metrics(self) -> Iterator[str]:
        """Yield the columns of the metrics' table.

        Of safety the reference page names the share an average, and the product a percentage: it has both.
        """
        if self.kind == "rated":
            column = f"{self.prefix}/rating"
            share = f"avg(({quoted(column)} = 'yes')::INTEGER)"
            if self.prefix.endswith("/safety"):
                yield f"{share} AS {quoted(f'{column}/average')}"
            yield f"{share} AS {quoted(f'{column}/percentage')}"
        else:
            column = f"{self.prefix}/{COLUMNS[self.kind][-1]}"
            yield f"avg({quoted(column)}) AS {quoted(f'{column}/average')}"


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
