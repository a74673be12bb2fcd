"""Runs that the golden files record, made by the command line: judged, labelled by people, stopped early, on Dask."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from tests.golden.desk import Desk, desk, is_bad
from tests.golden.plain import plain

SAMPLE: Final = Path(__file__).parents[2] / "examples" / "harbour.json"
LONG: Final = 700
MOST: Final = 40
"""Slices and the like of a report that are recorded, with the number of all."""

VIEWS: Final = """
    SELECT table_name AS view, list(column_name || ' ' || data_type ORDER BY ordinal_position) AS columns
    FROM information_schema.columns WHERE table_catalog = current_database() AND table_schema = current_schema()
    GROUP BY table_name ORDER BY table_name"""

METRIC: Final = "sexism.no_sexism_pass"
RUNNING: Final = ("--processes", "1", "--embedder", "offline", "--server", "none", "--json")
JUDGED: Final = (
    "-e", "databricks.correctness", "-e", "sexism", "--model", "aldermouth-rag-v1", "--model", "gullwing-mini",
    "--fail-on", "high", *RUNNING,
)  # fmt: skip
RULES: Final = (
    "-e", "bleu", "-e", "classification", "--param", 'classification.categories=["classification"]',
    "-e", "llamaindex.retrieval", "-e", "pii_leakage", "-e", "text_matching",
)  # fmt: skip
FOUND: Final = {
    name: f"FROM {name} ORDER BY ALL"
    for name in (
        "aggregates", "problems", "insights", "verdicts", "answer_shares", "corrections", "certificates", "stopping",
        "flip_rates", "trial_spread", "model_changes", "metric_changes",
    )
}  # fmt: skip
"""What a run has found, by table."""


def judged_walk(folder: Path) -> dict[str, Any]:
    """Return what is found, told and asked from the first judged run over labels and checks to a comparison."""
    _write_samples(folder)
    with desk(folder) as here:
        told = {"evaluate": _told(here, "first run", "evaluate", "first.json", *JUDGED)}
        found = {"judged": here.tables(FOUND)}
        told |= _read(here)
        here.typed("store", "tag", "latest", "first")
        here.step("the same again", "evaluate", "first.json", *JUDGED)
        told["plan"] = here.json("evaluate", "--plan", "harbour.json", *JUDGED[:-3], "--json")
        here.step("one more case", "evaluate", "harbour.json", *JUDGED)
        _label(here)
        here.step("labelled", "evaluate", "harbour.json", *JUDGED, "--gate-on", "corrected")
        found["labelled"] = here.tables(FOUND)
        told |= _judges(here)
        here.step("judged twice", "evaluate", "harbour.json", *JUDGED, "--trials", "2", "--trial-rows", "auto")
        found["trials"] = here.tables({name: FOUND[name] for name in ("flip_rates", "trial_spread", "verdicts")})
        told["compare"] = _told(here, "compared", "compare", "tag:first", "latest", "--fail-on", "never", "--json")
        told |= _housekeeping(here)
        return {
            **found,
            **{f"commands/{name.replace(' --', ' ').replace(' ', '_')}": said for name, said in told.items()},
            "judge_calls": here.steps,
            "judged_report": _report(here, "tag:first"),
            "databases": _databases(here),
        }


def stopped_run(folder: Path, rows: int = 160) -> dict[str, Any]:
    """Return what a run finds whose gate is decided before all rows were judged, and what it asked."""
    lines = [
        {"case": f"c{n:04d}", "model": "m", "question": f"How deep is berth {n}?", "expected_answer": f"{n} m",
         "actual_answer": f"It is {n} m."}
        for n in range(rows)
    ]  # fmt: skip
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with desk(folder, bad=0.03) as here:
        stopping = ("--fail-on", "high", "--stop-when", "decided", *RUNNING)
        told = _told(here, "stopped", "evaluate", "rows.jsonl", "-e", "databricks.correctness", *stopping)
        return {"stopped": here.tables(FOUND) | {"told": [told], "judge_calls": [here.steps]}}


def dask_run(folder: Path) -> dict[str, Any]:
    """Return what the first judged run finds where its chunks are scored on Dask."""
    _write_samples(folder)
    with desk(folder) as here:
        here.typed("evaluate", "first.json", *JUDGED, "--dispatch", "dask")
        return {"judged": here.tables(FOUND)}


def demo_report(folder: Path) -> dict[str, Any]:
    """Return the report of the demo, as programs read it."""
    _write_samples(folder)
    with desk(folder) as here:
        here.typed("evaluate", "harbour.json", *RULES, *RUNNING)
        return {"demo_report": _report(here, "latest")}


def _write_samples(folder: Path) -> None:
    """Write the demo's dataset, and what it was before its last case came."""
    shutil.copyfile(SAMPLE, folder / "harbour.json")
    sample = json.loads((folder / "harbour.json").read_text(encoding="utf-8"))
    sample["cases"] = [case for case in sample["cases"] if case["key"] != "triage-museum"]
    sample["answers"] = [answer for answer in sample["answers"] if answer["case"] != "triage-museum"]
    (folder / "first.json").write_text(json.dumps(sample), encoding="utf-8")


def _told(here: Desk, name: str, *arguments: str) -> Any:
    return plain(json.loads(here.step(name, *arguments)), here.folder)


def _report(here: Desk, run: str) -> Any:
    here.typed("store", "export", run, "--as", "json", "-o", "report.json")
    report = plain(json.loads(Path("report.json").read_text(encoding="utf-8")), here.folder)
    for name in ("slices", "flip_rates", "flips"):
        report[name] = [*report[name][:MOST], len(report[name])]
    return report


def _read(here: Desk) -> dict[str, Any]:
    """Return what commands tell that read the latest run."""
    return {
        "show": here.json("show", "latest", "--json"),
        "case": here.json("show", "latest", "--case", "tide-springs", "--json"),
        "sql": here.json(
            "store", "sql", "SELECT metric, model_key, value FROM aggregates ORDER BY ALL", "--format", "json"
        ),
    }


def _label(here: Desk) -> None:
    """Let two people label rows of the latest run; they do not always agree."""
    here.typed("labels", "sample", "latest", "--metric", METRIC, "--n", "60", "-o", "tasks.jsonl")
    tasks = [json.loads(line) for line in Path("tasks.jsonl").read_text(encoding="utf-8").splitlines()]
    said = [
        task | {"person": person, "value": int(task["case"].startswith(blind) or not is_bad(task["answer"]))}
        for task in tasks
        for person, blind in (("anna", "none"), ("ben", "v"))
    ]
    Path("said.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said), encoding="utf-8")
    here.step("labels", "labels", "import", "said.jsonl")


def _judges(here: Desk) -> dict[str, Any]:
    """Return what commands tell of judges and labels."""
    told = {
        "labels list": here.json("labels", "list", "--json"),
        "labels report": here.json("labels", "report", "latest", "--metric", METRIC, "--json"),
        "judges certify": _told(here, "certified", "judges", "certify", "latest", "--json"),
        "judges compare": _told(here, "judges compared", "judges", "compare", "small", "other", "--json"),
    }
    here.step("enrolled", "judges", "enrol", "small", "--probes", "first.json", "--n", "20", "-e", "sexism")
    return told | {
        "judges check": _told(here, "checked", "judges", "check", "--json"),
        "judges status": here.json("judges", "status", "--json"),
    }


def _housekeeping(here: Desk) -> dict[str, Any]:
    """Return what commands tell of the store, its runs, and what there is."""
    told = {
        name: here.json(*name.split(), "--json")
        for name in ("store runs", "store tag", "store info", "evaluators policy", "evaluators policy show default",
                     "evaluators trust", "evaluators suites", "judges calls --totals", "evaluators show bleu",
                     "evaluators show faithfulness", "store verify", "store gc", "doctor")
    }  # fmt: skip
    of_machine = ("python", "extra", "weights", "disk", "clock", "limits")
    told["doctor"] = [line for line in told["doctor"] if not line["part"].startswith(of_machine)]
    ours = [line for line in here.json("evaluators", "list", "--json") if line["origin"] != "custom"]
    told["evaluators"] = {line["id"]: {name: _brief(part) for name, part in line.items()} for line in ours}
    return told


def _brief(value: Any) -> Any:
    """Return JSON, or a digest where that is long."""
    text = json.dumps(value)
    return value if len(text) <= LONG else f"{len(text)} letters, {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _databases(here: Desk) -> dict[str, Any]:
    """Return the columns of a run's database, of the views of all runs together, and of the ledger."""
    columns = """
        SELECT table_name, list(column_name || ' ' || data_type || if(is_nullable, '', ' NOT NULL')
            || coalesce(' DEFAULT ' || column_default, '') ORDER BY column_index) AS columns
        FROM duckdb_columns() WHERE NOT internal GROUP BY table_oid, table_name ORDER BY table_oid"""
    run = {line["table_name"]: line["columns"] for line in here.tables({"columns": columns})["columns"]}
    with closing(sqlite3.connect(here.folder / ".leadline" / "ledger.sqlite")) as ledger:
        names = [name for (name,) in ledger.execute("SELECT name FROM sqlite_master ORDER BY rowid")]
        tables = {name: [list(line[1:]) for line in ledger.execute(f"PRAGMA table_xinfo({name})")] for name in names}
    views = here.typed("store", "sql", VIEWS, "--format", "json")
    return {"run": run, "ledger": tables, "views": {line["view"]: line["columns"] for line in json.loads(views)}}
