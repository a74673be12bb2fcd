"""The files that a comparison leaves."""

from __future__ import annotations

import json
from pathlib import Path

from leadline.tasks.compare import Margins, Options, compare
from leadline.tasks.store.store import Store
from tests.tasks.compare.two_runs import completed


class TestFiles:
    def test_the_same_question_has_the_same_folder_and_replaces_it(self, store: Store, tmp_path: Path) -> None:
        before, after = completed(tmp_path, {"m": [0.5, 0.7]}), completed(tmp_path, {"m": [0.6, 0.7]})
        first = compare(store, before.id, after.id)
        (first.folder / "left over").touch()
        again = compare(store, before.id, after.id, Options(output=tmp_path / "copy"))
        assert first.id == again.id
        assert again.folder == tmp_path / "copy"
        names = {"comparison.json", "report.html", "report.md", "flips.csv"}
        assert {path.name for path in first.folder.iterdir()} == {path.name for path in again.folder.iterdir()} == names
        other = compare(store, before.id, after.id, Options(Margins(0.1)))
        assert other.id != first.id

    def test_the_record_holds_everything(self, store: Store, tmp_path: Path) -> None:
        before, after = completed(tmp_path, {"m": [0.7, 0.7]}), completed(tmp_path, {"m": [0.3, 0.7]})
        found = compare(store, before.id, after.id)
        record = json.loads((found.folder / "comparison.json").read_text())
        assert (record["schema"], record["verdict"], record["baseline"]["run"]) == (
            "leadline.comparison",
            found.verdict,
            before.id,
        )
        (metric,) = record["metrics"]
        assert metric["key"] == "toy.value"
        assert metric["coverage"]["share"] == 1
        assert metric["changed_rows"][0] | {"expected": None} == {
            "case": "c000", "direction": "passed_to_failed", "baseline": 0.7, "candidate": 0.3,
            "question": "What is c000?", "expected": None,
            "baseline_answer": "c000 by m", "candidate_answer": "c000 by m",
            "baseline_turn": None, "candidate_turn": None,
        }  # fmt: skip
        assert after.id in (found.folder / "report.md").read_text()

    def test_neither_run_is_touched(self, store: Store, tmp_path: Path) -> None:
        before, after = completed(tmp_path, {"m": [0.7]}), completed(tmp_path, {"m": [0.3]})
        contents = [path.read_bytes() for run in (before, after) for path in sorted(run.path.iterdir())]
        compare(store, before.id, after.id)
        assert contents == [path.read_bytes() for run in (before, after) for path in sorted(run.path.iterdir())]
