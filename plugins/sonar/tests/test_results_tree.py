"""The files of a results tree: complete, readable by other programs, and the same numbers everywhere."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import duckdb
import pytest

from leadline.cli.main import run as command
from leadline.evaluators.ground import UsageError
from leadline.tasks.db import open_run
from leadline.tasks.publish.exports.exporter import Published, export_run, publish
from leadline.tasks.store.store import Run, Store
from tests.leadline.cli.test_csv_texts import bad_cells, dataset
from tests.tasks.analyse.test_annotated_run import Ran, classified
from tests.tasks.publish.sample import HOSTILE, make_sample

__all__ = ["classified"]

HEATMAP = {
    "global_html_fragment/text_html.meta",
    "global_html_fragment/text_html/explanation.html",
    "global_llm_eval_results/application_json.meta",
    "global_llm_eval_results/application_json/explanation.json",
    "global_llm_eval_results/application_vnd_apache_parquet.meta",
    "global_llm_eval_results/application_vnd_apache_parquet/explanation.parquet",
    "global_llm_eval_results/text_csv.meta",
    "global_llm_eval_results/text_csv/explanation.csv",
    "global_llm_heatmap_leaderboard/application_json.meta",
    "global_llm_heatmap_leaderboard/application_json/explanation.json",
    "global_llm_heatmap_leaderboard/application_json/leaderboard_0.json",
    "global_llm_heatmap_leaderboard/application_json/leaderboard_1.json",
    "global_llm_heatmap_leaderboard/application_json/leaderboard_2.json",
    "global_llm_heatmap_leaderboard/application_vnd_h2oai_evalstudio_leaderboard_markdown.meta",
    "global_llm_heatmap_leaderboard/application_vnd_h2oai_evalstudio_leaderboard_markdown/explanation.md",
    "global_llm_heatmap_leaderboard/text_markdown.meta",
    "global_llm_heatmap_leaderboard/text_markdown/explanation.md",
    "global_work_dir_archive/application_zip.meta",
    "global_work_dir_archive/application_zip/explanation.zip",
    "insights/insights_and_actions.json",
    "problems/problems_and_actions.json",
    "result_descriptor.json",
    "work/report.md",
}


def published(store: Store, run: Run, output: Path | None = None) -> Published:
    with open_run(store, run) as connection:
        return publish(connection, run, run.read() | {"config": {"results": "sonar"}}, output=output)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return published(*make_sample(tmp_path_factory.mktemp("sample")))


def folder(results: Published, evaluator: str) -> Path:
    (found,) = results.folder.glob(f"{evaluator}_*-*")
    return found


def read(path: Path) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(path.read_text("utf-8"), parse_constant=refuse)


def test_an_evaluator_has_the_published_tree(sample: Published) -> None:
    root = folder(sample, "bleu")
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    (log,) = (file for file in files if file.startswith("log/"))
    assert files - {log} == HEATMAP
    assert log == f"log/explainer_run_{root.name.removeprefix('bleu_')}.log"


def test_a_pass_fail_evaluator_has_a_bool_leaderboard_and_dots_in_ids_become_underscores(sample: Published) -> None:
    assert (folder(sample, "pii_leakage") / "global_llm_bool_leaderboard/application_json/leaderboard_0.json").exists()
    assert folder(sample, "valor_judged").is_dir()


def test_report_json_names_the_folder_of_each_evaluator(sample: Published) -> None:
    report = read(sample.folder / "report.json")
    assert all((sample.folder / evaluator["folder"]).is_dir() for evaluator in report["evaluators"])


def test_the_markdown_of_an_evaluator_shows_hostile_names_as_text(sample: Published) -> None:
    assert "wren-7b \\<b\\>\\&" in (folder(sample, "bleu") / "work/report.md").read_text("utf-8")


def test_every_json_file_of_the_tree_is_strict_json(sample: Published) -> None:
    files = [path for path in sample.folder.rglob("*") if path.suffix in (".json", ".meta")]
    assert len(files) > 60
    for path in files:
        read(path)


def test_publishing_again_replaces_the_results_and_keeps_the_folders_names(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=10)
    first = published(store, run)
    names = sorted(path.name for path in first.folder.iterdir())
    (first.folder / "stale").write_text("of another time")
    second = published(store, run)
    assert sorted(path.name for path in second.folder.iterdir()) == names
    assert second.files == first.files == sum(path.is_file() for path in second.folder.rglob("*"))
    assert not list(run.path.glob(".results*"))


def test_the_leaderboard_has_all_metrics_first_and_then_each_alone(sample: Published) -> None:
    board = folder(sample, "bleu") / "global_llm_heatmap_leaderboard/application_json"
    assert read(board / "explanation.json") == {
        "files": {"ALL_METRICS": "leaderboard_0.json", "bleu_4": "leaderboard_1.json", "bleu_1": "leaderboard_2.json"}
    }
    everything, single = read(board / "leaderboard_0.json"), read(board / "leaderboard_2.json")
    assert list(everything["data"]) == ["falcon-mini", "harbour-rag", "wren-7b <b>&"]
    assert everything["data"]["harbour-rag"]["bleu_1"] == single["data"]["harbour-rag"]["bleu_1"]
    assert list(single["metadata"]) == ["bleu_1"]
    assert everything["metadata"]["bleu_4"] | {"description": ""} == {
        "key": "bleu_4", "display_name": "BLEU-4", "data_type": "float", "display_value": ".4f", "description": "",
        "value_range": [0.0, 1.0], "value_enum": None, "higher_is_better": True, "threshold": 0.5,
        "is_primary_metric": True, "parent_metric": None, "exclude": False,
    }  # fmt: skip


def test_infinite_values_are_strings_and_open_ranges_end_at_the_layouts_number(sample: Published) -> None:
    board = read(folder(sample, "perplexity") / "global_llm_heatmap_leaderboard/application_json/leaderboard_0.json")
    assert board["data"]["harbour-rag"] == {"perplexity": "Infinity"}
    assert board["metadata"]["perplexity"]["value_range"] == [1.0, 1234567.0]
    results = read(folder(sample, "perplexity") / "global_llm_eval_results/application_json/explanation.json")
    values = {
        row["test_case_key"]: row["perplexity"] for row in results["results"] if row["model_key"] == "harbour-rag"
    }
    assert values["case-0002"] == "Infinity"
    assert isinstance(values["case-0003"], float)


def test_eval_results_hold_the_row_its_scores_and_the_text_that_each_span_points_at(sample: Published) -> None:
    results = read(folder(sample, "groundedness") / "global_llm_eval_results/application_json/explanation.json")
    rows = {row["key"]: row for row in results["results"]}
    assert len(rows) == 120
    row = rows["case-0003_wren-7b <b>&"]
    assert row["actual_output"] == HOSTILE[3]
    assert row["context"][0].startswith("The handbook says")
    assert 0 <= row["groundedness"] <= 1
    (meta,) = row["actual_output_meta"]
    assert meta["tokenization"] == "punkt:en"
    # Positions count code points: a family of emoji is five of them.
    assert [span["text"] for span in meta["data"]] == [HOSTILE[3][0:21], HOSTILE[3][22:60], "An unrelated page ab"]
    assert [span["metrics"] for span in meta["data"]] == [{"groundedness": v} for v in (0.91, 0.41, 0.2)]
    assert meta["data"][2]["meta"] | {"note": ""} == {
        "source": "retrieved_context", "index": 1, "start": 0, "end": 20, "note": "",
    }  # fmt: skip
    failed = rows["case-0003_falcon-mini"]
    assert failed["groundedness"] is None
    assert failed["unscored_reason"] == "host_error"
    assert failed["result_error_message"] == "HTTP 503 from the host <overloaded>"
    assert results["evaluator"]["id"] == "groundedness"
    assert [model["key"] for model in results["models"]] == ["falcon-mini", "harbour-rag", "wren-7b <b>&"]


def test_csv_and_parquet_of_the_rows_agree_with_the_json(sample: Published) -> None:
    place = folder(sample, "bleu") / "global_llm_eval_results"
    rows = read(place / "application_json/explanation.json")["results"]
    parquet = duckdb.read_parquet(str(place / "application_vnd_apache_parquet/explanation.parquet"))
    assert parquet.project("key, bleu_4").fetchall() == [(row["key"], row["bleu_4"]) for row in rows]
    csv.field_size_limit(10_000_000)
    text = (place / "text_csv/explanation.csv").read_text("utf-8").replace("\0", "")
    lines = list(csv.DictReader(text.splitlines(keepends=True)))
    assert [line["test_case_key"] for line in lines] == [row["test_case_key"] for row in rows]
    assert json.loads(lines[0]["context"]) == rows[0]["context"]


def test_rows_are_left_out_where_the_evaluator_must_not_save_them(tmp_path: Path) -> None:
    results = published(*make_sample(tmp_path, cases=10, save_rows=False))
    assert not (folder(results, "groundedness") / "global_llm_eval_results").exists()
    assert (folder(results, "bleu") / "global_llm_eval_results").exists()


def test_texts_that_would_fill_the_disk_stay_in_the_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.plugins.sonar.results_tree.TEXT_BUDGET", 1000)
    results = published(*make_sample(tmp_path, cases=10))
    content = read(folder(results, "bleu") / "global_llm_eval_results/application_json/explanation.json")
    assert content["texts"] == "in the dataset"
    assert "actual_output" not in content["results"][0]
    assert content["results"][0]["bleu_4"] is not None


def test_problems_name_their_rows_by_case_and_model(sample: Published) -> None:
    problems = read(folder(sample, "bleu") / "problems/problems_and_actions.json")["problems"]
    assert len(problems) == 3
    first = problems[0]
    assert (first["severity"], first["problem_type"], first["explainer_id"]) == ("HIGH", "accuracy", "bleu")
    assert first["problem_attrs"]["metric_id"] == "bleu_4"
    assert first["problem_attrs"]["model_key"] == "falcon-mini"
    assert first["problem_attrs"]["n"] == 3
    assert ["case-0000", "falcon-mini"] in first["problem_attrs"]["dataset_row_keys"]
    insights = read(folder(sample, "groundedness") / "insights/insights_and_actions.json")["insights"]
    assert [insight["insight_type"] for insight in insights] == ["accuracy", "weak-point"]


def test_the_archive_holds_the_evaluators_files_and_the_rows_once(sample: Published) -> None:
    root = folder(sample, "bleu")
    with zipfile.ZipFile(root / "global_work_dir_archive/application_zip/explanation.zip") as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
    assert "work/report.md" in names
    assert [name for name in names if "eval_results" in name and not name.endswith(".meta")] == [
        "global_llm_eval_results/application_vnd_apache_parquet/explanation.parquet"
    ]


def test_the_log_says_what_could_not_be_scored_and_why(sample: Published) -> None:
    (log,) = (folder(sample, "valor_judged") / "log").iterdir()
    assert "20 rows unscored: judge_unparseable" in log.read_text("utf-8")
    assert "judge_unparseable, 20 rows: The judge replied: perhaps" in log.read_text("utf-8")


def test_results_are_copied_and_an_older_reports_folders_make_room(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path / "a", cases=10)
    output = tmp_path / "out"
    first = published(store, run, output)
    assert (first.folder, first.report) == (output, output / "report.html")
    (output / "notes.txt").write_text("mine")
    other = make_sample(tmp_path / "b", cases=5)
    moved = other[0].run("20260103-000000-fedcba")
    other[1].path.rename(moved.path)
    second = published(other[0], moved, output)
    assert (output / "notes.txt").read_text() == "mine"
    assert sum(path.is_file() for path in output.rglob("*")) == second.files + 1


def test_a_run_without_a_single_score_still_has_its_tree(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=10)
    with duckdb.connect(str(run.database)) as connection:
        for table in ("scores", "evidence", "aggregates", "flips", "flip_rates", "problems", "insights"):
            connection.execute(f"DELETE FROM {table}")
    place = folder(published(store, run), "bleu") / "global_llm_eval_results/application_json/explanation.json"
    assert read(place)["results"] == []


def test_the_tree_that_a_run_did_not_ask_for_is_exported_as_one_that_did_has_it(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path, cases=10)
    asked = published(store, run).folder
    tree = {path.relative_to(asked): path.read_bytes() for path in asked.rglob("*/**/*") if path.is_file()}
    with open_run(store, run) as connection:
        plain = publish(connection, run, run.read()).folder
    assert not [path for path in plain.iterdir() if path.is_dir()]
    run.update({"status": "completed"})
    into = tmp_path / "tree"
    assert command(["store", "export", run.id, "--store", str(store.root), "--as", "sonar", "-o", str(into)]) == 0
    assert {path.relative_to(into): path.read_bytes() for path in into.rglob("*") if path.is_file()} == tree


def test_the_tree_is_written_into_a_new_folder_only(tmp_path: Path) -> None:
    store, run = make_sample(tmp_path / "store", cases=10)
    folders = export_run(store, run, "sonar", tmp_path / "tree")
    assert len(folders) == 6
    assert all((folder / "result_descriptor.json").exists() for folder in folders)
    with pytest.raises(UsageError, match="no empty folder"):
        export_run(store, run, "sonar", tmp_path / "tree")


def test_details_of_a_classification_are_json_and_csv(classified: Ran) -> None:
    tree = published(classified.store, classified.run).folder
    (place,) = tree.glob("valor_classification_*/global_details")
    document = json.loads((place / "application_json" / "explanation.json").read_text("utf-8"))
    assert document["models"]["a"]["confusion"][0]["key"] == "class"
    with (place / "text_csv" / "explanation.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert {(line["model"], line["label"]) for line in lines} >= {("a", ""), ("a", "cat"), ("b", "dog")}
    assert next(line["recall"] for line in lines if (line["model"], line["label"]) == ("a", "cat")) == "1.0"


@pytest.mark.slow
def test_no_csv_file_of_the_tree_holds_a_formula_or_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = dataset(tmp_path / "hostile.jsonl", "=b \x1b]0;t\x07")
    asked = ["-e", "bleu,text_matching", "--server", "none", "--store", "store", "--set", "results=sonar", "-o", "out"]
    assert command(["evaluate", str(file), *asked]) == 0
    files = list((tmp_path / "out").rglob("explanation.csv"))
    assert len(files) >= 2
    assert {str(each): bad_cells(each) for each in files if bad_cells(each)} == {}
