"""The graph of a run in Prefect's UI: what comes after what, what steps are called, what the artifacts list."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.processes.terminal import Terminal
from tests.support.processes.waiting import eventually

pytestmark = pytest.mark.e2e

STEPS = [
    "gather", "aggregate", "slices", "flips", "changes", "corrections", "problems", "insights", "gate", "publish",
]  # fmt: skip


WORK = "leadline-evaluators"


class History:
    """What a server knows of one flow run.

    Args:
        api: Address of the API.
        run: Id of the flow run.
    """

    def __init__(self, api: str, run: str) -> None:
        self._api, self._run = api, run

    def graph(self, count: int) -> dict[str, list[str]]:
        """Return after which nodes each node is drawn, once there are so many that have ended."""

        def drawn() -> dict[str, list[str]] | None:
            reply = httpx.get(f"{self._api}/flow_runs/{self._run}/graph-v2", trust_env=False, timeout=30).json()
            nodes: dict[str, Any] = dict(reply["nodes"])
            if len(nodes) < count or any(node["end_time"] is None for node in nodes.values()):
                return None
            names = {id_: node["label"].rpartition(" / ")[0] or node["label"] for id_, node in nodes.items()}
            return {names[id_]: sorted({names[one["id"]] for one in node["parents"]}) for id_, node in nodes.items()}

        return eventually(drawn, 30, f"a graph of {count}")

    def artifact(self, key: str) -> list[dict[str, Any]]:
        """Return the lines of a table."""
        wanted = {"artifacts": {"key": {"any_": [key]}, "flow_run_id": {"any_": [self._run]}}}
        [found] = httpx.post(f"{self._api}/artifacts/filter", json=wanted, trust_env=False, timeout=30).json()
        return list(json.loads(found["data"]))


def evaluated(folder: Path, api: dict[str, str], *arguments: str) -> History:
    """Evaluate a dataset whose name is that of a form."""
    lines = [
        {"case": f"c{n}", "model": "m", "expected_answer": f"Berth {n} is deep.", "actual_answer": f"Berth {n} is."}
        for n in range(1_200)
    ]
    (folder / "a {b}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    terminal = Terminal(folder, api)
    outcome = terminal.json("--store", "store", "evaluate", "a {b}.jsonl", "--processes", "2", *arguments)
    return History(api["PREFECT_API_URL"], terminal.store().run(outcome["run"]).read()["flow_run"])


def test_each_step_is_drawn_after_the_one_before_it_under_a_name_that_says_what_it_does(
    tmp_path: Path, api: dict[str, str]
) -> None:
    choice = ("-e", "bleu", "-e", "rouge")
    history = evaluated(tmp_path, api, *choice)
    found = history.graph(15)
    scored = [f"score cpu {number} of 3" for number in (1, 2, 3)]
    chain = ["load a {b}.jsonl", "plan"]
    assert found.pop(chain[0]) == []
    assert found.pop(chain[1]) == chain[:1]
    assert [found.pop(name) for name in scored] == [["plan"]] * 3
    assert found.pop("gather") == scored
    assert found == {name: [before] for before, name in pairwise(STEPS)}

    assert [(line["evaluator"], line["rows scored"], line["computed"]) for line in history.artifact(WORK)] == [
        ("bleu", 1_200, 1_200), ("rouge", 1_200, 1_200),
    ]  # fmt: skip
    assert all(line["seconds"] > 0 for line in history.artifact(WORK))

    again = evaluated(tmp_path, api, *choice, "-e", "groundedness")
    assert again.graph(12)["gather"] == ["plan"], "nothing was left to score"
    lines = {line.pop("evaluator"): line for line in again.artifact(WORK)}
    assert lines["bleu"] == {
        "lane": "cpu", "rows scored": 1_200, "rows unscored": 0, "reused": 1_200, "computed": 0, "error": None,
        "seconds": 0.0,
    }  # fmt: skip
