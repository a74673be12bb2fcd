"""The topics under which problems and insights are told: those of the families that have one of their own."""

import pytest

from leadline.evaluators.core import all_evaluators

TOPICS = {"summarization", "fairness", "privacy", "robustness", "classification"}
GENERAL = {"gptscore_summarization_with_reference", "gptscore_summarization_without_reference"}
"""The reference tells what it finds by any GPTScore under accuracy."""


@pytest.mark.parametrize(
    "spec", [pytest.param(kind.spec, id=id_) for id_, kind in all_evaluators().items() if kind.spec.family in TOPICS]
)
def test_problems_and_insights_have_the_familys_topic(spec):
    topic = "accuracy" if spec.id in GENERAL else spec.family
    assert (spec.problem_type, spec.insight_type) == (topic, topic)
