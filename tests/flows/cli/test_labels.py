"""``leadline labels``: from a page that people label on to a judge's corrected score."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from leadline.flows.cli.main import run
from leadline.tasks.load.staging import LABELS_FILE
from tests.support.processes.browser import browse
from tests.support.stores.run_factory import Given, answer, make_run

HOSTILE = "</script><img src=x onerror=alert(1)><!--"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a completed run of 120 answers, which its judge passes where their number is not 0 in 4."""
    rows = [
        answer(f"case-{number}", "bot", question=f"Berth {number}? {HOSTILE}", answer=f"{number} m", context=["Deep."])
        for number in range(120)
    ]
    scores = [Given(f"case-{number}", "bot", float(number % 4 != 0)) for number in range(120)]
    store, made = make_run(tmp_path, rows=rows, scores=scores)
    made.update({"status": "completed"})
    monkeypatch.setenv("LEADLINE_STORE", str(store.root))
    return tmp_path


def _labelled(store: Path, people: int = 1) -> Path:
    """Let people say of every row drawn that it is good if its number is not 0 in 5."""
    tasks = [json.loads(line) for line in (store / "tasks.jsonl").read_text().splitlines()]
    labels = [
        task | {"person": f"p{who}", "value": int(task["case"].split("-")[1]) % 5 != 0}
        for task in tasks
        for who in range(people)
    ]
    path = store / "said.jsonl"
    path.write_text("".join(json.dumps({**label, "value": int(label["value"])}) + "\n" for label in labels))
    return path


def test_a_sample_is_labelled_imported_and_reported(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["labels", "sample", "latest", "--metric", "toy", "--n", "90", "-o", str(store / "tasks.jsonl")]) == 0
    assert run(["labels", "import", str(_labelled(store, people=2))]) == 0
    capsys.readouterr()
    assert run(["labels", "report", "latest", "--metric", "toy"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("toy.value\n  bot: judge 75.0 % of 120 rows · corrected ")
    assert "of 2 people" in out
    assert run(["labels", "list", "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)
    assert (line["set"], line["metric"], line["people"]) == ("labels", "toy.value", 2)
    assert run(["labels", "export", "-o", str(store / "labels.csv")]) == 0
    assert (store / "labels.csv").read_text().startswith("key,question,value,person")


def _label_dataset(folder: Path, number: int) -> None:
    """Let the dataset bring labels of its first rows: good if their number is not 0 in 5."""
    lines = [
        {"row_id": row, "question": "toy", "value": float(row % 5 != 0), "person": "anna", "note": ""}
        for row in range(number)
    ]
    [dataset] = (folder / "store" / "datasets").iterdir()
    parquet.write_table(pa.Table.from_pylist(lines), dataset / LABELS_FILE)


def test_labels_that_came_with_the_dataset_are_reported_unless_one_set_is_named(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _label_dataset(store, 119)
    assert run(["labels", "report", "latest", "--metric", "toy"]) == 0
    out = capsys.readouterr().out
    assert "bot: judge 75.0 % of 120 rows · 119 labels of 1 person\n    agrees on " in out
    assert "not corrected: these rows were not drawn at random" in out
    _label_dataset(store, 120)
    assert run(["labels", "report", "latest", "--metric", "toy"]) == 0
    assert "· corrected 80.0 % (" in capsys.readouterr().out
    assert run(["labels", "sample", "latest", "--metric", "toy", "--n", "90", "-o", str(store / "tasks.jsonl")]) == 0
    assert run(["labels", "import", str(_labelled(store))]) == 0
    capsys.readouterr()
    assert run(["labels", "report", "latest", "--metric", "toy", "--set", "labels", "--json"]) == 0
    named = json.loads(capsys.readouterr().out)["models"][0]
    assert (90 <= named["labels"] < 120, named["people"]) == (True, 1)


def test_a_sheet_is_filled_in_by_hand_and_what_is_empty_is_no_label(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = store / "sheet.csv"
    assert run(["labels", "sample", "latest", "--metric", "toy", "-o", str(sheet)]) == 0
    with sheet.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    lines[0] |= {"value": "good", "person": "ann"}
    lines[1] |= {"value": "can't tell", "person": "ann", "note": "=1+1"}
    with sheet.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    assert run(["labels", "import", str(sheet)]) == 0
    assert run(["labels", "export", "-o", str(store / "all.csv")]) == 0
    with (store / "all.csv").open(newline="", encoding="utf-8") as file:
        kept = list(csv.DictReader(file))
    assert [(each["key"], each["question"], each["value"], each["person"], each["note"]) for each in kept] == [
        (lines[0]["key"], "toy.value", "1.0", "ann", ""),
        (lines[1]["key"], "toy.value", "", "ann", "'=1+1"),
    ]


@pytest.mark.parametrize(
    "arguments", [["sample", "latest", "--metric", "toy", "-o", "rows.xlsx"], ["export", "-o", "labels.xlsx"]]
)
def test_a_format_that_there_is_not_is_refused(
    store: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(store)
    assert run(["labels", "sample", "latest", "--metric", "toy", "-o", "rows.csv"]) == 0
    assert run(["labels", *arguments]) == 2
    assert "[LL-LABEL-01]" in capsys.readouterr().err
    assert not list(store.glob("*.xlsx"))


def test_a_report_is_json_without_what_is_not_a_number(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["labels", "sample", "latest", "--metric", "toy.value", "-o", str(store / "tasks.jsonl")]) == 0
    capsys.readouterr()
    assert run(["labels", "report", "latest", "--metric", "toy", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["models"][0]["state"] == "none"
    assert report["people_alpha"] is None


def test_a_set_or_a_metric_that_is_not_there_is_refused(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["labels", "report", "latest", "--metric", "toy", "--set", "nobody"]) == 2
    assert "no set of labels 'nobody'" in capsys.readouterr().err
    assert run(["labels", "sample", "latest", "--metric", "bleu", "-o", str(store / "page.html")]) == 2
    assert "no metric 'bleu'" in capsys.readouterr().err


@pytest.mark.browser
def test_a_person_labels_by_keys_and_what_was_said_outlives_the_page(store: Path) -> None:
    page = store / "page.html"
    assert run(["labels", "sample", "latest", "--metric", "toy", "--n", "50", "-o", str(page)]) == 0
    with browse() as tab:
        tab.open(page)
        assert HOSTILE in tab.text("#question")
        assert "bot" not in tab.js("document.body.innerText")
        tab.fill("#person", "anna")
        for key in ("1", "0", "s"):
            tab.js(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")
        assert tab.text("#done").startswith("3 of ")
        tab.press("#back")
        assert tab.js("document.querySelector('[aria-pressed=true]').textContent") == "Can't tell (s)"
        tab.open(page)
        assert tab.text("#done").startswith("3 of ")
        assert tab.js("document.querySelector('#person').value") == "anna"
        tab.js("window.saved = null; URL.createObjectURL = (blob) => { window.saved = blob; return 'data:,'; }")
        tab.press("#export")
        said = json.loads(tab.js("window.saved.text()"))
        assert not tab.complaints
        assert not [url for url in tab.requests if not url.startswith(("file:", "data:"))]
    assert [label["value"] for label in said["labels"]] == [1, 0, None]
    (store / "anna.json").write_text(json.dumps(said))
    assert run(["labels", "import", str(store / "anna.json")]) == 0


def test_a_file_without_labels_is_refused_and_labels_that_are_all_alike_say_only_what_they_tell(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (store / "none.csv").write_text("")
    assert run(["labels", "import", str(store / "none.csv")]) == 2
    assert "none.csv: there is no label." in capsys.readouterr().err
    lines = "".join(f"case-{number},bot,pass,anna\n" for number in range(60))
    (store / "all.csv").write_text(f"case,model,value,person\n{lines}")
    assert run(["labels", "import", str(store / "all.csv"), "--run", "latest", "--metric", "toy"]) == 0
    capsys.readouterr()
    assert run(["labels", "report", "latest", "--metric", "toy"]) == 0
    out = capsys.readouterr().out
    assert "passes 75.0 % of the good" in out
    assert "nan" not in out
