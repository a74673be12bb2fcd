"""Files of rows are taken from an earlier run only where that run's are whole and made of the same."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from leadline.tasks.db.connection import open_run
from leadline.tasks.publish import publish, reuse
from leadline.tasks.publish.exports import eval_results
from leadline.tasks.publish.report import page_data as page_data_module
from leadline.tasks.publish.report.page_data import FILE, PageData
from leadline.tasks.publish.reuse import INDEX
from leadline.tasks.store.store import Run, Store
from tests.tasks.publish.sample import make_sample

EVALUATORS = {"groundedness", "bleu", "pii_leakage", "text_matching", "perplexity", "valor.judged"}
JSON = "global_llm_eval_results/application_json/explanation.json"
CSV = "global_llm_eval_results/text_csv/explanation.csv"
PARQUET = "global_llm_eval_results/application_vnd_apache_parquet/explanation.parquet"


@pytest.fixture
def sample(tmp_path: Path) -> tuple[Store, Run]:
    """A store with a run of ten cases whose results are published."""
    store, run = make_sample(tmp_path, cases=10)
    published(store, run)
    return store, run


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The evaluators whose rows were written, and not copied, since the set was last emptied."""
    names: set[str] = set()
    make_rows = eval_results._make_rows

    def spy(connection: Any, evaluator: Any, columns: Any) -> None:
        names.add(evaluator.key)
        make_rows(connection, evaluator, columns)

    monkeypatch.setattr(eval_results, "_make_rows", spy)
    return names


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each time that the page's cases were packed, and not taken from an earlier run."""
    lines: list[str] = []
    page_data = page_data_module.page_data

    def spy(connection: Any, facts: Any) -> PageData:
        lines.append(facts.run_id)
        return page_data(connection, facts)

    monkeypatch.setattr(page_data_module, "page_data", spy)
    return lines


def published(store: Store, run: Run, **record: Any) -> None:
    with open_run(store, run) as connection:
        publish(connection, run, run.read() | record)


def change(run: Run, statement: str) -> None:
    with duckdb.connect(str(run.database)) as connection:
        connection.execute(statement)


def of(run: Run, evaluator: str, name: str) -> Path:
    (folder,) = run.results.glob(f"{evaluator}_*-*")
    return folder / name


def packed_in(run: Run) -> str:
    """Return the cases in the page of a run, as they are packed."""
    page = (run.results / "report.html").read_text("utf-8")
    (found,) = re.findall(r'<script type="application/gzip" id="data">([^<]*)</script>', page)
    return str(found)


def contents(run: Run) -> dict[str, bytes]:
    return {str(path.relative_to(run.results)): path.read_bytes() for path in run.results.rglob("*") if path.is_file()}


def again(store: Store, run: Run) -> Run:
    """Return a later run of the same store that found the same."""
    later = store.run("20990101-000000-abcdef")
    later.path.mkdir()
    for name in ("run.json", "run.duckdb"):
        shutil.copy(run.path / name, later.path / name)
    return later


def test_a_run_that_found_the_same_copies_the_rows_of_the_one_before(
    sample: tuple[Store, Run], written: set[str]
) -> None:
    store, run = sample
    later = again(store, run)
    published(store, later)
    assert written == set()
    for name in (CSV, PARQUET, JSON):
        assert of(later, "bleu", name).read_bytes() == of(run, "bleu", name).read_bytes()
    for name in ("scores.parquet", "scores.csv"):
        assert (later.results / name).read_bytes() == (run.results / name).read_bytes()


def test_a_copied_tree_is_the_one_that_would_have_been_written(sample: tuple[Store, Run], written: set[str]) -> None:
    store, run = sample
    published(store, run)
    assert written == set()
    copied = contents(run)
    (run.path / INDEX).unlink()
    published(store, run)
    assert written == EVALUATORS
    assert contents(run) == copied


def test_the_pages_cases_are_packed_once(sample: tuple[Store, Run], packed: list[str]) -> None:
    store, run = sample
    later = again(store, run)
    published(store, later)
    assert packed == []
    assert packed_in(later) == packed_in(run) != ""
    shutil.rmtree(run.path)
    published(store, later)
    assert packed == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE scores SET value = value / 2 WHERE value > 0 AND metric_id = (SELECT min(metric_id) FROM scores)",
        "UPDATE evidence SET error = error || '!' WHERE error LIKE 'The judge replied%'",
        "UPDATE metrics SET threshold = 0.123 WHERE metric = 'bleu_4'",
        "UPDATE problems SET description = description || '!'",
        "UPDATE flips SET direction = 'failed_to_passed' WHERE direction = 'passed_to_failed'",
        "UPDATE evaluators SET name = 'Renamed' WHERE evaluator = 'bleu'",
    ],
    ids=["scores", "evidence", "metrics", "problems", "flips", "evaluators"],
)
def test_the_pages_cases_are_packed_anew_where_something_in_them_changed(
    sample: tuple[Store, Run], packed: list[str], statement: str
) -> None:
    store, run = sample
    before = packed_in(run)
    change(run, statement)
    published(store, run)
    assert packed == [run.id]
    assert packed_in(run) != before


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: b"{}", lambda content: None])
def test_packed_cases_that_are_not_whole_are_packed_anew(
    sample: tuple[Store, Run], packed: list[str], damage: Callable[[bytes], bytes | None]
) -> None:
    store, run = sample
    before = packed_in(run)
    content = damage((run.path / FILE).read_bytes())
    (run.path / FILE).unlink() if content is None else (run.path / FILE).write_bytes(content)
    published(store, run)
    assert packed == [run.id]
    assert packed_in(run) == before


def test_editing_one_runs_files_changes_no_others(sample: tuple[Store, Run]) -> None:
    store, run = sample
    later = again(store, run)
    published(store, later)
    before = of(run, "bleu", CSV).read_bytes()
    of(later, "bleu", CSV).write_bytes(b"edited")
    assert of(run, "bleu", CSV).read_bytes() == before


@pytest.mark.parametrize("name", [CSV, PARQUET, JSON])
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"a", b"b", 1)),
        lambda path: path.unlink(),
    ],
    ids=["cut", "altered", "lost"],
)
def test_what_is_not_whole_is_written_anew(
    sample: tuple[Store, Run], written: set[str], damage: Callable[[Path], None], name: str
) -> None:
    store, run = sample
    whole = of(run, "bleu", name).read_bytes()
    damage(of(run, "bleu", name))
    later = again(store, run)
    published(store, later)
    assert written == {"bleu"}
    assert of(later, "bleu", name).read_bytes() == whole


def test_damaged_scores_are_written_anew(sample: tuple[Store, Run]) -> None:
    store, run = sample
    whole = (run.results / "scores.csv").read_bytes()
    (run.results / "scores.csv").write_bytes(whole[:100])
    published(store, run)
    assert (run.results / "scores.csv").read_bytes() == whole


def test_another_threshold_stands_in_the_files(sample: tuple[Store, Run], written: set[str]) -> None:
    store, run = sample
    change(run, "UPDATE metrics SET threshold = 0.123 WHERE metric = 'bleu_4'")
    published(store, run)
    assert written == {"bleu"}
    metas = json.loads(of(run, "bleu", JSON).read_text("utf-8"))["evaluator"]["metrics_meta"]
    assert {meta["key"]: meta["threshold"] for meta in metas}["bleu_4"] == 0.123


@pytest.mark.parametrize(
    ("statement", "evaluators"),
    [
        (
            "UPDATE scores SET value = value + 1e-15 WHERE value BETWEEN 0.01 AND 0.9 "
            "AND metric_id = (SELECT metric_id FROM metrics WHERE metric = 'bleu_1')",
            {"bleu"},
        ),
        ("UPDATE scores SET reason = 'timeout' WHERE reason = 'judge_unparseable'", {"valor.judged"}),
        ("UPDATE evidence SET error = error || '!' WHERE error LIKE 'The judge replied%'", {"valor.judged"}),
        ("UPDATE evaluators SET name = 'Renamed' WHERE evaluator = 'bleu'", {"bleu"}),
    ],
    ids=["value", "reason", "error", "name"],
)
def test_rows_are_written_anew_where_something_in_them_changed(
    sample: tuple[Store, Run], written: set[str], statement: str, evaluators: set[str]
) -> None:
    store, run = sample
    change(run, statement)
    published(store, run)
    assert written == evaluators


def test_rows_of_another_dataset_or_splitter_are_not_taken(sample: tuple[Store, Run], written: set[str]) -> None:
    store, run = sample
    published(store, run, dataset="0" * 32)
    assert written == EVALUATORS
    written.clear()
    published(store, run, dataset="0" * 32, splitter="rules:de")
    assert written == EVALUATORS


def test_runs_whose_dataset_is_not_known_take_nothing_from_each_other(
    sample: tuple[Store, Run], written: set[str]
) -> None:
    store, run = sample
    published(store, run, dataset=None)
    written.clear()
    published(store, again(store, run), dataset=None)
    assert written == EVALUATORS


@pytest.mark.parametrize("text", ["", "[]", "{", '{"key": {}}', '{"key": null}', '{"key": {"folder": 1, "files": 2}}'])
def test_an_index_that_cannot_be_read_is_no_index(sample: tuple[Store, Run], written: set[str], text: str) -> None:
    store, run = sample
    (run.path / INDEX).write_text(text)
    published(store, run)
    assert written == EVALUATORS


@pytest.mark.parametrize("module", ["exports/eval_results.py", "report/page_data.py", "facts.py"])
def test_rows_written_by_other_code_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    room = tmp_path / "publish"
    shutil.copytree(Path(reuse.__file__).parent, room)
    monkeypatch.setattr(reuse, "__file__", str(room / "reuse.py"))
    before = reuse._writer.__wrapped__()
    (room / module).write_text("# another version", encoding="utf-8")
    assert reuse._writer.__wrapped__() != before
