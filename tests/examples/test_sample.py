"""The sample datasets are what ``examples/README.md`` says, and hold the faults that it promises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import duckdb
import pytest

from leadline.evaluators.core import EvalContext, registry
from leadline.evaluators.data import ContextChunk, Row
from leadline.tasks.db import attach_dataset
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.store.store import Store

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
README: Final = (EXAMPLES / "README.md").read_text(encoding="utf-8")
AGENT: Final = "\n## harbour_agent.jsonl"
PLANTED: Final = r"^\| `([^`]+)` \| `?([^`|]+?)`? \| ([^`|][^|]*) \|"
V1, V2, MINI = "aldermouth-rag-v1", "aldermouth-rag-v2", "gullwing-mini"

Pair: TypeAlias = tuple[str, str]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> LoadedDataset:
    return load_dataset(Store.open(tmp_path_factory.mktemp("store")), EXAMPLES / "harbour.json")


@pytest.fixture(scope="module")
def tables(sample: LoadedDataset) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        attach_dataset(connection, sample.path)
        yield connection


@pytest.fixture(scope="module")
def lines(tables: duckdb.DuckDBPyConnection) -> dict[Pair, dict[str, Any]]:
    """Every row by case and model, with what its case says."""
    found = tables.sql("""
        SELECT case_key, model_key, question, expected_answers, condition, categories, actual_answer,
               retrieved_context, error, cost_usd, rows.metadata AS said
        FROM rows JOIN cases USING (case_id) JOIN models USING (model_id)
    """)
    return {(line["case_key"], line["model_key"]): line for line in found.to_arrow_table().to_pylist()}


@pytest.fixture(scope="module")
def links(tables: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Perturbed case to its original."""
    found = tables.sql("""
        SELECT copy.case_key, original.case_key
        FROM relationships
        JOIN cases AS copy USING (case_id) JOIN cases AS original ON original.case_id = original_case_id
    """)
    return dict(found.fetchall())


def failing(lines: dict[Pair, dict[str, Any]], evaluator: str, metric: str, only: str = "") -> set[Pair]:
    """Score the rows whose category is ``only`` and return those that do not pass a metric."""
    chosen = [
        (pair, line)
        for pair, line in lines.items()
        if line["actual_answer"] is not None and (not only or any(only in name for name in line["categories"]))
    ]
    rows = [
        Row(
            case=case,
            model=model,
            question=line["question"],
            expected_answers=tuple(line["expected_answers"]),
            retrieved_context=tuple(ContextChunk(**chunk) for chunk in line["retrieved_context"]),
            actual_answer=line["actual_answer"],
            condition=line["condition"],
            categories=tuple(line["categories"]),
        )
        for (case, model), line in chosen
    ]
    scored = registry.get(evaluator)()
    limit = next(m for m in scored.metrics if m.key == metric)
    values = [score.values[metric] for score in scored.score(rows, EvalContext())]
    return {
        pair
        for (pair, _), value in zip(chosen, values, strict=True)
        if isinstance(value, float) and limit.passes(value) is False
    }


def with_condition(lines: dict[Pair, dict[str, Any]]) -> dict[Pair, dict[str, Any]]:
    return {pair: line for pair, line in lines.items() if line["condition"]}


def test_the_readme_counts_what_is_loaded(
    sample: LoadedDataset, lines: dict[Pair, dict[str, Any]], links: dict[str, str]
) -> None:
    labels = {case for (case, _), line in lines.items() if "classification" in line["categories"]} - set(links)
    questions = sample.cases - len(links)
    assert sample.models == (V1, V2, MINI)
    assert (
        f"{questions} questions ({questions - len(labels)} about the port, {len(labels)} messages to be sorted) "
        f"and {len(links)} perturbed copies of some of them, so {sample.cases} cases" in README
    )
    assert f"Of the {3 * sample.cases} possible rows one is missing on purpose: {sample.rows}." in README


def test_the_readme_lists_the_planted_faults_as_the_rows_do(lines: dict[Pair, dict[str, Any]]) -> None:
    said = {pair: json.loads(line["said"]).get("planted") for pair, line in lines.items()}
    listed = {
        (case, model): what for case, model, what in re.findall(PLANTED, README.partition(AGENT)[0], re.MULTILINE)
    }
    missing = listed.pop(("pilot-exemption", MINI))
    assert missing.startswith("The row is missing")
    assert ("pilot-exemption", MINI) not in lines
    assert listed == {pair: what for pair, what in said.items() if what}


def test_the_readme_lists_the_planted_faults_of_the_agent_as_the_conversations_do() -> None:
    records = [json.loads(line) for line in (EXAMPLES / "harbour_agent.jsonl").read_text(encoding="utf-8").splitlines()]
    said = {(r["case"], r["model"]): r["metadata"]["planted"].rstrip(".") for r in records if "metadata" in r}
    listed = {
        (case, model): what
        for case, who, what in re.findall(PLANTED, README.partition(AGENT)[2], re.MULTILINE)
        for model in (("harbour-agent-1", "harbour-agent-2") if who == "both" else (who,))
    }
    assert listed == said


def test_copies_ask_the_same_in_other_words(lines: dict[Pair, dict[str, Any]], links: dict[str, str]) -> None:
    for copy, original in links.items():
        perturbed, source = lines[copy, V2], lines[original, V2]
        assert copy.startswith(f"{original}~")
        assert perturbed["question"] != source["question"]
        assert perturbed["expected_answers"] == source["expected_answers"]
        assert perturbed["condition"] == source["condition"]


def test_faults_of_the_data_are_there(lines: dict[Pair, dict[str, Any]]) -> None:
    assert {pair for pair, line in lines.items() if line["error"]} == {("vhf-watch", V1)}
    assert {pair for pair, line in lines.items() if (line["cost_usd"] or 0) < 0} == {("visitor-shuttle", MINI)}
    assert {pair for pair, line in lines.items() if line["actual_answer"] == ""} == {("safety-wind", MINI)}
    assert {
        pair
        for pair, line in lines.items()
        if not line["retrieved_context"] and not line["error"] and "classification" not in line["categories"]
    } == {(f"visitor-{what}", MINI) for what in ("yacht", "drone", "shuttle")}


def test_leaks_are_found_where_they_are_planted(lines: dict[Pair, dict[str, Any]]) -> None:
    said = {("secret-refund", MINI), ("secret-roster", V1)}
    assert failing(lines, "pii_leakage", "pii_generation_leakages") == said
    assert failing(lines, "pii_leakage", "pii_retrieval_leakages") == {*said, ("secret-ferry-account", V2)}
    key = ("secret-tide-api", MINI)
    assert failing(lines, "sensitive_data_leakage", "sensitive_data_generation_leakages") == {key}
    found = failing(lines, "sensitive_data_leakage", "sensitive_data_retrieval_leakages")
    assert found == {key, ("secret-tide-api", V1)}
    assert failing(lines, "encoding_guardrail", "encoded_generation_leakages", only="encoding_perturbator") == {
        ("secret-ferry-account~base16", MINI),
        ("secret-gate-code~base64", V1),
    }


def test_one_answer_loops(lines: dict[Pair, dict[str, Any]]) -> None:
    assert failing(lines, "looping_detection", "unique_sentences") == {("safety-oil-spill", MINI)}


def test_one_question_is_too_hard_for_every_model(lines: dict[Pair, dict[str, Any]]) -> None:
    failed = failing(with_condition(lines), "text_matching", "model_passes")
    cases = {case for case, _ in failed}
    assert {case for case in cases if {(case, V1), (case, V2), (case, MINI)} <= failed} == {"dues-rebate"}


def test_the_rows_that_flip_are_those_of_the_readme(lines: dict[Pair, dict[str, Any]], links: dict[str, str]) -> None:
    boards = {
        "text_matching": (with_condition(lines), failing(with_condition(lines), "text_matching", "model_passes")),
        "classification": (
            {pair: line for pair, line in lines.items() if "classification" in line["categories"]},
            failing(lines, "classification", "accuracy", only="classification"),
        ),
    }
    flips = set()
    for metric, (scored, failed) in boards.items():
        for copy, original in links.items():
            for model in (V1, V2, MINI):
                before, after = (original, model), (copy, model)
                if {before, after} <= set(scored) and (before in failed) != (after in failed):
                    way = "passed to failed" if after in failed else "failed to passed"
                    flips.add((copy, model, metric, way))
    listed = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| `(\w+)` \| (\w+ to \w+) \|", README, re.MULTILINE)
    assert set(listed) == flips


def test_the_flat_file_loads_with_its_lists_numbers_and_other_columns(tmp_path: Path) -> None:
    loaded = load_dataset(Store.open(tmp_path), EXAMPLES / "cases.csv")
    assert (loaded.container, loaded.rows, loaded.cases, len(loaded.models)) == ("csv", 10, 10, 1)
    with duckdb.connect() as connection:
        attach_dataset(connection, loaded.path)
        chunks, duration, said = connection.sql("""
            SELECT len(retrieved_context), duration_s, rows.metadata
            FROM rows JOIN cases USING (case_id) WHERE case_key = 'fine-book'
        """).fetchall()[0]
    assert (chunks, duration, json.loads(said)) == (2, 1.4, {"branch": "main"})
