"""Failure clusters: failing answers with something in common, as a problem of their own or as a part of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.models.vectors import MemoryVectors, text_digest
from leadline.evaluators.models.weights import identity_digest
from leadline.tasks.analyse.aggregate import aggregate
from leadline.tasks.analyse.findings.failure_clusters import SURE, over_represented
from leadline.tasks.analyse.findings.problems import find_problems
from leadline.tasks.analyse.text_clusters import clusters as divided
from leadline.tasks.analyse.text_clusters import text_vectors
from leadline.tasks.db import open_run
from leadline.tasks.policy.policy import Role, Rule
from tests.support.stores.problem_factory import GROUPED, problems
from tests.support.stores.run_factory import Given, Toy, answer, make_run, table

TOPICS = ("tide gauge height", "crane hire rate", "ferry ticket office", "berth shore power", "customs form stamp")


def run_of(failing: dict[str, float], *, each: int = 15, role: Role = Role.SHOULD) -> dict[str, Any]:
    """Return a run with questions about topics, of which a share fails by topic; 5 % of the others do."""
    rows, scores = [], []
    for number, topic in enumerate((*TOPICS, "pilot ladder rigging")):
        n_bad = round(each * failing.get(topic.split()[0], 1 / each))
        for place in range(each):
            case = f"{topic.split()[0]}{place}"
            question = f"Please explain {topic} at dock {place % 7}"
            rows.append(answer(case, "a", question=question))
            scores.append(Given(case, "a", 0.1 if (place + 3 * number) % each < n_bad else 1.0))
    return {"rows": rows, "scores": scores, "evaluators": [Toy(rule=Rule(role))]}


def clusters(folder: Path, **made: Any) -> list[dict[str, Any]]:
    return [each for each in problems(folder, policy=GROUPED, **made) if each["kind"] == "failure_cluster"]


def test_a_topic_that_fails_is_a_problem_although_the_mean_holds(tmp_path: Path) -> None:
    (problem,) = clusters(tmp_path, **run_of({"pilot": 0.8}))
    assert (problem["severity"], problem["fault"], problem["type"]) == ("medium", "model", "accuracy")
    assert 'Model "a" fails on questions about "' in problem["description"]
    assert {"pilot", "ladder"} <= set(problem["attrs"]["words"])
    assert problem["attrs"]["failing_near"] > 0.6 > 0.2 > problem["attrs"]["failing_else"]
    assert len(problem["attrs"]["central_cases"]) == 3
    assert all(key.startswith("pilot") for key in problem["attrs"]["central_cases"])
    assert problem["harm"] == pytest.approx(problem["attrs"]["size"] / 90)


def test_failures_spread_evenly_are_no_cluster(tmp_path: Path) -> None:
    spread = {topic.split()[0]: 0.2 for topic in (*TOPICS, "pilot")}
    assert clusters(tmp_path, **run_of(spread)) == []


@pytest.mark.parametrize("role", [Role.MUST, Role.INFORMATION])
def test_rows_that_a_problem_names_already_and_information_make_no_second_problem(tmp_path: Path, role: Role) -> None:
    assert clusters(tmp_path, **run_of({"pilot": 0.8}, role=role)) == []


def test_the_problem_that_names_the_rows_describes_the_cluster(tmp_path: Path) -> None:
    found = problems(tmp_path, policy=GROUPED, **run_of({"pilot": 0.8}, role=Role.MUST))
    (problem,) = [each for each in found if each["kind"] == "failing_rows"]
    sizes = {tuple(each["words"][:1]): each["size"] for each in problem["attrs"]["failure_clusters"]}
    assert max(sizes.values()) >= 10
    assert all(len(each["cases"]) == each["size"] for each in problem["attrs"]["failure_clusters"])
    assert "What failing questions are about: " in problem["description"]


def test_copies_of_a_case_are_left_to_the_problems_of_perturbations(tmp_path: Path) -> None:
    made = run_of({})
    for place in range(20):
        made["rows"].append(
            answer(f"copy{place}", "a", question="pilot ladder", original="pilot1", perturbation="typo")
        )
        made["scores"].append(Given(f"copy{place}", "a", 0.1))
    assert clusters(tmp_path, **made) == []


def test_a_cluster_that_is_a_slice_is_one_problem(tmp_path: Path) -> None:
    made = run_of({"pilot": 0.8})
    for row in made["rows"]:
        row["categories"] = [row["case"].rstrip("0123456789")]
    found = problems(tmp_path, policy=GROUPED, **made)
    assert [each["kind"] for each in found if each["fault"] == "model"] == ["slice", "missed_threshold"]


@pytest.mark.parametrize("embedded", [True, False])
def test_questions_without_a_common_word_are_compared_by_the_embeddings_of_the_run(
    tmp_path: Path, embedded: bool
) -> None:
    made, chance, embedder = run_of({"pilot": 0.8}), np.random.default_rng(0), {"kind": "embedder", "model": "m"}
    vectors, centre = [], chance.normal(size=20)
    for number, row in enumerate(made["rows"]):
        topic = centre if row["case"].startswith("pilot") else chance.normal(size=20)
        vectors.append(topic + 0.3 * chance.normal(size=20))
        row["question"] = f"word{number}"
    memory = MemoryVectors()
    digests = [text_digest(row["question"]) for row in made["rows"]][: None if embedded else -1]  # else one is missing
    memory.put(identity_digest(embedder), digests, np.array(vectors, dtype=np.float32)[: len(digests)])
    store, run = make_run(tmp_path, **made)
    with open_run(store, run) as connection:
        connection.execute("UPDATE evaluators SET identity = ?", [json.dumps({"models": [embedder]})])
        aggregate(connection)
        find_problems(connection, GROUPED, memory)
        found = table(connection, "problems", kind="failure_cluster")
    assert [one["attrs"]["compared_by"] for one in found] == (["embedding"] if embedded else [])


@pytest.mark.slow
def test_failures_strewn_at_random_over_questions_hardly_ever_make_a_problem() -> None:
    chance, found, runs, share = np.random.default_rng(9), 0, 200, 0.1
    vocabulary = np.array([f"word{number}" for number in range(400)])
    frequency = 1 / np.arange(5, 405)
    for _ in range(runs):
        texts = [" ".join(chance.choice(vocabulary, 10, p=frequency / frequency.sum())) for _ in range(150)]
        vectors, fails = text_vectors(texts), chance.random(150) < share
        bad, good = vectors[fails], vectors[~fails]
        groups = divided(bad, least=0.05)
        least = min((over_represented(bad, good, group, (1.0, 1.0))["chance"] for group in groups), default=1.0)
        found += least * len(groups) <= SURE
    assert found / runs <= 0.03
