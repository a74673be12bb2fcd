"""The judges of Databricks' agent evaluation as columns, and their verdict on a row as a whole.

A row passes when no judge that counts for it fails it. The judges count in the order of Agent Evaluation's
documentation ("How root causes are determined"), which depends on whether the row has a ground truth; the first that
fails is the root cause. A judge without a rating fails no row; a row without a failure then has
no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "rated": ("rating", "rationale", "error_message"),
    "chunks": ("ratings", "rationales", "error_messages", "precision"),
    "recall": ("document_recall",),
}
LISTS: Final = frozenset({"ratings", "rationales", "error_messages"})
_WITH_TRUTH: Final = ("context_sufficiency", "groundedness", "correctness", "safety")
_WITHOUT_TRUTH: Final = ("chunk_relevance", "groundedness", "relevance_to_query", "safety")
RETRIEVAL: Final = frozenset({"context_sufficiency", "chunk_relevance"})
_CUSTOM_FIRST: Final = len(_WITH_TRUTH)


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


def assessment(judges: Sequence[JudgeColumns]) -> dict[str, str]:
    """Return SQL expressions over the rows' table: ``rating``, ``root_cause`` and ``rationale``.

    Args:
        judges: The judges that ran. Those of a user's own count after all others.
    """
    with_truth, without = (_ordered(judges, names) for names in (_WITH_TRUTH, _WITHOUT_TRUTH))
    return {
        part: f"CASE WHEN has_ground_truth THEN {of(with_truth)} ELSE {of(without)} END"
        for part, of in (("rating", _rating), ("root_cause", _root_cause), ("rationale", _rationale))
    }


def _ordered(judges: Sequence[JudgeColumns], names: Sequence[str]) -> list[JudgeColumns]:
    counting = [judge for judge in judges if judge.kind != "recall" and (judge.custom or judge.name in names)]
    return sorted(counting, key=lambda judge: _CUSTOM_FIRST if judge.custom else names.index(judge.name))


def _rating(judges: Sequence[JudgeColumns]) -> str:
    failed = " OR ".join(f"coalesce({judge.fails}, false)" for judge in judges) or "false"
    passed = " AND ".join(f"({judge.fails}) IS DISTINCT FROM true AND NOT ({judge.lacks})" for judge in judges)
    some = " OR ".join(f"({judge.fails}) IS NOT NULL" for judge in judges)
    return f"CASE WHEN {failed} THEN 'no' WHEN ({passed or 'false'}) AND ({some or 'false'}) THEN 'yes' END"


def _root_cause(judges: Sequence[JudgeColumns]) -> str:
    return _first_failing(judges, lambda judge: _text(judge.name))


def _rationale(judges: Sequence[JudgeColumns]) -> str:
    def sentence(judge: JudgeColumns) -> str:
        improve = "retrieval" if judge.name in RETRIEVAL or judge.kind == "chunks" else "generation"
        return f"concat_ws(' ', {_text(f'Improve {improve}: {judge.name} fails.')}, {judge.reason})"

    return _first_failing(judges, sentence)


def _first_failing(judges: Sequence[JudgeColumns], then: Callable[[JudgeColumns], str]) -> str:
    cases = " ".join(f"WHEN {judge.fails} THEN {then(judge)}" for judge in judges)
    return f"CASE {cases} END" if cases else "NULL"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
