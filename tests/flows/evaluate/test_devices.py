"""The device of local models: the one that was used is on record, and one that is not here ends the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.flows.dispatch.lanes import NoWorkers
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate, _follow
from leadline.flows.evaluate.steps import EvaluationSteps, Retries, _summary
from leadline.flows.shared.settings import Models
from leadline.tasks.ground.timeline import Timeline
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score.chunk import ChunkResult
from leadline.tasks.store.store import Store
from tests.support.models.tiny_models import make_embedder

CHUNK = Chunk("store", "run", "dataset", "gpu", 0, 0, 7, 8, 8)


def evaluated(folder: Path, evaluator: str = "answer_semantic_similarity", **models: Any) -> EvaluateResult:
    lines = [{"case": str(n), "expected_answer": "the quay", "actual_answer": f"quay {n}"} for n in range(3)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    embedder = folder / "embedder"
    if not embedder.exists():
        make_embedder(embedder)
    config = EvaluateConfig(
        dataset=str(folder / "rows.jsonl"), evaluators=(evaluator,), store=str(folder / "store"),
        models=Models(embedder=str(embedder), **models),
    )  # fmt: skip
    return Evaluate()(config)


@pytest.fixture
def without_cuda() -> None:
    if pytest.importorskip("torch").cuda.is_available():
        pytest.skip("This machine has CUDA")


@pytest.mark.usefixtures("without_cuda")
def test_the_device_that_was_used_is_in_record_report_and_artifact(tmp_path: Path) -> None:
    result = evaluated(tmp_path)
    store = Store.open(tmp_path / "store")
    record = store.run(result.run).read()
    assert record["devices"] == ["cpu"]
    assert record["settings"]["device"] == "auto"
    assert "<dt>Device</dt><dd>cpu</dd>" in result.report.read_text(encoding="utf-8")
    assert "| Device of models | cpu |" in _summary(result, "r", record["devices"])
    again = evaluated(tmp_path)  # runs no model
    assert again.computed == 0
    assert "devices" not in store.run(again.run).read()


@pytest.mark.usefixtures("without_cuda")
def test_a_device_that_is_not_here_ends_the_run_with_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--device cuda: There is no device 'cuda' on") as said:
        evaluated(tmp_path, device="cuda")
    assert (said.value.code, said.value.exit_code) == (ErrorCode.MODEL_DEVICE, 2)
    (run,) = Store.open(tmp_path / "store").runs()
    assert run.read()["status"] == "failed"
    assert evaluated(tmp_path, "exact_match", device="cuda").unscored == 0  # needs none


def test_a_device_that_no_worker_has_ends_the_run(tmp_path: Path) -> None:
    run = Store.open(tmp_path).new_run()
    finished = _follow(run, (CHUNK,), EvaluationSteps(), Retries(()), Timeline())
    finished(CHUNK, NoWorkers("Nobody is there."))  # leaves rows unscored
    with pytest.raises(UsageError, match="no 'cuda' there"):
        finished(CHUNK, NoWorkers("no 'cuda' there", code=ErrorCode.MODEL_DEVICE))


def test_each_device_of_several_workers_is_on_record(tmp_path: Path) -> None:
    run = Store.open(tmp_path).new_run()
    finished = _follow(run, (CHUNK,), EvaluationSteps(), Retries(()), Timeline())
    for device in ("cuda", "", "cpu", "cuda"):
        finished(CHUNK, ChunkResult(CHUNK.name, 8, 0, device=device))
    assert run.read()["devices"] == ["cpu", "cuda"]
