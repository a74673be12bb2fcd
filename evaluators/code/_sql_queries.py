"""Queries in SQL, read by sqlglot: the one query that a text is, its normal form, and the tables that it is run on.

Two queries of one normal form return the same, though two that do may have different ones. Names are qualified and in
one case, tables are numbered instead of named by aliases, operands that may change places are in one order, constants
are folded, names of the result's columns are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.simplify import simplify

from leadline.evaluators.text.markdown import fences

SCHEMA: Final = "sql_schema"
"""Key of a row's metadata that holds its tables: DDL, or an object of columns and types by table."""

ROWS: Final = "sql_rows"
"""Key of a row's metadata that holds their rows: an object of lists by table."""

LONGEST: Final = 20_000
"""Characters of a query that is read."""

MOST_NODES: Final = 5_000
"""Parts of a query that is brought into a normal form."""


class SqlFault(ValueError):
    """A text that is not one query in SQL, or tables that are none."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a row: statements that make them, further rows, and their columns as far as known."""

    setup: tuple[str, ...]
    rows: Mapping[str, list[list[Any]]]
    columns: Mapping[str, Any]
    filled: bool


def query_of(text: str, dialect: str) -> exp.Query:
    """Return the one query that a text is, alone or in a fence of Markdown.

    Args:
        text: An answer.
        dialect: The dialect, as sqlglot calls it; ``""`` for one that reads most of what dialects have in common.

    Raises:
        SqlFault: It is none, more than one, or changes something.
    """
    block = next(iter(fences(text)), None)
    statements = statements_of(block.content if block else text, dialect)
    if len(statements) != 1:
        raise SqlFault(f"there are {len(statements)} statements instead of one query")
    [query] = statements
    if not isinstance(query, exp.Query):
        raise SqlFault(f"it is no query, but {query.key.upper()}")
    changing = query.find(exp.Into, exp.DML, exp.DDL, exp.Command)
    if changing is not None and not isinstance(changing, exp.Query):
        raise SqlFault(f"it changes something: {changing.key.upper()}")
    return query


def statements_of(text: str, dialect: str) -> list[exp.Expression]:
    """Return the statements of a text.

    Args:
        text: SQL.
        dialect: The dialect, as sqlglot calls it.

    Raises:
        SqlFault: It cannot be parsed.
    """
    if len(text) > LONGEST:
        raise SqlFault(f"it is longer than {LONGEST:,} characters")
    try:
        found = sqlglot.parse(text, read=dialect or None)
    except SqlglotError as error:
        raise SqlFault(f"it does not parse: {_first_line(error)}") from None
    except RecursionError:
        raise SqlFault("it is nested too deep") from None
    return [statement for statement in found if statement is not None]  # type: ignore[misc]


def normal_form(query: exp.Query, dialect: str, schema: Mapping[str, Any]) -> str:
    """Return a query in its normal form.

    Args:
        schema: Columns with their types by table, as far as they are known.

    Raises:
        SqlFault: It is too large.
    """
    if sum(1 for _ in query.walk()) > MOST_NODES:
        raise SqlFault(f"it has more than {MOST_NODES:,} parts")
    try:
        try:
            tree: Any = qualify(
                query.copy(),
                dialect=dialect or None,
                schema=dict(schema) or None,
                validate_qualify_columns=False,
                quote_identifiers=False,
                identify=False,
            )
        except SqlglotError:  # it names what is not there, which other queries may do too
            tree = query.copy()
        tree = simplify(tree)
        _number_tables(tree)
        for projection in tree.selects if isinstance(tree, exp.Select) else ():
            if isinstance(projection, exp.Alias):
                projection.replace(projection.this)
        for node in list(tree.walk(bfs=False))[::-1]:
            _in_order(node)
        text: str = tree.sql(comments=False, normalize=True)
        return text
    except RecursionError:
        raise SqlFault("it is nested too deep") from None


def _number_tables(tree: Any) -> None:
    """Name tables by their order, so that aliases make no difference."""
    numbers: dict[str, str] = {}
    for source in tree.find_all(exp.Table, exp.Subquery):
        if source.alias and source.alias not in numbers:
            numbers[source.alias] = f"t{len(numbers) + 1}"
    for source in tree.find_all(exp.Table, exp.Subquery):
        if source.alias:
            source.set("alias", exp.TableAlias(this=exp.to_identifier(numbers[source.alias])))
    for column in tree.find_all(exp.Column):
        if column.table in numbers:
            column.set("table", exp.to_identifier(numbers[column.table]))


def _in_order(node: Any) -> None:
    """Bring operands that may change places into one order, and turn ``>`` into ``<``."""
    if isinstance(node, exp.GT | exp.GTE):
        turned = exp.LT if isinstance(node, exp.GT) else exp.LTE
        node.replace(turned(this=node.expression, expression=node.this))
    elif isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ):
        low, high = sorted((node.this, node.expression), key=_key)
        node.set("this", low)
        node.set("expression", high)
    elif isinstance(node, exp.And | exp.Or | exp.Add | exp.Mul) and type(node.parent) is not type(node):
        kind = type(node)
        operands = sorted(node.flatten(), key=_key)
        joined = operands[0].copy()
        for operand in operands[1:]:
            joined = kind(this=joined, expression=operand.copy())
        node.set("this", joined.this)
        node.set("expression", joined.expression)
    elif isinstance(node, exp.In) and node.expressions:
        node.set("expressions", sorted(node.expressions, key=_key))
    elif isinstance(node, exp.Join) and node.args.get("kind") == "INNER":
        node.set("kind", None)
    elif isinstance(node, exp.Ordered) and node.args.get("desc") is False:
        node.set("desc", None)


def _key(node: Any) -> str:
    text: str = node.sql(comments=False)
    return text


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].replace("\x1b[4m", "").replace("\x1b[0m", "")[:200]


def pair_of(expected: exp.Query, answer: exp.Query, tables: Tables) -> dict[str, Any]:
    """Return what the process that runs queries is asked of a pair, for DuckDB."""
    with_keys, keys = _with_keys(expected)
    return {
        "setup": tables.setup,
        "tables": tables.rows,
        "expected": expected.sql(dialect="duckdb"),
        "with_keys": with_keys.sql(dialect="duckdb") if keys else "",
        "keys": keys,
        "actual": answer.sql(dialect="duckdb"),
        "ordered": expected.args.get("order") is not None,
    }


def _with_keys(query: exp.Query) -> tuple[exp.Query, int]:
    """Return a query that also returns what it sorts by, and how many columns that is: so rows which tie are known.

    A query whose keys cannot be told beside its columns (a union) is returned as it is, and ties stay in order.
    """
    order = query.args.get("order")
    if order is None or not isinstance(query, exp.Select):
        return query, 0
    columns, keys = query.expressions, []
    for place in (one.this for one in order.expressions):
        number = int(place.name) if isinstance(place, exp.Literal) and place.is_int else 0
        if not number:
            keys.append(place.copy())
        elif number <= len(columns) and not query.is_star:
            keys.append(columns[number - 1].unalias().copy())
        else:
            return query, 0
    return query.copy().select(*(exp.alias_(key, f"leadline_key_{at}") for at, key in enumerate(keys))), len(keys)


def tables_of(schema: Any, rows: Any, dialect: str) -> Tables:
    """Return the tables that a schema and rows make.

    Args:
        schema: DDL, or an object of columns and types by table, which may be JSON.
        rows: An object of lists by table, which may be JSON.
        dialect: The dialect of the DDL, as sqlglot calls it.

    Raises:
        SqlFault: They make none.
    """
    schema, rows = (_parsed(given) for given in (schema, rows))
    if not isinstance(rows, Mapping):
        raise SqlFault(f"{ROWS} is no object of rows by table")
    if isinstance(schema, Mapping):
        columns = {str(table): dict(its) for table, its in schema.items() if isinstance(its, Mapping)}
        statements = statements_of("; ".join(_create(table, its) for table, its in columns.items()), "duckdb")
    else:
        statements = statements_of(str(schema or ""), dialect)
        columns = {}
    for statement in statements:
        good = isinstance(statement, exp.Insert) or (
            isinstance(statement, exp.Create) and statement.kind in ("TABLE", "VIEW")
        )
        if not good:
            raise SqlFault(f"{SCHEMA} may create tables and views and insert rows, and has {statement.key.upper()}")
    for create in (one for one in statements if isinstance(one, exp.Create) and isinstance(one.this, exp.Schema)):
        names = {column.name: str(column.kind or "") for column in create.this.expressions if column.name}
        columns.setdefault(create.this.this.name, names)
    lists = {str(table): _lists(some, columns.get(str(table), {})) for table, some in rows.items() if some}
    filled = bool(statements) and (bool(lists) or any(isinstance(one, exp.Insert) for one in statements))
    return Tables(tuple(one.sql(dialect="duckdb") for one in statements), lists, columns, filled)


def _parsed(given: Any) -> Any:
    """Return what a text of JSON holds; other texts as they are."""
    if isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
        try:
            return orjson.loads(given)
        except orjson.JSONDecodeError as error:
            raise SqlFault(f"the tables are no JSON: {error.msg}") from None
    return given


def _create(table: str, columns: Mapping[str, Any]) -> str:
    def quoted(name: Any) -> str:
        return '"' + str(name).replace('"', '""') + '"'

    return f"CREATE TABLE {quoted(table)} ({', '.join(f'{quoted(name)} {kind}' for name, kind in columns.items())})"


def _lists(rows: Any, columns: Mapping[str, str]) -> list[list[Any]]:
    """Return rows as lists of the same length, those that are objects in the order of the columns."""
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise SqlFault(f"{ROWS} has a table whose rows are no list")
    names = list(columns)
    out = [[row.get(name) for name in names] if isinstance(row, Mapping) else list(row) for row in rows]
    if len({len(row) for row in out}) > 1 or not out[0]:
        raise SqlFault(f"{ROWS} has rows of different lengths")
    return out
