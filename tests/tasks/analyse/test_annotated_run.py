"""Runs over data items with annotations: what runs, what is measured, what is said of it, and what is published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.core import get
from leadline.evaluators.settings import Settings
from leadline.tasks import pipeline
from leadline.tasks.db import open_run
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.selection import Choice, applicable_to, choose
from leadline.tasks.publish.exports.exporter import publish
from leadline.tasks.score.chunk import score_chunk
from leadline.tasks.store.store import Run, Store
from tests.support.datasets.loading import as_jsonl, write

HOSTILE = '<script>alert("cat")</script>{{ 7*7 }}\u202e'
BOX = {"label": "cat", "box": [10, 10, 60, 50]}
REGION = {"label": "sea", "is_instance": False, "raster": {"size": [2, 2], "counts": [1, 3]}}
ITEMS: list[dict[str, Any]] = [
    {"case": "one", "model": "a", "expected_annotations": ["cat"], "width": 100, "height": 80,
     "predicted_annotations": [{"labels": [{"value": "cat", "score": 0.9}, {"value": "dog", "score": 0.1}]}]},
    {"case": "one", "model": "b", "predicted_annotations": [{"label": "dog", "score": 0.7}]},
    {"case": "two", "model": "a", "expected_annotations": ["dog"],
     "predicted_annotations": [{"label": HOSTILE, "score": 0.8}]},
    {"case": "two", "model": "b", "error": "timeout of the host"},
    {"case": "three", "model": "a", "expected_annotations": [{"label": "dog"}], "predicted_annotations": []},
    {"case": "three", "model": "b", "predicted_annotations": [{"label": "dog", "score": 0.6}]},
]  # fmt: skip
QUESTIONS = [{"case": "q", "model": "a", "question": "Why?", "expected_answer": "So.", "actual_answer": "So."}]


@dataclass(frozen=True)
class Ran:
    """A run that is aggregated and published."""

    store: Store
    run: Run

    def lines(self, query: str) -> list[tuple[Any, ...]]:
        with open_run(self.store, self.run) as connection:
            return connection.execute(query).fetchall()

    def details(self, evaluator: str = "valor.classification") -> dict[str, Any]:
        found = self.lines(
            "SELECT model_key, details FROM details JOIN models USING (model_id) JOIN evaluators USING (evaluator_id) "
            f"WHERE evaluator = '{evaluator}'"
        )
        return {model: json.loads(text) for model, text in found}


def ran(folder: Path, records: Sequence[dict[str, Any]], *evaluators: str) -> Ran:
    store = Store.open(folder / "store")
    loaded = load_dataset(store, write(folder, "items.jsonl", as_jsonl(records)))
    choice = Choice(tuple(get(name)() for name in evaluators), {})
    planned = pipeline.plan_run(store, loaded, choice, Settings(), model_keys=(), processes=1, config={})
    run = store.run(planned.run)
    for chunk in planned.chunks:
        score_chunk(chunk)
    for step in (
        pipeline.gather_scores,
        pipeline.aggregate_scores,
        pipeline.detect_flips,
        pipeline.detect_problems,
        pipeline.derive_insights,
    ):
        step(store, run)
    with open_run(store, run) as connection:
        publish(connection, run, run.read())
    return Ran(store, run)


@pytest.fixture(scope="module")
def classified(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return ran(tmp_path_factory.mktemp("classified"), ITEMS, "valor.classification")


def test_rows_have_values_and_models_have_those_of_all_rows_at_once(classified: Ran) -> None:
    found = {
        (metric, model): (value, scored, unscored)
        for metric, model, value, scored, unscored in classified.lines(
            "SELECT metric, model_key, value, n_scored, n_unscored FROM aggregates JOIN metrics USING (metric_id) "
            "JOIN models USING (model_id)"
        )
    }
    assert found["accuracy", "a"] == (pytest.approx(1 / 3), 3, 0)
    assert found["accuracy", "b"] == (pytest.approx(1 / 2), 2, 1)
    assert found["f1", "b"][1:] == (2, 1)
    ((reason,),) = classified.lines("SELECT DISTINCT reason FROM scores WHERE status = 'unscored'")
    assert reason == "host_error"


def test_details_are_kept_by_model_with_sizes_of_items(classified: Ran) -> None:
    details = classified.details()
    assert set(details) == {"a", "b"}
    (wrong,) = details["b"]["examples"]
    assert (wrong["case"], wrong["kind"], wrong["value"]) == ("one", "misclassification", "cat")
    assert wrong["size"] == [100, 80], "another row of the case says it"
    assert {example["case"] for example in details["a"]["examples"]} == {"two", "three"}


def test_the_page_draws_the_details_and_shows_hostile_labels_as_text(classified: Ran) -> None:
    page = (classified.run.results / "report.html").read_text("utf-8")
    assert 'id="details"' in page
    assert "Confusion matrix: class" in page
    assert page.count("<figure") > 4
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "style=" not in page.partition('id="details"')[2].partition("</section>")[0], "the page's policy forbids it"
    assert "\u202e" not in page


def test_detections_are_drawn_where_they_are_wrong(tmp_path: Path) -> None:
    records = [
        {"case": "one", "model": "a", "expected_annotations": [BOX], "width": 100, "height": 80,
         "predicted_annotations": [{"label": "dog", "box": [10, 10, 60, 52], "score": 0.8}]},
    ]  # fmt: skip
    done = ran(tmp_path, records, "valor.object_detection")
    examples = done.details("valor.object_detection")["a"]["examples"]
    assert {tuple(example["size"]) for example in examples} == {(100, 80)}
    assert any(example["expected"] and "box" in example["expected"][0] for example in examples)
    page = (done.run.results / "report.html").read_text("utf-8")
    assert 'class="truth"><path d="M30.0 30.0L' in page, "the box in a canvas of 300 by 240"


@pytest.mark.parametrize(
    ("records", "wanted", "unwanted"),
    [
        (ITEMS, {"valor.classification"}, {"pii_leakage", "valor.object_detection", "text_matching"}),
        (QUESTIONS, {"pii_leakage"}, {"valor.classification", "valor.object_detection"}),
        (
            [{"case": "1", "expected_annotations": [BOX], "predicted_annotations": []}],
            {"valor.object_detection"},
            {"valor.classification", "pii_leakage"},
        ),
        (
            [{"case": "1", "question": "What?", "expected_annotations": [BOX, "sea"], "predicted_annotations": []}],
            {"valor.object_detection", "valor.classification"},
            {"pii_leakage"},
        ),
        (
            [{"case": "1", "expected_annotations": [REGION], "predicted_annotations": [REGION]}],
            {"valor.semantic_segmentation"},
            {"valor.object_detection", "valor.classification", "pii_leakage"},
        ),
        (
            [{"case": "1", "expected_annotations": [REGION, BOX], "predicted_annotations": []}],
            {"valor.object_detection", "valor.semantic_segmentation"},
            {"pii_leakage"},
        ),
    ],
)
def test_a_dataset_gets_the_evaluators_that_it_is_for(
    tmp_path: Path, records: Sequence[dict[str, Any]], wanted: set[str], unwanted: set[str]
) -> None:
    loaded = load_dataset(Store.open(tmp_path / "store"), write(tmp_path, "d.jsonl", as_jsonl(records)))
    chosen = applicable_to(choose(None, (), {}, Settings()), loaded.path)
    ids = {evaluator.spec.id for evaluator in chosen.evaluators}
    assert wanted <= ids
    assert not unwanted & ids
    assert unwanted <= set(chosen.left_out)


def test_what_is_named_runs_whatever_the_dataset_is(tmp_path: Path) -> None:
    loaded = load_dataset(Store.open(tmp_path / "store"), write(tmp_path, "d.jsonl", as_jsonl(QUESTIONS)))
    named = applicable_to(choose("rules", ("valor.classification",), {}, Settings()), loaded.path)
    ids = {evaluator.spec.id for evaluator in named.evaluators}
    assert {"valor.classification", "bleu"} <= ids
    assert "valor.object_detection" not in ids
    alone = applicable_to(choose("vision", (), {}, Settings()), loaded.path)
    assert alone.evaluators, "what somebody asked for is not emptied: the report says that nothing could be measured"


def test_the_sample_of_the_documentation_is_measured_and_drawn(tmp_path: Path) -> None:
    sample = Path(__file__).parents[3] / "examples" / "harbour_views.jsonl"
    records = [json.loads(line) for line in sample.read_text("utf-8").splitlines()]
    done = ran(tmp_path, records, "valor.classification", "valor.object_detection")
    values = dict(
        done.lines(
            "SELECT metric || ' ' || model_key, value FROM aggregates JOIN metrics USING (metric_id) "
            "JOIN models USING (model_id) WHERE is_primary"
        )
    )
    assert values["accuracy harbour-eye-2"] == 0.95
    assert values["map harbour-eye-1"] < values["map harbour-eye-2"]
    assert (done.run.results / "report.html").read_text("utf-8").count('class="example"') > 5
