"""Steps run without Prefect: a whole evaluation, chunks that are tried again, workers that nobody can reach."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from uuid import uuid4

import httpx
import pytest

from leadline.evaluators.core import Lane
from leadline.evaluators.ground import UsageError
from leadline.flows.dispatch.lanes import open_lanes
from leadline.flows.evaluate import job, steps
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.evaluate.steps import EvaluationSteps, Retries
from leadline.flows.shared.settings import Dispatch
from leadline.tasks import pipeline
from leadline.tasks.ground.timeline import PARTS
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.score.executor import LocalLanes
from leadline.tasks.store.store import Store


def test_an_evaluation_needs_no_prefect(tmp_path: Path) -> None:
    rows = [
        {"question": f"q{n}", "answer": f"a b c {n}", "expected_answer": "a b c" if n % 2 else "d", "model": "m"}
        for n in range(20)
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    config = EvaluateConfig(dataset=str(file), evaluators=["bleu"], store=str(tmp_path / "store"))
    first, second = (Evaluate()(config) for _ in range(2))
    assert (first.computed, first.reused) == (20, 0)
    assert (second.computed, second.reused) == (0, 20)
    assert first.report.exists()


@pytest.mark.parametrize(("lane", "imports"), [("judge", True), ("cpu", False)])
def test_what_comes_after_scoring_is_imported_while_judges_are_waited_for(
    lane: Lane, imports: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = Event()
    monkeypatch.setattr(job, "AHEAD_S", 0.0)
    monkeypatch.setattr(pipeline, "import_ahead", imported.set)
    chunk = Chunk("store", "run", "dataset", lane, number=0, first=0, last=0, rows=1, scores=1)
    with job._importing_ahead([chunk]):
        assert imported.wait(10 if imports else 0.1) is imports


def test_all_that_is_imported_ahead_is_there() -> None:
    pipeline.import_ahead()


def test_a_run_records_where_its_time_went(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"question": "q", "answer": "a", "expected_answer": "a", "model": "m"}))
    config = EvaluateConfig(dataset=str(file), evaluators=["bleu"], store=str(tmp_path / "store"))
    result = Evaluate()(config)
    run = Store.open(config.store).run(result.run)
    recorded = run.read()["time"]
    assert recorded == result.time.to_json()
    assert list(recorded["parts"]) == list(PARTS)
    assert recorded["total"] == pytest.approx(sum(recorded["parts"].values()), abs=1e-9)
    assert 0 < recorded["lanes"]["cpu"] <= recorded["parts"]["score"]
    steps = recorded["steps"]["aggregate"]
    assert list(steps) == [
        "gather",
        "aggregate",
        "slices",
        "flips",
        "changes",
        "corrections",
        "problems",
        "insights",
        "gate",
    ]
    assert sum(steps.values()) <= recorded["parts"]["aggregate"]
    published = json.loads((run.results / "report.json").read_text())["record"]["time"]
    assert list(published["parts"]) == list(PARTS[: PARTS.index("publish")]), "the report is written before the end"
    assert "until this page was written" in (run.results / "report.html").read_text()


def test_workers_are_reached_through_a_server_only() -> None:
    assert EvaluationSteps().workers(Dispatch.AUTO, ["cpu"], 1) == {}
    with pytest.raises(UsageError, match="Prefect server"):
        EvaluationSteps().workers(Dispatch.WORKERS, ["cpu"], 1)


@pytest.mark.parametrize(("failures", "attempts"), [(2, 3), (9, 3)])
def test_a_chunk_that_fails_is_tried_again_twice(monkeypatch: pytest.MonkeyPatch, failures: int, attempts: int) -> None:
    asked: list[Chunk] = []
    ended: list[ChunkResult | BaseException] = []

    def score(lanes: LocalLanes, chunk: Chunk) -> ChunkResult:
        asked.append(chunk)
        if len(asked) <= failures:
            raise OSError("no room")
        return ChunkResult(chunk.name, chunk.scores, 0)

    monkeypatch.setattr(steps, "RETRY_DELAYS_S", (0.0, 0.0))
    monkeypatch.setattr(LocalLanes, "score", score)
    chunks = [Chunk(store="s", run="r", dataset="d", lane="cpu", number=0, first=0, last=9, rows=10, scores=10)]
    lanes = open_lanes(1, chunks, {}, Dispatch.AUTO, EvaluationSteps())
    EvaluationSteps().score(chunks, lanes, Retries(()), lambda _, result: ended.append(result))
    assert len(asked) == attempts
    assert isinstance(ended[0], ChunkResult if failures < attempts else OSError)


def test_progress_is_not_shown_to_a_server_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    from leadline.flows.evaluate import prefect_steps

    tried: list[float] = []

    def update(_: object, progress: float) -> None:
        tried.append(progress)
        if progress >= 2:
            raise httpx.ConnectError("gone")

    monkeypatch.setattr(prefect_steps, "create_progress_artifact", lambda **_: uuid4())
    monkeypatch.setattr(prefect_steps, "update_progress_artifact", update)
    progress = prefect_steps.Progress(100)
    for done in range(1, 50):
        progress.update(done)
    assert tried == [1, 2]
