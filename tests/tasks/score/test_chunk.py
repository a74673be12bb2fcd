"""A chunk: what one evaluator does costs no other, and results do not wait in memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import numpy as np
import pytest

from leadline.evaluators.core import EvalContext, Evaluator, Lane, Metric, RowEvaluator, Spec
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import ModelRef
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.score import chunk as scoring
from leadline.tasks.score.chunk import score_chunk
from leadline.tasks.store import parquet_files
from leadline.tasks.store.store import Store
from tests.support.stores.scoring import planned, registered

ANSWERS: list[dict[str, Any]] = [{"case": f"c{n}", "model": "m", "answer": f"answer {n}"} for n in range(25)]


def spec(id_: str, lane: Lane = "cpu") -> Spec:
    return Spec(
        id=f"test.{id_}",
        name=id_,
        family="generation",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(Metric("m", "M", higher_is_better=True, primary=True),),
        lane=lane,
    )


class Sound(RowEvaluator):
    """Finds every answer good, and looks at what stands in the store meanwhile."""

    spec = spec("sound")
    store: ClassVar[Path]
    temporary: ClassVar[list[int]] = []

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        self.temporary.append(len(list(self.store.glob("scores/**/*.tmp"))))
        return RowScore({"m": 1.0}, Evidence(f"all of {row.actual_answer}"))


class Unprepared(RowEvaluator):
    """Cannot say which texts it will embed."""

    spec = spec("unprepared")

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        if any(row.case == "c3" for row in rows):
            raise ValueError("c3 has no sentence")
        return {}

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        if row.case == "c3":
            raise ValueError("c3 has no sentence")
        return RowScore({"m": 1.0})


class SoundModel(RowEvaluator):
    """Finds every answer good, on the lane of models."""

    spec = spec("sound_model", "gpu")

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        return RowScore({"m": 1.0})


class Homeless(SoundModel):
    """Cannot say here which model it needs, although it could where the run was planned."""

    spec = spec("homeless", "gpu")
    here: ClassVar[bool]

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        if self.here:
            raise ValueError("no such model")
        return ()


class Sloppy(RowEvaluator):
    """Gives evidence that no file can hold."""

    spec = spec("sloppy")

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        value = {"numpy": np.float32(1)} if row.case != "c3" else {"set": {1}}
        return RowScore({"m": np.float32(0.5)}, Evidence(data=value))  # type: ignore[dict-item]


class Embedding(RowEvaluator):
    """Needs a judge and an embedder."""

    spec = spec("embedding", "judge")
    asked: ClassVar[threading.Event] = threading.Event()

    def texts_to_embed(self, rows: Sequence[Row], ctx: EvalContext) -> Mapping[ModelRef, Iterable[str]]:
        return {ModelRef("embedder", "slow", "main"): ["text"]}

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        self.asked.set()
        return RowScore({"m": 1.0})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    Sound.store = tmp_path
    Sound.temporary.clear()
    with registered(Sound, Unprepared, SoundModel, Homeless, Sloppy, Embedding):
        yield Store.open(tmp_path)


def scored(store: Store, kind: type[Evaluator]) -> int:
    files = store.root.glob(f"scores/{kind.spec.id}/*/*.parquet")
    return sum(len(duckdb.read_parquet(str(file)).fetchall()) for file in files)


def unscored(store: Store, chunk: Chunk) -> list[tuple[Any, ...]]:
    path = store.run(chunk.run).unscored / f"{chunk.name}.parquet"
    return duckdb.sql(f"SELECT reason, message FROM read_parquet('{path}')").fetchall()


def test_an_evaluator_that_cannot_say_what_it_will_embed_answers_for_its_own_rows(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    _, (chunk,) = planned(store, [Unprepared(), Sound()], ANSWERS)
    with caplog.at_level(logging.WARNING, "leadline.score"):
        result = score_chunk(chunk)
    assert (result.scored, result.unscored) == (49, 1)
    assert (scored(store, Unprepared), scored(store, Sound)) == (24, 25)
    assert unscored(store, chunk) == [(Reason.EVALUATOR_ERROR, "ValueError: c3 has no sentence")]
    told = "test.unprepared cannot determine which texts it will embed: ValueError: c3 has no sentence"
    assert [record.getMessage() for record in caplog.records if record.name == "leadline.score"] == [told]


def test_a_judge_is_asked_while_the_embedder_loads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    Embedding.asked.clear()
    met: list[bool] = []

    def embed(*_: Any, steady: bool, **__: Any) -> None:
        met.append(steady and Embedding.asked.wait(20))

    monkeypatch.setattr(EvalContext, "embed", embed)
    _, (chunk,) = planned(store, [Embedding()], ANSWERS)
    assert score_chunk(chunk).scored == 25
    assert met == [True]


def test_an_evaluator_that_cannot_say_which_model_it_needs_costs_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Homeless, "here", False, raising=False)
    _, (chunk,) = planned(store, [Homeless(), SoundModel()], ANSWERS)
    monkeypatch.setattr(Homeless, "here", True)
    score_chunk(chunk)
    assert scored(store, SoundModel) == 25


def test_evidence_that_no_file_can_hold_costs_its_row_and_no_other(store: Store) -> None:
    _, (chunk,) = planned(store, [Sloppy(), Sound()], ANSWERS)
    result = score_chunk(chunk)
    assert (result.scored, result.unscored) == (49, 1)
    assert unscored(store, chunk) == [(Reason.EVALUATOR_ERROR, "TypeError: set is not JSON")]


def test_what_was_scored_is_written_before_the_next_batch_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "GROUP_BYTES", 1)
    monkeypatch.setitem(scoring.BATCH_ROWS, "cpu", 10)
    _, (chunk,) = planned(store, [Sound()], ANSWERS)
    assert score_chunk(chunk).scored == 25
    assert Sound.temporary == [0] * 10 + [1] * 15
    assert scored(store, Sound) == 25
    assert not list(store.root.glob("scores/**/*.tmp"))


def test_a_chunk_that_breaks_off_leaves_no_segment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "GROUP_BYTES", 1)
    monkeypatch.setitem(scoring.BATCH_ROWS, "cpu", 10)
    _, (chunk,) = planned(store, [Sound()], ANSWERS)

    def breaking(*arguments: Any, **options: Any) -> Iterator[Any]:
        for number, batch in enumerate(reading(*arguments, **options)):
            if number == 2:
                raise OSError("the disk is gone")
            yield batch

    reading = scoring.read_planned
    monkeypatch.setattr(scoring, "read_planned", breaking)
    with pytest.raises(OSError, match="the disk is gone"):
        score_chunk(chunk)
    assert not [path for path in store.root.glob("scores/**/*") if path.is_file()]
    monkeypatch.setattr(scoring, "read_planned", reading)
    assert score_chunk(chunk).scored == 25
