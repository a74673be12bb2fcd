"""SQL over all runs together: what it shows, and that it can only read."""

from __future__ import annotations

import contextlib
import resource
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.ground import UsageError
from leadline.tasks.runs import query
from leadline.tasks.runs.query import RUN_TABLES, archive
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run

FIRST, SECOND = "20260101-100000-aaaaaa", "20260102-100000-bbbbbb"
ENDLESS = 2**60
VIEWS = {"runs", "models", "cases", "rows", "relationships", "turns", *RUN_TABLES}


def fill(folder: Path) -> Store:
    store = Store.open(folder)
    make_run(store, FIRST)
    make_run(store, SECOND, values=(1.0, 0.9, 0.7))
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store that no test changes."""
    return fill(tmp_path_factory.mktemp("store"))


@pytest.fixture
def own_store(tmp_path: Path) -> Store:
    return fill(tmp_path / "store")


def ask(store: Store, statement: str, **options: Any) -> list[tuple[Any, ...]]:
    with archive(store, statement=statement, **options) as opened, opened.query(statement) as result:
        return result.fetchall()


def test_scores_of_all_runs_stand_together_under_their_names(store: Store) -> None:
    found = ask(store, "SELECT run, evaluator, metric, case_key, model_key, status, reason, value FROM scores")
    assert sorted(found, key=str)[:3] == [
        (FIRST, "bleu", "bleu_1", "c1", "alpha", "scored", None, 1.0),
        (FIRST, "bleu", "bleu_1", "c1", "beta", "scored", None, 0.1),
        (FIRST, "bleu", "bleu_1", "c2", "alpha", "unscored", "timeout", None),
    ]
    assert len(found) == 6


def test_every_view_has_the_run_as_its_first_column_and_can_be_listed(store: Store) -> None:
    with archive(store) as opened:
        with opened.query("SHOW TABLES") as result:
            assert {name for (name,) in result.fetchall()} == VIEWS
        for view in VIEWS:
            with opened.query(f"FROM {view}") as result:
                assert (result.description or [])[0][0] == "run", view
                assert {line[0] for line in result.fetchall()} <= {FIRST, SECOND}


def test_texts_of_the_dataset_can_be_joined_with_scores(store: Store) -> None:
    found = ask(
        store,
        f"SELECT actual_answer FROM scores JOIN rows USING (run, case_key, model_key) "
        f"WHERE value < 0.5 AND run = '{FIRST}'",
    )
    assert found == [("\x1b[31mwrong\u202e",)]


def test_perturbed_cases_name_their_original(store: Store) -> None:
    found = ask(store, "SELECT DISTINCT case_key, original_case_key, perturbation FROM relationships")
    assert found == [("c2", "c1", "typo")]


def test_records_of_runs_are_columns(store: Store) -> None:
    found = ask(store, "SELECT run, status, started, high, scored, record->>'name' FROM runs ORDER BY run LIMIT 1")
    assert [str(value) for value in found[0]] == [FIRST, "completed", "2026-01-01 08:00:00", "1", "2", "nightly"]


def test_a_store_without_runs_shows_empty_views(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for view in VIEWS:
        assert ask(store, f"FROM {view}") == []


def test_chosen_runs_are_shown_alone(store: Store) -> None:
    assert {run for (run,) in ask(store, "SELECT run FROM scores", runs=[store.run(SECOND)])} == {SECOND}


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("SELECT value FROM scores", 6),
        ('SELECT value FROM memory."Scores"', 6),
        ("WITH scores AS (FROM scores) FROM scores", 6),
        ("PIVOT (SELECT run, model_key, value FROM SCORES) ON model_key USING sum(value)", 2),
        ("FROM query_table('sco' || 'res')", 6),
        ("FROM query('FROM sco' || 'res')", 6),
        ("FROM stored.scores", 6),
        ("FROM stored.digests", 6),
        ("SELECT (SELECT max(value) FROM problems JOIN aggregates USING (run)) FROM runs", 2),
        ("FROM runs WHERE run IN (FROM insights SELECT run)", 2),
    ],
)
@pytest.mark.parametrize("large", [0, ENDLESS])
def test_what_a_query_names_is_there(
    store: Store, monkeypatch: pytest.MonkeyPatch, statement: str, count: int, large: int
) -> None:
    monkeypatch.setattr(query, "LARGE", large)
    monkeypatch.setattr(query, "COPIED_TOGETHER", 1)
    assert len(ask(store, statement)) == count


@pytest.mark.parametrize(
    ("statement", "opened"),
    [("SELECT run, started FROM runs", 0), ("SHOW TABLES", 0), ("FROM rows", 0), ("SELECT run FROM metrics", 1)],
)
def test_a_query_opens_no_database_that_it_does_not_need(own_store: Store, statement: str, opened: int) -> None:
    own_store.run(FIRST).database.write_bytes(b"this is no database")
    with archive(own_store, statement=statement) as found:
        assert len(found.skipped) == opened


def test_a_query_of_runs_reads_no_dataset(own_store: Store) -> None:
    shutil.rmtree(own_store.root / "datasets")
    for statement, missing in (("FROM runs", 0), ("FROM evaluators", 0), ("FROM models", 2)):
        with archive(own_store, statement=statement) as found:
            assert len(found.skipped) == missing, statement


def test_a_run_that_is_being_written_or_broken_is_named_and_the_others_are_shown(own_store: Store) -> None:
    own_store.run(FIRST).database.write_bytes(b"this is no database")
    with archive(own_store) as opened, opened.query("SELECT DISTINCT run FROM scores") as result:
        assert result.fetchall() == [(SECOND,)]
        assert len(opened.skipped) == 1
        assert FIRST in opened.skipped[0]


def test_a_run_whose_dataset_was_removed_keeps_what_its_database_holds(own_store: Store) -> None:
    make_run(own_store, "20260103-100000-cccccc", record={"dataset": "0" * 32})
    with archive(own_store) as opened, opened.query("SELECT DISTINCT run FROM problems ORDER BY run") as result:
        assert len(result.fetchall()) == 3
        assert "no longer in the store" in opened.skipped[0]


def test_a_run_of_another_version_is_left_out_and_named(own_store: Store) -> None:
    own_store.run(FIRST).update({"schema": 999})
    with archive(own_store) as opened, opened.query("SELECT run FROM insights") as result:
        assert result.fetchall() == [(SECOND,)]
        assert f"Run {FIRST} was made by another version" in opened.skipped[0]


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO '{store}/x.csv'",
        "COPY (PIVOT scores ON model_key USING avg(value)) TO '{store}/x.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{store}/x.csv'",
        "ATTACH '{store}/x.duckdb'",
        "CREATE TABLE t (i INT)",
        "DELETE FROM run_0.scores",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "INSTALL httpfs",
        "LOAD httpfs",
        "EXPORT DATABASE '{store}/x'",
        "CALL pragma_version()",
        "DETACH run_0",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP VIEW scores",
        "",
        ";",
        "-- nothing",
    ],
)
def test_what_is_not_one_query_is_refused(store: Store, statement: str) -> None:
    with pytest.raises(UsageError):
        ask(store, statement.format(store=store.root))
    assert not list(store.root.glob("x*"))


@pytest.mark.parametrize(
    "source",
    [
        "read_text('/etc/passwd')",
        "read_csv('/etc/passwd')",
        "'/etc/passwd'",
        "glob('/etc/*')",
        "sniff_csv('/etc/passwd')",
        "read_text('{store}/runs/" + FIRST + "/run.json')",
        "read_parquet('https://example.com/x.parquet')",
        "query('FROM read_text(''/etc/passwd'')')",
        "duckdb_secrets()",
        "secret",
    ],
)
def test_nothing_else_can_be_read(store: Store, source: str) -> None:
    secret = [("hidden",)]
    assert secret
    with pytest.raises(UsageError):
        ask(store, f"FROM {source}".format(store=store.root))


def test_what_the_connection_may_read_it_may_not_write(store: Store) -> None:
    file = next((store.root / "datasets").glob("*/rows.parquet"))
    before = file.read_bytes()
    with archive(store) as opened, pytest.raises(duckdb.Error):
        opened.connection.execute(f"COPY (SELECT 1) TO '{file}' (FORMAT parquet)")
    assert file.read_bytes() == before


def test_pivot_and_explain_are_queries(store: Store) -> None:
    assert ask(store, "PIVOT scores ON model_key USING avg(value) GROUP BY run ORDER BY run") == [
        (FIRST, 1.0, 0.1),
        (SECOND, 0.85, 0.9),
    ]
    assert ask(store, "EXPLAIN ANALYZE SELECT count(*) FROM scores")


@pytest.mark.parametrize("statement", ["SELEC 1", "FROM nowhere", "SELECT nothing FROM scores", "SELECT error('x')"])
def test_a_wrong_query_is_a_usage_error_of_one_line(store: Store, statement: str) -> None:
    with pytest.raises(UsageError) as caught:
        ask(store, statement)
    assert "\n" not in str(caught.value)


def test_an_error_that_shows_while_rows_are_fetched_is_one_too(store: Store) -> None:
    late = "SELECT CASE WHEN range > 50_000 THEN error('late') END FROM range(100_000)"
    with pytest.raises(UsageError, match="late"):
        ask(store, late)


def test_arrow_batches_hold_the_same_rows(store: Store) -> None:
    with archive(store) as opened, opened.arrow("SELECT run, value FROM scores ORDER BY ALL", 2) as reader:
        assert reader.read_all().num_rows == 6


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=60))
def test_no_text_gets_anything_but_rows_or_a_usage_error(store: Store, text: str) -> None:
    with contextlib.suppress(UsageError):
        ask(store, text.encode("utf-8", "replace").decode())


def test_more_large_runs_than_files_may_be_open_is_said(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (50, 101))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: None)
    monkeypatch.setattr(query, "LARGE", ENDLESS)
    assert len(ask(store, "FROM scores")) == 6
    monkeypatch.setattr(query, "LARGE", 0)
    assert len(ask(store, "FROM runs")) == 2
    with pytest.raises(UsageError, match="--last"):
        ask(store, "FROM scores")


def test_the_limit_of_open_files_is_raised_as_far_as_needed(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (50, 5000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    monkeypatch.setattr(query, "LARGE", 0)
    assert len(ask(store, "FROM scores")) == 6
    assert raised == [(2 + query.SPARE_FILES, 5000)]


@pytest.mark.slow
def test_hundreds_of_runs_are_queried_in_seconds(own_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "LARGE", ENDLESS)
    for number in range(250):
        shutil.copytree(own_store.run(FIRST).path, own_store.run(f"20250101-{number:06d}-cccccc").path)
    assert ask(own_store, "SELECT count(*), count(DISTINCT run) FROM scores") == [(252 * 3, 252)]
