"""The published files: complete, readable by other programs, and the same numbers everywhere."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pytest

from leadline.evaluators.ground import StoreError
from leadline.tasks.db import open_run
from leadline.tasks.publish.exports.exporter import Published, publish
from leadline.tasks.store.store import Run, Store
from tests.tasks.publish.sample import make_sample


def published(store: Store, run: Run, output: Path | None = None) -> Published:
    with open_run(store, run) as connection:
        return publish(connection, run, run.read(), output=output)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return published(*make_sample(tmp_path_factory.mktemp("sample")))


def read(path: Path) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(path.read_text("utf-8"), parse_constant=refuse)


def test_scores_are_one_line_per_case_model_metric_and_trial(sample: Published) -> None:
    scores = duckdb.read_parquet(str(sample.folder / "scores.parquet"))
    columns = dict(zip(scores.columns, map(str, scores.types), strict=True))
    texts = dict.fromkeys(("case", "model", "evaluator", "metric", "status", "reason"), "VARCHAR")
    assert columns == texts | {"row_id": "UINTEGER", "trial": "UTINYINT", "value": "DOUBLE", "passes": "BOOLEAN"}
    assert scores.shape[0] == 120 * 9
    judged = scores.filter("metric = 'judged' AND status = 'scored'")
    assert judged.project("bool_and(passes = (value >= 0.75))").fetchall() == [(True,)]
    assert scores.filter("status <> 'scored' AND passes IS NOT NULL").shape[0] == 0
    by_status = dict(scores.aggregate("status, count(*)").fetchall())
    with (sample.folder / "scores.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {status: sum(line["status"] == status for line in lines) for status in by_status} == by_status
    assert all((line["value"] == "") == (line["status"] != "scored") for line in lines)


def test_report_json_has_everything_but_single_scores(sample: Published) -> None:
    report = read(sample.folder / "report.json")
    assert (report["schema"], report["schema_version"], report["gate"]) == ("leadline.report", 1, "fail")
    assert len(report["aggregates"]) == 27
    first = next(a for a in report["aggregates"] if a["metric"] == "judged" and a["model"] == "falcon-mini")
    assert first["n_scored"] + first["n_unscored"] + first["n_not_applicable"] == first["n_rows"] == 40
    assert first["coverage"] == pytest.approx(first["n_scored"] / 40)
    assert len(report["flips"]) == report["n_flips"] > 0
    assert len(report["problems"]) == sum(report["problems_by_severity"].values())
    assert {item["reason"] for item in report["unscored"]} == {"host_error", "judge_unparseable"}
    assert all((sample.folder / file).exists() for file in report["files"])


def test_leaderboards_rank_by_the_primary_metric_in_its_direction(sample: Published) -> None:
    report = read(sample.folder / "report.json")
    board = report["leaderboards"]["groundedness"]
    values = [line["values"]["groundedness"] for line in board]
    assert values == sorted(values, reverse=True)
    assert [line["rank"] for line in board] == [1, 2, 3]
    assert [line["rank"] for line in report["leaderboards"]["perplexity"]] == [1, 1, 1]  # all infinite


def test_junit_tells_failures_of_models_from_errors_of_the_instrument(sample: Published) -> None:
    root = ElementTree.parse(sample.folder / "junit.xml").getroot()
    assert root.tag == "testsuites"
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["groundedness", "bleu", "pii_leakage", "text_matching", "perplexity", "valor.judged"]
    for suite in suites.values():
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert all(case.get("classname") == suite.get("name") and case.get("time") is not None for case in cases)
        assert all(len(case) <= 1 for case in cases)
    assert int(root.get("failures", "")) == sum(int(suite.get("failures", "")) for suite in suites.values())
    failed = suites["perplexity"].find("testcase[@name='harbour-rag · perplexity']/failure")
    assert failed is not None
    assert "at most 0.5 was asked" in failed.get("message", "")
    assert suites["bleu"].find("testcase[@name='harbour-rag · bleu_4']") is None, "information is no test"


def test_junit_follows_the_policy(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=10)
    run.update({"policy": {"name": "own", "certain": False}})
    with duckdb.connect(str(run.database)) as connection:
        connection.execute(
            "UPDATE aggregates SET verdict = 'fail', n_scored = 10, n_pass = 7 WHERE metric_id IN (3, 5)"
        )
        connection.execute("UPDATE rules SET min_rows = 20 WHERE metric_id = 5")
        connection.execute(
            "UPDATE aggregates SET verdict = 'inconclusive', n_unscored = 0, value = 0.9 WHERE metric_id = 0"
        )
    for certain, doubted in ((False, 0), (True, 3)):
        run.update({"policy": {"name": "own", "certain": certain}})
        root = ElementTree.parse(published(store, run).folder / "junit.xml").getroot()
        leaks = root.findall("testsuite[@name='pii_leakage']/testcase/failure[@type='must']")
        assert "3 of 10 rows of falcon-mini fail what must hold." in leaks[0].get("message", "")
        few = root.findall("testsuite[@name='text_matching']/testcase/skipped")
        assert "the policy asks for 20" in few[0].get("message", "")
        assert len(root.findall("testsuite[@name='groundedness']/testcase/skipped")) == doubted


def test_the_files_say_what_changed_since_the_baseline(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=10)
    with duckdb.connect(str(run.database)) as connection:
        connection.execute(
            "INSERT INTO baseline VALUES ('20260101-000000-abc', 'nightly', 'production', 'q', '', 1, 0, '', [])"
        )
        connection.execute(
            "INSERT INTO model_changes VALUES (0, 'falcon-mini', 'fail', 'Worse, beyond chance.', 10, 2, 0), "
            "(1, 'osprey', 'inconclusive', 'Too few cases.', 10, 0, 0), (2, 'kestrel', 'pass', 'As good.', 10, 0, 0)"
        )
        connection.execute("INSERT INTO row_changes VALUES (3, 0, true, 1, 0, false, 'It <b>was</b> so.')")
    results = published(store, run)
    changes = read(results.folder / "report.json")["changes"]
    assert (changes["baseline"]["run"], changes["n_broken"], changes["n_fixed"]) == ("20260101-000000-abc", 1, 0)
    model, *_ = changes["models"]
    (row,) = model["broken"]
    assert row["baseline_answer"] == "It <b>was</b> so."
    suite = ElementTree.parse(results.folder / "junit.xml").getroot().find("testsuite[@name='changes']")
    assert suite is not None
    (failure,), (skipped,), (said,) = (suite.findall(f"testcase/{tag}") for tag in ("failure", "skipped", "system-out"))
    assert f"Newly broken: {row['case']}." in failure.get("message", "")
    assert "Too few cases." in skipped.get("message", "")
    assert "As good." in (said.text or "")
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    markdown = (results.folder / "report.md").read_text("utf-8")
    assert "## Changes since run 20260101-000000-abc (production)" in markdown
    assert f"- Newly broken: {row['case']}" in markdown


def test_junit_is_xml_whatever_the_names_hold(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=10)
    run.update({"name": "a\x00b\x1b\ufffe]]>&<", "started": "yesterday"})
    with duckdb.connect(str(run.database)) as connection:
        connection.execute("UPDATE evaluators SET error = 'no weights \x00 <here>' WHERE evaluator = 'bleu'")
    results = published(store, run)
    root = ElementTree.parse(results.folder / "junit.xml").getroot()
    assert root.get("name") == "a\ufffdb\ufffd\ufffd]]>&<"
    errors = root.findall("testsuite[@name='bleu']/testcase/error")
    assert len(errors) == 3
    assert errors[0].get("message") == "no weights \ufffd <here>"


def test_markdown_shows_hostile_names_as_text(sample: Published) -> None:
    report = (sample.folder / "report.md").read_text("utf-8")
    assert report.startswith("# Nightly \\<support bot\\>\n")
    assert "**FAIL**" in report
    assert "<b>" not in report
    heat = [line for line in report.splitlines() if line.startswith("| Groundedness")]
    assert heat[0].count("|") == 7


def test_an_output_that_cannot_be_written_is_one_error_and_the_results_stay(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path / "a", cases=10)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be copied"):
        published(store, run, tmp_path / "file")
    assert (run.results / "report.html").exists()


def test_a_run_without_a_single_score_still_has_a_report(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=10)
    with duckdb.connect(str(run.database)) as connection:
        for table in ("scores", "evidence", "aggregates", "flips", "flip_rates", "problems", "insights"):
            connection.execute(f"DELETE FROM {table}")
    record = {"dataset": run.read()["dataset"]}
    with open_run(store, run) as connection:
        results = publish(connection, run, record)
    report = read(results.folder / "report.json")
    assert report["gate"] == "inconclusive"
    assert report["coverage"] is None
    assert [model["key"] for model in report["models"]] == ["falcon-mini", "harbour-rag", "wren-7b <b>&"]
