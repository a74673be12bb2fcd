"""Rows, scores and evidence: what is complete, what is empty, and how they become JSON."""

import dataclasses
import json
import math

import pytest

from leadline.evaluators.data import (
    Evidence,
    Flag,
    Reason,
    Row,
    RowScore,
    Severity,
    Source,
    Span,
    Unscored,
    clip,
)


def test_a_row_knows_absent_from_empty():
    row = Row("case", "model")
    assert row.actual_answer is None
    assert Row("case", "model", actual_answer="").actual_answer == ""
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.actual_answer = "changed"


def test_a_score_is_complete_when_every_metric_has_a_number():
    assert RowScore({"a": 0.0, "b": math.inf}).complete
    assert not RowScore({"a": 0.0, "b": Unscored(Reason.TIMEOUT)}).complete
    unscored = RowScore.unscored(("a", "b"), Reason.HOST_ERROR, "503")
    assert unscored.values == {"a": Unscored(Reason.HOST_ERROR, "503"), "b": Unscored(Reason.HOST_ERROR, "503")}


def test_evidence_without_content_is_falsy_and_leaves_out_its_empty_parts():
    assert not Evidence()
    assert Evidence().to_json() == {}
    evidence = Evidence("why", (Span(Source.RETRIEVED_CONTEXT, 2, 5, index=1, value=0.5, note="rule"),), {"k": [1]})
    assert evidence
    assert json.loads(json.dumps(evidence.to_json())) == {
        "message": "why",
        "spans": [{"source": "retrieved_context", "start": 2, "end": 5, "index": 1, "value": 0.5, "note": "rule"}],
        "data": {"k": [1]},
    }
    assert Span(Source.QUESTION, 0, 1).to_json() == {"source": "question", "start": 0, "end": 1}
    assert Span(Source.QUESTION, 0, 1, value=0.0).to_json()["value"] == 0.0


def test_a_flag_becomes_json():
    assert Flag("data", Severity.LOW, "odd").to_json() == {"type": "data", "severity": "low", "message": "odd"}


@pytest.mark.parametrize(("value", "clipped"), [(-1e-17, 0.0), (0.3, 0.3), (1 + 1e-15, 1.0), (1, 1.0)])
def test_clip_brings_rounding_back_into_the_range(value, clipped):
    assert clip(value, 0.0, 1.0) == clipped
    assert isinstance(clip(value, 0.0, 1.0), float)
