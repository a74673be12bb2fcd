"""Suites, and the evaluators that look alike."""

from __future__ import annotations

from collections import Counter

import pytest

from leadline.evaluators.core import all_evaluators, get
from leadline.evaluators.core.suites import DEFAULT, LOOK_ALIKES, PURPOSES, folded, look_alikes, suite, suites


def test_look_alikes_exist_and_no_evaluator_is_in_two_groups() -> None:
    counted = Counter(id_ for group in LOOK_ALIKES for id_ in group.ids)
    assert set(counted) <= set(all_evaluators())
    assert set(counted.values()) == {1}
    assert all(len(group.ids) > 1 for group in LOOK_ALIKES)


def test_a_look_alike_is_folded_into_the_preferred_one_of_the_run() -> None:
    assert folded(["rouge", "valor.rouge", "bleu", "pii_leakage"]) == {"valor.rouge": "rouge"}
    assert folded(["valor.faithfulness", "groundedness", "faithfulness"]) == {
        "valor.faithfulness": "faithfulness",
        "groundedness": "faithfulness",
    }
    assert folded(["valor.rouge", "rouge#mine"]) == {}


def test_purposes_hold_evaluators_that_exist_and_are_the_default_together() -> None:
    for name, (_, ids) in PURPOSES.items():
        assert set(suite(name)) == set(ids)
        assert name in suites()
    served = {id_ for _, ids in PURPOSES.values() for id_ in ids}
    judged = {id_ for id_ in served if get(id_).spec.judge}
    assert served - judged <= set(suite(DEFAULT))
    assert judged & set(suite(DEFAULT)) == {"llamaindex.correctness", "faithfulness", "summarization_judge"}
    assert not {"valor.rouge", "byop", "fact_check", "ragas"} & set(suite(DEFAULT))


def test_the_preferred_look_alike_is_the_one_of_its_purpose() -> None:
    for group in LOOK_ALIKES:
        for _, ids in PURPOSES.values():
            served = [id_ for id_ in group.ids if id_ in ids]
            assert not served or served[0] == group.ids[0], group.question
    assert look_alikes("groundedness")[0] == "faithfulness"
    assert look_alikes("pii_leakage") == ()


TOPICS = {"summarization", "fairness", "privacy", "robustness", "classification"}
GENERAL = {"gptscore_summarization_with_reference", "gptscore_summarization_without_reference"}
"""The reference tells what it finds by any GPTScore under accuracy."""


@pytest.mark.parametrize(
    "spec", [pytest.param(kind.spec, id=id_) for id_, kind in all_evaluators().items() if kind.spec.family in TOPICS]
)
def test_problems_and_insights_have_the_familys_topic(spec):
    topic = "accuracy" if spec.id in GENERAL else spec.family
    assert (spec.problem_type, spec.insight_type) == (topic, topic)
