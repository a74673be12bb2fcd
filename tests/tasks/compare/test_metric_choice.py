"""What is said of metrics that two runs cannot be compared on."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from leadline.tasks.compare import metric_choice


@pytest.mark.parametrize(("judges", "said"), [(1, "40 calls, about $0.40"), (3, "120 calls, about $1.20")])
def test_judging_again_takes_a_call_of_each_judge_of_a_jury(judges: int, said: str) -> None:
    members = [{"judge": {"model": f"m{number}"}} for number in range(judges)]
    judge = {"members": members} if judges > 1 else members[0]["judge"]
    line = {
        "evaluator": "sexism",
        "params": "{}",
        "identity": json.dumps({"judge": judge}),
        "reused": 10,
        "computed": 30,
    }
    spent = {"evaluator": "sexism", "answered": 40 * judges, "cost_usd": 0.4 * judges, "unknown_price": 0}
    record = {"judge_calls": {"by_evaluator": [spent]}, "dataset_source": "rows.jsonl"}
    run = SimpleNamespace(read=lambda: record)
    assert metric_choice._again(line, run, run) == f"{said}: leadline evaluate rows.jsonl"  # type: ignore[arg-type]
