"""A normal form of queries: two that have the same one return the same, though two that do may have different ones.

Names are qualified and in one case, tables are numbered instead of named by aliases, operands that may change places
are in one order, constants are folded, names of the result's columns are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.text.markdown import fences

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST: Final = 20_000
"""Characters of a query that is read."""

MOST_NODES: Final = 5_000
"""Parts of a query that is brought into a normal form."""


class SqlFault(ValueError):
    """A text that is not one query in SQL."""


def query_of(text: str, dialect: str) -> exp.Query:
    """Return the one query that a text is, alone or in a fence of Markdown.

    Args:
        text: An answer.
        dialect: The dialect, as sqlglot calls it; ``""`` for one that reads most of what dialects have in common.

    Raises:
        SqlFault: It is none, more than one, or changes something.
    """
    from sqlglot import exp

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
    import sqlglot
    from sqlglot.errors import SqlglotError

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
    from sqlglot import exp
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.simplify import simplify

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
    from sqlglot import exp

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
    from sqlglot import exp

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
