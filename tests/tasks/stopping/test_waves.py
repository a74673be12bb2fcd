"""Waves: how many, in which order, and which rows of a plan each has."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from leadline.evaluators.core import get
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks import pipeline
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.selection import Choice
from leadline.tasks.stopping.waves import number_of_waves, wave_of, wave_part
from leadline.tasks.store.store import Run, Store


@pytest.mark.parametrize(
    ("clusters", "parts", "first"),
    [(0, 1, 1), (10, 1, 1), (49, 1, 1), (50, 2, 2), (100, 4, 2), (499, 19, 2), (500, 20, 2), (2_000, 20, 1)],
)
def test_there_are_at_most_20_waves_and_50_cases_in_the_first(clusters: int, parts: int, first: int) -> None:
    assert number_of_waves(clusters) == (parts, first)


def test_a_part_of_the_plan_names_its_wave() -> None:
    assert [wave_of(wave_part(wave)) for wave in (0, 3, 19)] == [0, 3, 19]
    assert wave_of("") == wave_of("trials") == 0


def plan(folder: Path, cases: list[str], copies: dict[str, str] | None = None) -> tuple[Store, Run, pipeline.Planned]:
    copies = copies or {}
    folder.mkdir(exist_ok=True)
    lines = [
        {"case": case, "model": model, "question": f"How deep is berth {case}?", "actual_answer": f"{model}: {case} m",
         "relationships": [{"type": "perturbation_source", "target": copies[case]}] if case in copies else []}
        for case in cases
        for model in ("a", "b")
    ]  # fmt: skip
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    store = Store.open(folder / "store")
    settings = Settings(judges=(JudgeConfig(model="openai/judge", api_base="http://127.0.0.1:1/v1"),))
    choice = Choice((get("databricks.relevance_to_query")(), get("bleu")()), {})
    planned = pipeline.plan_run(
        store, load_dataset(store, path), choice, settings, model_keys=(), processes=1, config={}, in_waves=True
    )
    return store, store.run(planned.run), planned


def waves_of(run: Run) -> dict[str, set[int]]:
    """Return the waves of each case's rows."""
    with duckdb.connect(str(run.database), read_only=True) as connection:
        dataset = run.path.parent.parent / "datasets" / run.read()["dataset"]
        found: dict[str, set[int]] = {}
        for case, wave in connection.execute(
            f"SELECT case_key, wave FROM waves JOIN '{dataset}/rows.parquet' USING (row_id) "
            f"JOIN '{dataset}/cases.parquet' USING (case_id)"
        ).fetchall():
            found.setdefault(case, set()).add(wave)
    return found


def test_all_rows_of_a_case_are_in_one_wave_and_each_wave_has_a_file_of_its_own(tmp_path: Path) -> None:
    _, run, planned = plan(tmp_path, [f"c{n}" for n in range(200)])
    waves = waves_of(run)
    assert all(len(each) == 1 for each in waves.values())
    sizes = [sum(each == {wave} for each in waves.values()) for wave in range(planned.waves)]
    assert sizes == [50, *[25] * 6]
    rows = [len(pq.read_table(run.plan / f"judge-{wave_part(wave)}.parquet")) for wave in range(planned.waves)]
    assert rows == [2 * size for size in sizes]
    for wave in range(planned.waves):
        ids = pq.read_table(run.plan / f"judge-{wave_part(wave)}.parquet")["row_id"].to_pylist()
        assert ids == sorted(ids)
    assert sum(chunk.scores for chunk in planned.chunks if chunk.lane == "judge") == 400


def test_the_order_does_not_follow_the_file(tmp_path: Path) -> None:
    waves = waves_of(plan(tmp_path, [f"c{n:03d}" for n in range(200)])[1])
    early = {case for case, each in waves.items() if each == {0}}
    assert early != {f"c{n:03d}" for n in range(50)}
    assert 5 < sum(case < "c100" for case in early) < 45


def test_a_second_run_of_the_dataset_has_the_same_waves(tmp_path: Path) -> None:
    cases = [f"c{n}" for n in range(100)]
    assert waves_of(plan(tmp_path, cases)[1]) == waves_of(plan(tmp_path, cases)[1])
