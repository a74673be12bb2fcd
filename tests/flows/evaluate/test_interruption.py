"""Interruption of a run without Prefect."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.shared.settings import Judges
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.worker_farm import wait_for


def test_an_interrupted_run_asks_the_judge_no_more(tmp_path: Path) -> None:
    rows = [{"question": f"Q{n}?", "expected_answer": "E", "actual_answer": f"A{n}"} for n in range(200)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reply = json.dumps({"rationale": "Because.", "rating": "yes"})
    with serving(JudgeEndpoint(lambda _: reply, latency=0.2)) as endpoint:
        (tmp_path / "judges.toml").write_text(
            f'[judges.scripted]\nmodel = "openai/judge"\napi_base = "{endpoint.url}"\nmax_in_flight = 4\n'
        )

        def interrupt() -> None:
            wait_for(lambda: len(endpoint.log) > 8, 60, "questions")
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        config = EvaluateConfig(
            dataset=str(tmp_path / "rows.jsonl"), evaluators=("databricks.correctness",),
            store=str(tmp_path / "store"), judges=Judges(config=str(tmp_path / "judges.toml")), dispatch="inline",
        )  # fmt: skip
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            Evaluate()(config)
        asked = len(endpoint.log)
        time.sleep(0.5)
        assert len(endpoint.log) == asked
    assert asked < 150, "it gave up what was in work"
    states = Counter(ask["state"] for ask in read_ledger(Store.open(tmp_path / "store")).asks())
    assert states == {"answered": asked}, "what was in flight is paid for, and kept"
