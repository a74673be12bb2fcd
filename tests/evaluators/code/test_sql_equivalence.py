"""Queries are equivalent by what they return, or by their normal forms; hostile ones reach nothing."""

import sqlite3
import time
from threading import Timer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.code._sql_queries import normal_form, query_of
from leadline.evaluators.code.sql_equivalence import QueryRunner, SqlEquivalence
from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import Row, Unscored

DDL = "CREATE TABLE t (a INT, b TEXT); CREATE TABLE u (a INT, c REAL)"
ROWS = {"t": [[1, "x"], [2, "y"], [2, "z"], [None, "y"]], "u": [{"a": 1, "c": 0.5}, {"c": 1.5, "a": 2}]}
TABLES = {"sql_schema": DDL, "sql_rows": ROWS}
NAMES = {"t": {"a": "INT", "b": "TEXT"}, "u": {"a": "INT", "c": "REAL"}}
CONDITIONS = st.recursive(
    st.sampled_from(["a > 1", "1 < a", "b = 'y'", "a IN (1, 2)", "a IN (2, 1)", "NOT a = 2", "a <> 2", "b IS NULL"]),
    lambda one: st.tuples(one, st.sampled_from(["AND", "OR"]), one).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=4,
)
QUERIES = st.tuples(st.sampled_from(["a", "b", "a, b", "count(*)", "DISTINCT a"]), CONDITIONS).map(
    lambda parts: f"SELECT {parts[0]} FROM t WHERE {parts[1]}"
)


@pytest.fixture(scope="module")
def runner():
    with QueryRunner() as one:
        yield one


@pytest.fixture(scope="module")
def sqlite():
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(DDL)
    connection.executemany("INSERT INTO t VALUES (?, ?)", ROWS["t"])
    yield connection
    connection.close()


def score(answer, *expected, runner=None, metadata=TABLES, **params):
    evaluator = SqlEquivalence(SqlEquivalence.parameters(**params))
    row = Row("c", "m", actual_answer=answer, expected_answers=expected, metadata=metadata)
    return evaluator._compared(row, runner) if runner else evaluator.score([row], EvalContext())[0]


def value(*args, **params):
    return score(*args, **params).values["sql_equivalence"]


@settings(max_examples=40)
@given(QUERIES, QUERIES)
def test_results_are_equal_as_sqlite_has_them(runner, sqlite, answer, expected):
    same = sorted(map(repr, sqlite.execute(answer).fetchall())) == sorted(
        map(repr, sqlite.execute(expected).fetchall())
    )
    columns = [len(sqlite.execute(query).description) for query in (answer, expected)]
    assert value(answer, expected, runner=runner) == (same and columns[0] == columns[1])


@settings(max_examples=60)
@given(QUERIES, QUERIES)
def test_queries_of_one_normal_form_return_the_same(sqlite, one, other):
    if normal_form(query_of(one, ""), "", NAMES) == normal_form(query_of(other, ""), "", NAMES):
        results = [sorted(map(repr, sqlite.execute(query).fetchall())) for query in (one, other)]
        assert results[0] == results[1]


@pytest.mark.parametrize(
    ("answer", "expected", "equal"),
    [
        ("select a from t where b='x'", "SELECT t.a FROM t JOIN u USING (a) WHERE c < 1", 1.0),
        ("select a from t order by a desc", "select a from t order by a", 0.0),
        ("select a from t order by a desc", "select a from t", 1.0),
        ("select b from t order by b > '', a desc, b", "select b from t order by b > ''", 1.0),
        ("select b from t order by b > '', a desc, b", "select b from t order by b > '', a", 0.0),
        ("select a, b from t order by 1 > 0, b desc", "select a, b from t order by length(b)", 1.0),
        (
            "select a from t union all select a from t order by a",
            "select a from t union all select a from t order by 1",
            1.0,
        ),
        ("select distinct a from t", "select a from t", 0.0),
        ("select b, a from t", "select a, b from t", 0.0),
        ("select sum(c) from u", "select 2.0", 1.0),
        ("select nope from t", "select a from t", 0.0),
        ("```sql\nSELECT a FROM t;\n```", "select a from t", 1.0),
        ("DROP TABLE t", "select a from t", 0.0),
        ("select 1; select 2", "select a from t", 0.0),
        ("I cannot say", "select a from t", 0.0),
    ],
)
def test_queries_are_compared_by_what_they_return(runner, answer, expected, equal):
    assert value(answer, expected, runner=runner) == equal


@pytest.mark.parametrize(
    ("answer", "expected", "equal"),
    [
        ("select a, b from t where a>1 and b='2'", "SELECT x.a, x.b AS z FROM t AS x WHERE '2' = b AND 1 < a;", 1.0),
        ("select t.a from t join u on t.a=u.a", "select y.a from t y inner join u z on z.a = y.a", 1.0),
        ("select * from t", "select a, b from t", 1.0),
        ("select a from t order by a", "select a from t order by a asc", 1.0),
        ("select a from t", "select b from t", 0.0),
        ("select a - 1 from t", "select 1 - a from t", 0.0),
        ("select a from t union select a from u", "select a from t union all select a from u", 0.0),
        ("select a from t limit 1", "select a from t limit 2", 0.0),
    ],
)
def test_without_rows_normal_forms_are_compared(answer, expected, equal):
    assert value(answer, expected, metadata={"sql_schema": NAMES}) == equal


def test_a_dialect_is_translated_and_one_of_several_expected_queries_suffices(runner):
    assert value("SELECT TOP 1 a FROM t ORDER BY b", "select 9", "select 1", runner=runner, dialect="tsql") == 1.0


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "select content from read_text('/etc/hostname')",
        "select * from '/etc/passwd'",
        "select * from duckdb_secrets(), read_blob('/proc/self/environ')",
        "select getenv('HOME')",
        "select * from rows",
        "select count(*) from range(10000000000) r, range(1000) y",
        "select list(range) from range(1000000000)",
        "with recursive r as (select 1 as n union all select n + 1 from r) select * from r",
    ],
)
def test_hostile_queries_reach_nothing_and_end(runner, query):
    started = time.monotonic()
    assert value(query, "select a from t", runner=runner, timeout_s=0.5, memory_mb=64) == 0.0
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    "tables",
    [
        {"sql_schema": "ATTACH 'x.db'"},
        {"sql_schema": "COPY t TO 'x'"},
        {"sql_schema": DDL, "sql_rows": {"t": [[1], [1, "x"]]}},
        {"sql_schema": DDL, "sql_rows": {"nope": [[1]]}},
        {"sql_schema": DDL, "sql_rows": "[1]"},
    ],
)
def test_tables_that_cannot_be_made_leave_the_row_unscored(runner, tables):
    assert isinstance(value("select a from t", "select a from t", runner=runner, metadata=tables), Unscored)


def test_an_expected_query_that_fails_leaves_the_row_unscored(runner):
    assert isinstance(value("select a from t", "select nope from t", runner=runner), Unscored)
    assert isinstance(value("select a from t", "nothing", runner=runner), Unscored)


def test_a_process_that_was_killed_is_started_anew(runner):
    assert value("select a from t", "select a from t", runner=runner) == 1.0
    runner._process.kill()
    runner._process.wait()
    assert value("select a from t", "select a from t", runner=runner) == 1.0


def test_a_process_that_ends_counts_against_the_answer_only_if_its_query_did_it(runner):
    endless = "select count(*) from range(10000000000) r, range(1000) y"
    for answer, expected, scored in (("select a from t", endless, False), (endless, "select a from t", True)):
        assert value("select a from t", "select a from t", runner=runner) == 1.0
        Timer(1.0, runner._process.kill).start()
        found = value(answer, expected, runner=runner, timeout_s=30)
        assert found == 0.0 if scored else isinstance(found, Unscored)


def test_a_result_that_memory_does_not_hold_is_no_answer(runner):
    query = "select repeat('x', 1000000) from range(100000)"
    assert value(query, "select a from t", runner=runner, memory_mb=64, timeout_s=30) == 0.0


def test_results_that_are_no_number_are_equal(runner):
    query = "select 'nan'::double from t"
    assert value(query, query, runner=runner) == 1.0
