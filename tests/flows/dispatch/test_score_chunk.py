"""The scoring flow as a worker runs it, without a server."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prefect.client.schemas.objects import StateType

from leadline.evaluators.settings import Settings
from leadline.evaluators.summarization.rouge import Rouge
from leadline.flows.dispatch import score_chunk as module
from leadline.flows.dispatch.score_chunk import JUDGE_DOWN, LONGEST, NO_DEVICE, UNFIT, read_result, take_outcome
from leadline.tasks import pipeline
from leadline.tasks.db import open_run
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.plan.selection import choose
from leadline.tasks.score.chunk import ChunkResult, JudgeDown
from leadline.tasks.store.store import JOBS, Store
from tests.support.models.fake_hub import model_files, write_folder

ROWS = 2_100


@pytest.fixture
def planned(tmp_path: Path) -> tuple[Store, pipeline.Planned]:
    lines = [
        {"case": f"c{n}", "model": "m", "expected_answer": f"It is {n} m.", "actual_answer": f"It is {n} metres."}
        for n in range(ROWS)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    store, settings = Store.open(tmp_path / "store"), Settings()
    choice = choose(None, ("rouge", "encoding_guardrail"), {}, settings)
    return store, pipeline.plan_run(
        store, load_dataset(store, tmp_path / "rows.jsonl"), choice, settings,
        model_keys=(), processes=2, config={}, workers={"cpu": 1},
    )  # fmt: skip


def score(*chunks: Chunk) -> Any:
    return module.score_in_turn(chunks, lambda chunk: module.score_one(chunk, "shard"))


@pytest.mark.slow
def test_a_large_chunk_is_scored_in_parts_and_says_how_much_it_scored(planned: tuple[Store, pipeline.Planned]) -> None:
    store, plan = planned
    (chunk,) = plan.chunks
    assert chunk.scores == 2 * ROWS
    state = score(chunk)
    assert state.type == StateType.COMPLETED
    assert state.message == "1 chunk scored"
    result = read_result(chunk, take_outcome(chunk, "shard"))
    assert result.spans, "what the profile and the table of evaluators need comes too"
    assert (result.chunk, result.scored, result.unscored) == ("cpu-0000", 2 * ROWS, 0)
    segments = sorted(store.root.glob("scores/rouge/*/*.parquet"))
    assert len(segments) == 16
    before = [path.read_bytes() for path in segments]
    score(chunk)
    assert [path.read_bytes() for path in sorted(store.root.glob("scores/rouge/*/*.parquet"))] == before
    run = store.run(plan.run)
    pipeline.gather_scores(store, run)
    with open_run(store, run, read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM scores WHERE status = 'unscored'").fetchall() == [(0,)]
        assert connection.execute("SELECT count(DISTINCT row_id) FROM scores").fetchall() == [(ROWS,)]


def test_a_chunk_of_a_run_that_has_ended_is_not_scored(planned: tuple[Store, pipeline.Planned]) -> None:
    store, plan = planned
    store.run(plan.run).update({"status": "failed"})
    state = score(plan.chunks[0])
    assert state.type == StateType.CANCELLED
    assert not list(store.root.glob("scores/rouge/*/*.parquet"))


def test_a_worker_that_does_not_see_the_store_says_so(planned: tuple[Store, pipeline.Planned], tmp_path: Path) -> None:
    state = score(replace(planned[1].chunks[0], store=str(tmp_path / "elsewhere")))
    assert (state.type, state.name) == (StateType.FAILED, UNFIT)
    assert "does not see the run" in state.message


def test_a_worker_with_another_version_of_an_evaluator_scores_nothing(
    planned: tuple[Store, pipeline.Planned], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = planned
    monkeypatch.setattr(Rouge, "spec", replace(Rouge.spec, version="another"))
    state = score(plan.chunks[0])
    assert (state.type, state.name) == (StateType.FAILED, UNFIT)
    assert "rouge is not the same on this worker as where the run was planned: its version differs" in state.message
    assert not list(store.root.glob("scores/*/*/*.parquet"))


def test_a_worker_without_the_folder_of_a_model_or_with_an_empty_one_scores_nothing(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "embedder", model_files())
    chunk = planned_with(tmp_path, folder)
    state = score(chunk)
    assert (state.type, state.name) == (StateType.FAILED, UNFIT)
    assert f"does not have what groundedness needs: '{folder}' names no model" in state.message
    folder.mkdir()
    state = score(chunk)
    assert (state.type, state.name) == (StateType.FAILED, UNFIT)


def test_a_worker_without_the_users_evaluators_scores_nothing(
    planned: tuple[Store, pipeline.Planned], tmp_path: Path
) -> None:
    store, plan = planned
    jobs = store.run(plan.run).plan / JOBS
    document = json.loads(jobs.read_text(encoding="utf-8"))
    document["settings"]["evaluators_dir"] = str(tmp_path / "nowhere")
    jobs.write_text(json.dumps(document), encoding="utf-8")
    state = score(plan.chunks[0])
    assert (state.type, state.name) == (StateType.FAILED, UNFIT)
    assert "does not have what the run was planned with: There is no folder" in state.message


@pytest.mark.skipif("__import__('torch').cuda.is_available()", reason="This machine has CUDA")
def test_a_worker_without_the_device_that_the_run_asks_for_scores_nothing(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "embedder", model_files())
    state = score(planned_with(tmp_path, folder, device="cuda"))
    assert (state.type, state.name) == (StateType.FAILED, NO_DEVICE)
    assert "--device cuda: There is no device 'cuda' on this machine." in state.message


def planned_with(folder: Path, embedder: Path, device: str = "auto") -> Chunk:
    """Plan one row with a model in a folder, and take that away."""
    settings = Settings(embedder=str(embedder), device=device)
    line = {
        "case": "c", "model": "m", "expected_answer": "5 m.", "actual_answer": "It is 5 m.",
        "retrieved_context": ["The quay is 5 m deep."],
    }  # fmt: skip
    (folder / "row.jsonl").write_text(json.dumps(line), encoding="utf-8")
    store = Store.open(folder / "store")
    plan = pipeline.plan_run(
        store, load_dataset(store, folder / "row.jsonl"), choose(None, ("groundedness",), {}, settings), settings,
        model_keys=(), processes=1, config={}, workers={"gpu": 1},
    )  # fmt: skip
    shutil.rmtree(embedder)
    return plan.chunks[0]


def test_a_judge_that_is_down_is_the_name_of_the_state(
    planned: tuple[Store, pipeline.Planned], monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(chunk: Chunk) -> ChunkResult:
        raise JudgeDown("no verdict for some rows")

    monkeypatch.setattr(module, "score_on_all_cores", down)
    state = score(planned[1].chunks[0])
    assert (state.type, state.name) == (StateType.FAILED, JUDGE_DOWN)
    assert "no verdict for some rows" in state.message


def test_a_chunk_that_fails_takes_no_others_with_it(
    planned: tuple[Store, pipeline.Planned], monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [replace(planned[1].chunks[0], number=number) for number in range(3)]

    def second_fails(chunk: Chunk) -> ChunkResult:
        if chunk.number == 1:
            raise OSError("no room")
        return ChunkResult(chunk.name, 5, 0)

    monkeypatch.setattr(module, "score_on_all_cores", second_fails)
    state = score(*chunks)
    assert (state.type, state.name) == (StateType.FAILED, "Failed")
    assert state.message == "1 of 3 chunks failed: OSError: no room"
    assert [read_result(chunk, take_outcome(chunk, "shard")).scored for chunk in (chunks[0], chunks[2])] == [5, 5]
    assert take_outcome(chunks[1], "another attempt") is None
    assert take_outcome(chunks[1], "shard") == {"failed": "Failed", "message": "OSError: no room"}
    assert take_outcome(chunks[1], "shard") is None, "it was taken away"


def test_no_message_is_longer_than_people_read_and_nothing_is_lost_by_that(
    planned: tuple[Store, pipeline.Planned], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(chunk: Chunk) -> ChunkResult:
        raise JudgeDown("no verdict" * 100)

    monkeypatch.setattr(module, "score_on_all_cores", fails)
    chunk = planned[1].chunks[0]
    states = []

    def one(chunk: Chunk) -> Any:
        states.append(module.score_one(chunk, "shard"))
        return states[-1]

    states.append(module.score_in_turn([chunk, replace(chunk, number=1)], one))
    assert [len(state.message) for state in states] == [LONGEST] * 3
    assert {state.name for state in states} == {JUDGE_DOWN}
    assert (take_outcome(chunk, "shard") or {})["message"] == "no verdict" * 100


@pytest.mark.parametrize("left", ["", "{", "[]", '{"chunk": "x"}', "null"])
def test_counts_that_were_lost_cost_nothing(planned: tuple[Store, pipeline.Planned], left: str) -> None:
    store, plan = planned
    (chunk,) = plan.chunks
    assert read_result(chunk, take_outcome(chunk, "shard")) == ChunkResult(chunk.name, chunk.scores, 0)
    folder = store.run(plan.run).outcomes
    folder.mkdir()
    (folder / "cpu-0000-shard.json").write_text(left)
    assert read_result(chunk, take_outcome(chunk, "shard")) == ChunkResult(chunk.name, chunk.scores, 0)
