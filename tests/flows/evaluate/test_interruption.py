"""Interruption of a run without Prefect."""

from __future__ import annotations

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
from tests.support.judges.berths import passing, write_berths
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.waiting import eventually


def test_an_interrupted_run_asks_the_judge_no_more(tmp_path: Path) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", 200)
    with serving(JudgeEndpoint(passing(1.0), latency=0.2)) as endpoint:
        (tmp_path / "judges.toml").write_text(endpoint.toml(max_in_flight=4))

        def interrupt() -> None:
            eventually(lambda: len(endpoint.log) > 8, 60, "questions")
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        config = EvaluateConfig(
            dataset=str(dataset), evaluators=("databricks.correctness",),
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
