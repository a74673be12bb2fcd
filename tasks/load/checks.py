"""Checks across the records of a dataset, after staging: keys, repeated cases, relationships, conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.tasks.db import sql
from leadline.tasks.load.batches import CASE_FIELDS
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.values import shown

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FETCH: Final = 1000


class Checks:
    """Checks the staging tables and notes what is wrong.

    Args:
        connection: The staging database.
        faults: Where to note it.
        columns: What the file calls Leadline's fields, where it calls them otherwise.
    """

    def __init__(self, connection: DuckDBPyConnection, faults: Faults, columns: Mapping[str, str]) -> None:
        self._connection = connection
        self._faults = faults
        self._columns = columns

    def number_repeats(self) -> int:
        """Give every repeated case without a key a key of its own; return how many there are."""
        statements = sql("load/repeats").split(";")
        self._connection.execute(statements[0])
        found = self._value("SELECT count(*) FROM repeats")
        if found:
            for statement in statements[1:-1]:
                self._connection.execute(statement)
        return found

    def check(self, models: Mapping[int, str], *, declared: bool) -> None:
        """Check everything.

        Args:
            models: Keys of the models by id.
            declared: Whether the file lists its cases, so that answers must name listed ones.
        """
        self._duplicates(models)
        if self._value("SELECT count(*) FROM case_ids WHERE mentions > 1"):
            for field in CASE_FIELDS:
                self._conflicts(field)
        self._connection.execute("SET VARIABLE lost = ?", [self._faults.lost])
        if declared:
            self._report(sql("load/undeclared"), self._undeclared)
        self._report(sql("load/dangling"), self._dangling)
        self._conditions()

    def _duplicates(self, models: Mapping[int, str]) -> None:
        def note(record: int, part: str, case: str, model: int, first: int) -> None:
            who = shown(models[model])
            message = f"model {who} answers case {shown(case)} a second time; the first is in row {first}"
            self._faults.add(Place(record, part), "", message)

        self._report(sql("load/duplicates"), note)

    def _conflicts(self, field: str) -> None:
        name = {"expected_answers": "expected_answer"}.get(field, field)

        def note(record: int, part: str, case: str, first: int) -> None:
            column = self._columns.get(field, name)
            self._faults.add(Place(record, part), column, f"case {shown(case)} has another {column} in row {first}")

        self._report(sql("load/conflicts").format(column=field), note)

    def _undeclared(self, record: int, part: str, case: str) -> None:
        self._faults.add(Place(record, part), "case", f"there is no case {shown(case)}")

    def _dangling(self, record: int, part: str, case: str, target: str) -> None:
        message = "the case is its own original" if case == target else f"there is no case {shown(target)}"
        self._faults.add(Place(record, part), "relationships", f"{message} (case {shown(case)})")

    def _conditions(self) -> None:
        from leadline.evaluators.text.conditions import ConditionError, parse

        column = self._columns.get("condition", "condition")
        cursor = self._connection.execute(sql("load/conditions"))
        while lines := cursor.fetchmany(_FETCH):
            for record, part, case, condition in lines:
                try:
                    parse(condition)
                except ConditionError as error:
                    message = f"the condition of case {shown(case)} does not parse: {error}"
                    self._faults.add(Place(record, part), column, message)

    def _report(self, statement: str, note: Callable[..., None]) -> None:
        """Note the lines of a query as far as there is room, and count the others."""
        room = max(self._faults.room, 0)
        for line in self._connection.execute(f"{statement} LIMIT {room}").fetchall():
            note(*line)
        if self._faults.room <= 0:
            self._faults.count(max(0, self._value(f"SELECT count(*) FROM ({statement})") - room))

    def _value(self, query: str) -> int:
        line: tuple[Any, ...] | None = self._connection.execute(query).fetchone()
        return int(line[0]) if line else 0
