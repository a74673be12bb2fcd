"""``leadline labels``: from a page that people label on to a judge's corrected score."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from leadline.cli.main import run
from leadline.tasks.load.label import LABELS_FILE
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
    with (store / "labels.csv").open(newline="", encoding="utf-8") as file:
        exported = list(csv.DictReader(file))
    first = exported[0]
    berth = first["case"].removeprefix("case-")
    assert (first["question_id"], first["model"], first["answer"]) == ("toy.value", "bot", f"{berth} m")
    assert first["question"].startswith(f"Berth {berth}? ")
    assert (first["contexts"], first["expected"]) == ("Deep.", "")
    assert {line["person"] for line in exported} == {"p0", "p1"}
    assert run(["labels", "import", str(store / "labels.csv")]) == 0
    assert f"0 labels added to labels, {len(exported)} known already." in capsys.readouterr().err


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
    assert [(each["key"], each["question_id"], each["value"], each["person"], each["note"]) for each in kept] == [
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


def test_ties_are_listed_and_decided_on_a_page_that_shows_what_people_said(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["labels", "sample", "latest", "--metric", "toy", "--n", "60", "-o", str(store / "tasks.jsonl")]) == 0
    said = [json.loads(line) for line in _labelled(store, people=2).read_text().splitlines()]
    for label in said[:8]:  # the first four rows
        label["value"], label["note"] = int(label["person"] == "p0"), "short" * (label["person"] == "p1")
    path = store / "said.jsonl"
    path.write_text("".join(json.dumps(label) + "\n" for label in said))
    assert run(["labels", "import", str(path)]) == 0
    capsys.readouterr()
    assert run(["labels", "report", "latest", "--metric", "toy"]) == 0
    report = capsys.readouterr().out
    assert "People are tied on 4 rows" in report
    assert "--metric toy.value --disagreed" in report

    sample = ["labels", "sample", "latest", "--metric", "toy", "--disagreed"]
    assert run([*sample, "-o", str(store / "ties.html")]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("p0: good, p1: bad (short)") == 4
    assert "4 answers of 4 on which people are tied" in shown.err
    page = (store / "ties.html").read_text()
    assert "What you say here stands for all of them" in page
    assert page.count('"said": ["p0: good", "p1: bad (short)"]') == 4
    assert run([*sample, "--n", "3", "-o", str(store / "ties.csv")]) == 0
    with (store / "ties.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [(line["person"], line["value"]) for line in lines] == [("adjudicated", "")] * 3
    for line in lines:
        line["value"] = "good"
    with (store / "ties.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    assert run(["labels", "import", str(store / "ties.csv")]) == 0
    capsys.readouterr()
    assert run([*sample, "-o", str(store / "left.csv")]) == 0
    assert "1 answer of 1 on which people are tied" in capsys.readouterr().err
    assert run(["labels", "report", "latest", "--metric", "toy", "--json"]) == 0
    decided = json.loads(capsys.readouterr().out)
    assert (decided["tied"], decided["models"][0]["labels"]) == (1, 60)
    assert decided["models"][0]["people"] == 2  # who decides is none of them
    assert decided["models"][0]["corrected"]  # a decided row is still one that was drawn


def test_without_ties_no_page_is_written(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["labels", "sample", "latest", "--metric", "toy", "--disagreed", "-o", str(store / "ties.html")]) == 0
    assert "People are tied on no row" in capsys.readouterr().err
    assert not (store / "ties.html").exists()


@pytest.mark.parametrize("name", ["toy", '"toy.value"'])
def test_the_page_shows_what_the_team_tells_those_who_label_and_no_text_is_markup(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(store)
    settings = store / "leadline.toml"
    other = '[labels.other]\ninstructions = "not this"\n'
    settings.write_text(f"{other}[labels.{name}]\ninstructions = 'In metres. {HOSTILE}'\nexamples = ['Good: 4 m']\n")
    assert run(["labels", "sample", "latest", "--metric", "toy", "-o", "page.html"]) == 0
    page = (store / "page.html").read_text()
    assert "How to judge: instructions and 1 example" in page
    assert "In metres. &lt;/script&gt;&lt;img" in page
    assert "Good: 4 m" in page
    assert "not this" not in page
    assert HOSTILE not in page
    settings.write_text(other)
    assert run(["labels", "sample", "latest", "--metric", "toy", "-o", "page.html"]) == 0
    assert "How to judge" not in (store / "page.html").read_text()
    settings.write_text("[labels.toy]\ninstruction = 'typo'\n")
    capsys.readouterr()
    assert run(["labels", "sample", "latest", "--metric", "toy", "-o", "page.html"]) == 2
    assert "[labels.toy]: instruction: there is no such field" in capsys.readouterr().err


def test_rows_of_one_model_alone_are_drawn_and_the_reason_to_draw_more_is_said(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = ["labels", "sample", "latest", "--metric", "toy", "-o", str(store / "tasks.jsonl")]
    assert run([*sample, "--n", "20", "--model", "bot"]) == 0
    assert "A judge is certified by 50 labels or more: --n 50, some 5 minutes of a person." in capsys.readouterr().err
    assert len((store / "tasks.jsonl").read_text().splitlines()) == 20
    assert run([*sample, "--n", "50"]) == 0
    assert "certified by" not in capsys.readouterr().err
    assert run([*sample, "--model", "robot"]) == 2
    assert "Models: bot." in capsys.readouterr().err


@pytest.mark.browser
def test_the_criterion_folds_by_a_key_and_a_tie_is_decided_without_a_name(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store)
    (store / "leadline.toml").write_text(
        f'[labels.toy]\ninstructions = {json.dumps("A long rule. " * 2_000)[:9_000]}"\n'
    )
    assert run(["labels", "sample", "latest", "--metric", "toy", "--n", "50", "-o", str(store / "tasks.jsonl")]) == 0
    said = [json.loads(line) for line in _labelled(store, people=2).read_text().splitlines()]
    path = store / "said.jsonl"
    path.write_text("".join(json.dumps(each | {"value": int(each["person"] == "p0")}) + "\n" for each in said))
    assert run(["labels", "import", str(path)]) == 0
    page = store / "ties.html"
    assert run(["labels", "sample", "latest", "--metric", "toy", "--disagreed", "-o", str(page)]) == 0
    with browse() as tab:
        tab.open(page)
        tab.resize(1300, 1000)
        bottom = "document.querySelector('#answer').getBoundingClientRect().bottom"
        assert tab.js(bottom) < 700
        tab.js("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'c'}))")
        assert tab.js("document.querySelector('#criterion').open")
        assert tab.js(bottom) < 1000
        assert tab.js("document.querySelector('#said').innerText").split("\n") == ["p0: good", "p1: bad"]
        assert not tab.js("document.querySelector('#person').checkVisibility()")
        tab.js("document.dispatchEvent(new KeyboardEvent('keydown', {key: '0'}))")
        tab.js("window.saved = null; URL.createObjectURL = (blob) => { window.saved = blob; return 'data:,'; }")
        tab.press("#export")
        decided = json.loads(tab.js("window.saved.text()"))
        assert not tab.complaints
    [label] = decided["labels"]
    assert (label["person"], label["value"], bool(label["sample"])) == ("adjudicated", 0, True)


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
        time.sleep(0.5)  # the browser keeps it a moment later, in another process
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
