"""A run's database between its steps: opened once where it is kept, and complete as soon as it is released."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import duckdb
import pytest

from leadline.tasks.db import compact, connect, kept_open, literal, open_run, release, run_definitions, sql
from leadline.tasks.db import connection as opening
from leadline.tasks.store.store import Run, Store
from tests.tasks.compare.two_runs import completed
from tests.tasks.publish.sample import make_sample


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return completed(tmp_path, {"m": [0.2, 0.8]})


def count(store: Store, run: Run, *, read_only: bool = False) -> int:
    with open_run(store, run, read_only=read_only) as connection:
        return int(connection.execute("SELECT count(*) FROM problems").fetchall()[0][0])


def add(store: Store, run: Run) -> None:
    with open_run(store, run) as connection:
        connection.execute(
            "INSERT INTO problems SELECT 100, 'low', '', '', '', 'model', false, 0, NULL, NULL, NULL, '', '', '{}', []"
        )


def test_steps_see_what_earlier_ones_wrote_and_the_file_is_complete_afterwards(tmp_path: Path, run: Run) -> None:
    store = Store.open(tmp_path / "store")
    before = count(store, run)
    with kept_open(run):
        add(store, run)
        assert count(store, run, read_only=True) > before  # another configuration would be refused
        assert opening._kept[run.database] is not None
    assert not opening._kept
    assert not run.database.with_name("run.duckdb.wal").exists()
    assert count(store, run, read_only=True) > before


def test_a_released_database_can_be_attached_and_is_opened_again(tmp_path: Path, run: Run) -> None:
    store = Store.open(tmp_path / "store")
    attach = f"ATTACH {literal(run.database)} AS other (READ_ONLY)"
    with kept_open(run), connect() as other:
        count(store, run)
        with pytest.raises(duckdb.Error, match="already attached"):
            other.execute(attach)
        release(run)
        other.execute(attach)
        other.execute("DETACH other")
        assert count(store, run) >= 0


@pytest.mark.parametrize("more", [0, 1])
def test_steps_of_a_large_run_alone_take_no_memory_of_the_next_ones(tmp_path: Path, run: Run, more: int) -> None:
    store = Store.open(tmp_path / "store")
    run.update({"rows": opening.FEW_ROWS + more})
    with kept_open(run):
        with open_run(store, run) as connection:
            connection.execute("CREATE TEMP TABLE left_over (x INTEGER)")
        with open_run(store, run) as connection:
            ((left,),) = connection.execute(
                "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'left_over'"
            ).fetchall()
    assert left == 1 - more


def test_an_error_in_a_step_closes_it(tmp_path: Path, run: Run) -> None:
    store = Store.open(tmp_path / "store")
    with pytest.raises(duckdb.Error), kept_open(run), open_run(store, run) as connection:
        connection.execute("SELECT nothing")
    with connect() as other:
        other.execute(f"ATTACH {literal(run.database)} AS other (READ_ONLY)")


def fill(path: Path, *, dropped: bool) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(run_definitions())
        connection.execute("CREATE TABLE keys AS SELECT hash(i) AS key FROM range(1_000_000) AS t(i)")
        connection.execute("INSERT INTO scores SELECT i % 5, i, 0, 'scored', NULL, i / 7 FROM range(100_000) AS t(i)")
        if dropped:
            connection.execute("DROP TABLE keys")


def test_free_blocks_are_given_back_and_the_tables_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "run.duckdb"
    fill(path, dropped=True)
    before = path.stat().st_size
    query = "SELECT * FROM scores ORDER BY row_id"
    tables = "SELECT table_name, column_name, data_type FROM duckdb_columns() ORDER BY ALL"
    with duckdb.connect(str(path), read_only=True) as connection:
        expected = [connection.execute(statement).fetchall() for statement in (query, tables)]
    assert compact(path)
    assert path.stat().st_size < before / 3
    with duckdb.connect(str(path), read_only=True) as connection:
        assert [connection.execute(statement).fetchall() for statement in (query, tables)] == expected
    assert [file.name for file in tmp_path.iterdir()] == ["run.duckdb"]
    assert not compact(path), "nothing is free any more"


def test_a_database_in_use_as_a_whole_is_left_alone(tmp_path: Path) -> None:
    fill(tmp_path / "run.duckdb", dropped=False)
    assert not compact(tmp_path / "run.duckdb")


@pytest.mark.parametrize(
    ("container", "limit", "compared"), [("2097152000", "500.0 MiB", "500.0 MiB"), ("max", "1.5 GiB", "1.0 GiB")]
)
def test_a_runs_database_takes_a_quarter_of_a_small_container_and_no_more_of_a_large_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: str, limit: str, compared: str
) -> None:
    (tmp_path / "memory.max").write_text(f"{container}\n")
    monkeypatch.setattr(opening, "_OF_CONTAINER", (tmp_path / "memory.max", tmp_path / "missing"))
    monkeypatch.setattr(opening.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 6_000_000}.__getitem__)
    with connect(tmp_path / "run.duckdb") as connection:
        assert connection.execute("SELECT current_setting('memory_limit')").fetchall() == [(limit,)]
    with connect(spill=tmp_path / "spill") as connection:
        settings = connection.execute("SELECT current_setting('memory_limit'), current_setting('temp_directory')")
        assert settings.fetchall() == [(compared, str(tmp_path / "spill"))]


def test_a_small_runs_database_is_small(tmp_path: Path) -> None:
    sizes = []
    for rows in (200, 20_000):
        store, sample = make_sample(tmp_path / str(rows), cases=10)
        run = store.new_run()
        run.update({"dataset": sample.read()["dataset"], "rows": rows})
        with open_run(store, run, create=True) as connection:
            for table in ("scores", "aggregates", "problems", "slices", "slice_rows", "evidence"):
                connection.execute(f"ATTACH IF NOT EXISTS {literal(sample.database)} AS other (READ_ONLY)")
                connection.execute(f"INSERT INTO {table} FROM other.{table}")
        sizes.append(run.database.stat().st_size)
    assert sizes[0] < 400_000
    assert sizes[0] < sizes[1] / 2


ROOT = Path(__file__).parents[3]
OF_PREFECT = ROOT / "flows" / "prefect" / "prefect_schema.sql"
FILES = sorted({path for room in ("tasks", "flows", "plugins") for path in (ROOT / room).rglob("*.sql")} - {OF_PREFECT})


@cache
def named_in(path: Path) -> set[str]:
    """Return the names of statements in a module; ``*`` stands for what is filled in while it runs."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sql":
            name = node.args[0]
            for one in [name.body, name.orelse] if isinstance(name, ast.IfExp) else [name]:
                parts = one.values if isinstance(one, ast.JoinedStr) else [one]
                found.add("".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts))
    return found


@cache
def named() -> set[str]:
    rooms = ("tasks", "flows", "plugins", "leadline")
    return {name for room in rooms for path in (ROOT / room).rglob("*.py") for name in named_in(path)}


def test_every_name_has_its_statement() -> None:
    assert len(named()) > 60
    assert [sql(name) for name in named() if "*" not in name]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_statement_is_named(file: Path) -> None:
    patterns = [re.compile(re.escape(name).replace(r"\*", r"\w+")) for name in named()]
    statements = re.findall(r"^-- statement: (\w+)$", file.read_text("utf-8"), flags=re.MULTILINE)
    names = [f"{file.stem}/{statement}" for statement in statements] or [file.stem]
    assert [name for name in names if not any(pattern.fullmatch(name) for pattern in patterns)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_file_stands_beside_a_module_that_runs_it_and_has_a_name_of_its_own(file: Path) -> None:
    beside = {name.partition("/")[0] for path in file.parent.glob("*.py") for name in named_in(path)}
    assert file.stem in beside or file == ROOT / "tasks" / "db" / "dataset.sql"
    assert [path for path in FILES if path.stem == file.stem] == [file]


def test_a_statement_is_its_part_of_the_file_and_a_file_without_parts_is_whole() -> None:
    assert sql("ledger/spent").strip() == "SELECT calls, usd FROM budgets WHERE run = ?"
    assert sql("dataset").startswith("--")
