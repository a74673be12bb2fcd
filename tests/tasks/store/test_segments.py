"""Scores as files hold them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.data import Evidence, Flag, Json, NotApplicable, Reason, RowScore, Severity, Unscored
from leadline.tasks.store.segments import segment_rows, stored, unscored_rows

TEXTS = st.text(max_size=5) | st.sampled_from(["\ud800", "a\udfffb", "NaN"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@given(JSON)
def test_a_payload_is_valid_json_whatever_it_holds(payload: Json) -> None:
    text = stored(RowScore({}, payload=payload)).payload
    if payload is None:
        assert text is None
    else:
        assert text is not None
        text.encode()
        strict(text)


def test_infinite_numbers_are_null_beside_text_that_utf8_cannot_hold_too() -> None:
    data = {"text": "\ud800", "nan": float("nan"), "many": [float("inf"), (1.5, np.float32("nan"))], "long": 2**70}
    text = stored(RowScore({}, Evidence(data=data))).evidence
    assert text is not None
    assert strict(text) == {"data": {"text": "?", "nan": None, "many": [None, [1.5, None]], "long": 2**70}}


def test_numbers_of_numpy_are_numbers() -> None:
    data: dict[str, Any] = {"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True), "d": np.float64("nan")}
    for extra, shown in (("plain", "plain"), ("\ud800", "?")):
        text = stored(RowScore({}, Evidence(data=data | {"e": extra}))).evidence
        assert text is not None
        assert strict(text) == {"data": {"a": 0.5, "b": 3, "c": True, "d": None, "e": shown}}


@pytest.mark.parametrize(
    ("value", "kept"), [(np.float32(0.5), 0.5), (np.int64(3), 3.0), (True, 1.0), (7, 7.0), (np.float64(2), 2.0)]
)
def test_values_become_floats(value: Any, kept: float) -> None:
    (found,) = stored(RowScore({"m": value})).values.values()
    assert type(found) is float
    assert found == kept


def test_rows_of_both_kinds_hold_what_was_said() -> None:
    flag = Flag("evaluation", Severity.LOW, "odd")
    score = stored(
        RowScore(
            {"a": 1, "b": NotApplicable("none"), "c": Unscored(Reason.UNSCORABLE, "bad \ud800")},
            Evidence("said"),
            (flag,),
            [1],
        )
    )
    assert score.complete
    (line,) = segment_rows(["a", "b", "c"], [b"k"], [score], 2).to_pylist()
    assert line == {
        "key": b"k",
        "trial": 2,
        "evidence": '{"message":"said"}',
        "flags": '[{"type":"evaluation","severity":"low","message":"odd"}]',
        "payload": "[1]",
        "unscorable": '{"c":"bad ?"}',
        "m:a": 1.0,
        "m:b": None,
        "m:c": None,
    }
    lines = unscored_rows(3, [b"k"], [score], 2).to_pylist()
    assert [(line["metric"], line["value"], line["reason"], line["message"]) for line in lines] == [
        ("a", 1.0, None, None),
        ("b", None, None, None),
        ("c", None, "unscorable", "bad ?"),
    ]
    assert {(line["evaluator_id"], line["key"], line["trial"], line["flags"]) for line in lines} == {
        (3, b"k", 2, score.flags)
    }


def test_what_is_said_of_a_row_that_is_not_complete_is_kept() -> None:
    score = stored(RowScore({"a": Unscored(Reason.JUDGE_UNPARSEABLE, "no verdict")}, Evidence("said \ud800")))
    assert not score.complete
    assert json.loads(score.evidence or "") == {"message": "said ?"}
    (line,) = unscored_rows(3, [b"k"], [score], 0).to_pylist()
    assert line["evidence"] == score.evidence
