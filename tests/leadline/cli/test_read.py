"""The commands that read: runs, show, sql, export, evaluators, suites, models."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from leadline.api import evaluate
from leadline.cli.main import run
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run

FIRST, SECOND = "20260101-100000-aaaaaa", "20260102-100000-bbbbbb"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store")
    make_run(store, FIRST)
    make_run(store, SECOND, values=(1.0, 0.9, 0.7))
    monkeypatch.setenv("LEADLINE_STORE", str(store.root))
    return store


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 0
    return capsys.readouterr().out


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    return streams.err


def test_runs_are_listed_youngest_first(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    lines = output_of(capsys, "store", "runs").splitlines()[2:]
    assert [line.split()[0] for line in lines] == [SECOND, FIRST]
    assert lines[0].split()[1:] == ["nightly", "completed", "3", "fail", "2", "1", "1", "0", "0", "0", "1.5"]


def test_runs_list_problems_of_models_and_of_the_instrument_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.open(tmp_path / "store")
    counted = {"high": 0, "medium": 2, "low": 0}
    make_run(store, FIRST, record={"problems_by_fault": {"model": counted, "instrument": counted | {"high": 1}}})
    monkeypatch.setenv("LEADLINE_STORE", str(store.root))
    heads, _, line = output_of(capsys, "store", "runs").splitlines()
    assert heads.split()[-5:] == ["high", "medium", "low", "instrument", "seconds"]
    assert line.split()[-5:] == ["0", "2", "0", "3", "1.5"]


def test_runs_as_json_can_be_limited(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    (only,) = json.loads(output_of(capsys, "store", "runs", "--json", "--last", "1"))
    assert (only["run"], only["high"], only["started"]) == (SECOND, 1, "2026-01-01T08:00:00")


def test_a_store_without_runs_says_how_to_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["store", "runs", "--store", str(tmp_path)]) == 0
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "leadline evaluate" in streams.err


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_store_may_be_named_before_and_after_the_command(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    option = ["--store", str(tmp_path / "other")]
    make_run(Store.open(tmp_path / "other"), "20250101-000000-cccccc")
    arguments = [*option, "store", "runs"] if place == "before" else ["store", "runs", *option]
    assert "20250101-000000-cccccc" in output_of(capsys, *arguments)


def test_a_run_is_shown_with_its_gate_boards_problems_and_insights(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    out = output_of(capsys, "show", "latest")
    assert SECOND in out
    assert "fail: 1 problem of high severity." in out
    board = next(line for line in out.splitlines() if line.startswith("bleu"))
    assert board.split()[2:] == ["beta", "0.100", "0.050", "to", "0.150", "0.500", "should", "fail", "1", "0"]
    assert "beta misses the threshold" in out
    assert "alpha is best" in out


def test_a_run_as_json_has_everything(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(output_of(capsys, "show", "20260101", "--json"))
    assert shown["run"] == FIRST
    assert shown["board"][0]["ci_low"] == 0.05
    assert shown["problems"][0]["attrs"] == {"n": 1}
    assert shown["insights"][0]["description"] == "alpha is best"


def test_a_case_is_shown_with_every_score_and_its_evidence(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    out = output_of(capsys, "show", FIRST, "--case", "c1")
    assert "Q1?" in out
    assert "ctx" in out
    lines = [line.split(maxsplit=5) for line in out.splitlines() if line.startswith("bleu")]
    assert lines == [
        ["bleu", "bleu_1", "1.000", "0.500", "pass"],
        ["bleu", "bleu_1", "0.100", "0.500", "fail", "no n-gram in common"],
    ]


def test_an_unscored_score_says_why(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    out = output_of(capsys, "show", FIRST, "--case", "c2")
    assert "unscored" in out
    assert "timeout" in out


def test_a_case_as_json_keeps_the_text_as_it_is(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(output_of(capsys, "show", FIRST, "--case", "c1", "--json"))
    beta = shown["answers"][1]
    assert beta["actual_answer"] == "\x1b[31mwrong\u202e"
    assert beta["scores"][0]["passes"] is False
    assert beta["scores"][0]["evidence"] == {"message": "no n-gram in common"}


def test_a_hostile_answer_reaches_the_terminal_as_harmless_text(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["show", FIRST, "--case", "c1"], ["store", "sql", "SELECT actual_answer FROM rows"]):
        out = output_of(capsys, *arguments)
        assert "\\x1b[31mwrong\\u202e" in out
        assert "\x1b" not in out
        assert "\u202e" not in out


def test_an_unknown_case_suggests_the_nearest(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert "c1" in error_of(capsys, "show", FIRST, "--case", "c11")


def test_a_run_without_results_is_refused_in_a_line(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.run(FIRST).database.unlink()
    assert "no results yet" in error_of(capsys, "show", FIRST)


QUERY = "SELECT run, model_key, value FROM scores ORDER BY ALL"


def test_sql_as_csv(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(csv.reader(io.StringIO(output_of(capsys, "store", "sql", QUERY, "--format", "csv"))))
    assert lines[0] == ["run", "model_key", "value"]
    assert lines[1:4] == [[FIRST, "alpha", "1.0"], [FIRST, "alpha", ""], [FIRST, "beta", "0.1"]]


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_sql_as_json(store: Store, capsys: pytest.CaptureFixture[str], form: str) -> None:
    out = output_of(capsys, "store", "sql", QUERY, "--format", form)
    lines = json.loads(out) if form == "json" else [json.loads(line) for line in out.splitlines()]
    assert len(lines) == 6
    assert lines[1] == {"run": FIRST, "model_key": "alpha", "value": None}


def test_no_rows_are_still_valid_json(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(output_of(capsys, "store", "sql", f"FROM ({QUERY}) LIMIT 0", "--format", "json")) == []


def test_sql_types_that_json_lacks(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    query = (
        "SELECT 'inf'::DOUBLE AS i, 1.5::DECIMAL(4,1) AS d, DATE '2026-01-02' AS t, 'x'::BLOB AS b, "
        "{'a': [1, NULL]} AS s, sum(1::UBIGINT) AS n"
    )
    (line,) = json.loads(output_of(capsys, "store", "sql", query, "--format", "json"))
    assert line == {"i": "Infinity", "d": 1.5, "t": "2026-01-02", "b": "78", "s": {"a": [1, None]}, "n": 1}


@pytest.mark.parametrize("name", ["out.csv", "out.json", "out.jsonl", "out.parquet"])
def test_sql_writes_a_file_in_the_format_of_its_name(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    target = tmp_path / name
    assert output_of(capsys, "store", "sql", QUERY, "-o", str(target)) == ""
    if name.endswith("parquet"):
        assert pq.read_table(target).column("value").to_pylist()[:3] == [1.0, None, 0.1]
    else:
        assert FIRST in target.read_text()
    assert list(tmp_path.glob(".out*")) == []


def test_a_failed_query_leaves_an_existing_file_alone(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.csv"
    target.write_text("before")
    error_of(capsys, "store", "sql", "SELECT error('no') FROM scores", "-o", str(target))
    assert target.read_text() == "before"


@pytest.mark.parametrize("name", ["out", "out.txt", "missing/out.csv/x.csv"])
def test_a_file_that_cannot_be_written_is_refused(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "missing").write_text("a file where a folder is needed")
    assert error_of(capsys, "store", "sql", QUERY, "-o", str(tmp_path / name))


def test_sql_on_chosen_runs(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--run", "20260102"], ["--last", "1"]):
        out = output_of(capsys, "store", "sql", "SELECT DISTINCT run FROM scores", "--format", "csv", *option)
        assert out.splitlines()[1:] == [SECOND]


def test_sql_from_standard_input(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 42 AS answer"))
    assert "42" in output_of(capsys, "store", "sql", "-")


@pytest.fixture
def published(store: Store) -> Path:
    folder = store.run(SECOND).results
    folder.mkdir()
    for name in ("report.html", "report.md", "report.json", "junit.xml", "scores.csv", "scores.parquet", "flips.csv"):
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize(
    ("target", "options", "content"),
    [
        ("a.html", [], "report.html"),
        ("a.md", [], "report.md"),
        ("a.xml", [], "junit.xml"),
        ("a.csv", [], "scores.csv"),
        ("a.parquet", [], "scores.parquet"),
        ("a.csv", ["--table", "flips"], "flips.csv"),
        ("a.txt", ["--format", "junit"], "junit.xml"),
    ],
)
def test_export_copies_what_was_published(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, options: list[str], content: str
) -> None:
    assert output_of(capsys, "store", "export", "latest", "-o", str(tmp_path / target), *options) == ""
    assert (tmp_path / target).read_text() == content


def test_export_into_a_folder_to_standard_output_and_of_everything(
    published: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["store", "export", "latest", "--format", "html", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").exists()
    assert run(["store", "export", "latest", "--format", "json", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == b"report.json"
    assert run(["store", "export", "latest", "--format", "all", "-o", str(tmp_path / "copy")]) == 0
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {path.name for path in published.iterdir()}


def test_export_refuses_what_it_cannot_do(
    store: Store, published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.run(FIRST).update({"status": "failed"})
    assert "--as" in error_of(capsys, "store", "export", "latest", "-o", str(tmp_path / "a.docx"))
    assert "nothing to export" in error_of(capsys, "store", "export", "latest")
    assert "not completed" in error_of(capsys, "store", "export", FIRST, "-o", str(tmp_path / "a.html"))
    assert "no empty folder" in error_of(capsys, "store", "export", "latest", "--format", "all", "-o", str(published))


def test_evaluators_are_listed_filtered_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    every = json.loads(output_of(capsys, "evaluators", "list", "--json"))
    assert {"bleu", "text_matching"} <= {one["id"] for one in every}
    assert {"id", "name", "family", "inputs", "judge", "gpu", "metrics", "parameters"} <= every[0].keys()
    only = json.loads(output_of(capsys, "evaluators", "list", "--json", "--family", "summarization"))
    assert {one["family"] for one in only} == {"summarization"}
    assert 0 < len(only) < len(every)
    assert "bleu" in output_of(capsys, "evaluators", "list", "--suite", "rules")
    found = output_of(capsys, "evaluators", "list", "--find", "LEAK")
    assert "pii_leakage" in found
    assert "bleu" not in found
    assert "rag, chatbot, privacy" in found


def test_one_evaluator_is_shown_with_method_metrics_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    out = output_of(capsys, "evaluators", "show", "bleu")
    for part in (
        "bleu: ",
        "rag, chatbot, summarization",
        "valor.bleu",
        "expected_answer",
        "bleu_1",
        "min_test_cases",
        "higher",
        "0.0 to 1.0",
    ):
        assert part in out
    assert json.loads(output_of(capsys, "evaluators", "show", "bleu", "--json"))["id"] == "bleu"


def test_suites_say_what_they_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no-judge" in output_of(capsys, "evaluators", "suites")
    assert (
        "bleu"
        in next(s for s in json.loads(output_of(capsys, "evaluators", "suites", "--json")) if s["name"] == "all")[
            "evaluators"
        ]
    )


def add_instrument_problem(store: Store, run_id: str) -> None:
    with duckdb.connect(str(store.run(run_id).database)) as connection:
        connection.execute(
            "INSERT INTO problems VALUES "
            "(1, 'high', 'evaluation', '', 'unscored', 'instrument', true, 0, 0, NULL, NULL, 'the judge was away', "
            "'', '{}', [])"
        )
        connection.execute("UPDATE problems SET severity = 'low' WHERE problem_id = 0")


def test_problems_of_models_and_of_the_instrument_are_shown_apart_beside_what_the_gate_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.open(tmp_path / "store")
    make_run(store, FIRST, record={"gate": "pass", "gate_reason": "Enough.", "config": {"fail_on": "medium"}})
    add_instrument_problem(store, FIRST)
    monkeypatch.setenv("LEADLINE_STORE", str(store.root))
    out = output_of(capsys, "show", FIRST)
    assert "pass (counted: model problems of high and medium severity): Enough." in out
    assert "of models: 1 low; of the instrument or the data: 1 high (these never fail the gate)" in out
    models, instrument = out.index("Problems of models: 1"), out.index("Problems of the instrument or the data: 1")
    assert models < out.index("beta misses the threshold") < instrument < out.index("the judge was away")


@pytest.mark.parametrize("schema", [None, 999])
def test_a_run_of_another_version_is_listed_but_not_read(
    store: Store, schema: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.run(FIRST).update({"schema": schema})
    assert FIRST in output_of(capsys, "store", "runs")
    for command in (["show", FIRST], ["store", "export", FIRST, "--again", "-o", str(tmp_path / "junit.xml")]):
        said = error_of(capsys, *command)
        assert f"Run {FIRST} was made by another version of Leadline." in said
        assert "Evaluate its dataset again; nothing that the store holds is computed twice." in said
        assert "Traceback" not in said


def test_policies_are_listed_shown_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert [policy["name"] for policy in json.loads(output_of(capsys, "evaluators", "policy", "--json"))] == [
        "default",
        "sonar",
        "strict",
    ]
    assert "pii_leakage" in output_of(capsys, "evaluators", "policy", "show")
    (tmp_path / "own.toml").write_text(
        output_of(capsys, "evaluators", "policy", "show", "strict", "--toml"), encoding="utf-8"
    )
    checked = output_of(capsys, "evaluators", "policy", "check", "own.toml")
    assert "valid policy" in checked
    assert "surely meets its threshold" in checked, "what differs from the default policy"
    assert output_of(capsys, "evaluators", "policy", "check", "own.toml", "own.toml") == checked * 2


def test_a_case_that_is_a_conversation_is_shown_turn_by_turn_with_its_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [
        {"role": "user", "content": "How high is the tide?"},
        {"role": "assistant", "tool_calls": [{"id": "a", "name": "get_tide", "arguments": {"harbour": "Lisbon"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "5.4 m"},
        {"role": "assistant", "content": "It is 5.4 m."},
        {"role": "user", "content": "And at noon?"},
        {"role": "assistant", "content": "3 m."},
    ]
    path = tmp_path / "talks.jsonl"
    path.write_text(json.dumps({"case": "tide", "model": "m", "messages": said}) + "\n", encoding="utf-8")
    evaluate(path, metrics=["readability"], store=tmp_path / "talks", progress=False)
    assert run(["--store", str(tmp_path / "talks"), "show", "latest", "--case", "tide"]) == 0
    told = capsys.readouterr().out.splitlines()
    first = told.index("Turn 1")
    assert told[first : first + 8] == [
        "Turn 1",
        "User      How high is the tide?",
        'Call      get_tide {"harbour": "Lisbon"}',
        "Result    5.4 m",
        "Assistant It is 5.4 m.",
        "Turn 2",
        "User      And at noon?",
        "Assistant 3 m.",
    ]
