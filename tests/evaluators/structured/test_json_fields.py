"""Fields that are right, wrong, missing and extra, by each rule; counts by an oracle over flat objects."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Row, Unscored
from leadline.evaluators.ground import UsageError
from leadline.evaluators.structured.json_fields import JsonFields

FLAT = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([1, 1.0, True, "1", None, "x"]))


def score(answer, *expected, **params):
    texts = [each if isinstance(each, str) else json.dumps(each) for each in (answer, *expected)]
    row = Row("c", "m", actual_answer=texts[0], expected_answers=tuple(texts[1:]))
    [result] = JsonFields(JsonFields.parameters.build("json_fields", params)).score([row], EvalContext())
    return result


def verdicts(result):
    return {field["path"]: field["verdict"] for field in result.evidence.data["fields"]}


@given(FLAT, FLAT.filter(bool))
def test_flat_objects_are_counted_field_by_field(answer, expected):
    right = [
        k
        for k in expected
        if k in answer and json.dumps(answer[k]).replace(".0", "") == json.dumps(expected[k]).replace(".0", "")
    ]
    missing, extra = expected.keys() - answer.keys(), answer.keys() - expected.keys()
    assert score(answer, expected).values == {
        "field_accuracy": pytest.approx(len(right) / len(expected)),
        "all_fields": float(len(right) == len(expected) and not extra),
        "missing": len(missing),
        "extra": len(extra),
    }


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.sets(st.sampled_from("abcd"), min_size=1)), min_size=1))
def test_f1_of_present_fields_is_that_of_scikit_learn(pairs):
    evaluator = JsonFields()
    rows = [
        Row(str(n), "m", actual_answer=json.dumps(dict.fromkeys(sorted(ours), 1)),
            expected_answers=(json.dumps(dict.fromkeys(sorted(theirs), 1)),))
        for n, (ours, theirs) in enumerate(pairs)
    ]  # fmt: skip
    payloads = evaluator.prepare([each.payload for each in evaluator.score(rows, EvalContext())])
    truth = [[name in theirs for name in "abcd"] for _, theirs in pairs]
    given_ = [[name in ours for name in "abcd"] for ours, _ in pairs]
    from sklearn.metrics import f1_score

    expected = f1_score(np.array(truth).ravel(), np.array(given_).ravel(), zero_division=0)
    assert evaluator.aggregate(payloads, np.ones((1, len(rows))))["field_f1"][0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rule", "answer", "expected", "right"),
    [
        ("exact", 1.0, 1, True),
        ("exact", "1", 1, False),
        ("exact", True, 1, False),
        ("number", "1,200.50", 1200.5, True),
        ("number", "12 apples and 3", 12, False),
        ("number", "12%", 0.12, True),
        ({"rule": "number", "relative": 0.01}, 100.9, 100, True),
        ({"rule": "number", "relative": 0.01}, 101.1, 100, False),
        ({"rule": "number", "absolute": 0.5}, 3.5, 3, True),
        ("date", "3 May 2024", "2024-05-03", True),
        ("date", "2024-05-03T23:59:00Z", "2024-05-03", True),
        ("date", "05/03/2024", "2024-05-03", True),
        ({"rule": "date", "day_first": True}, "03/05/2024", "2024-05-03", True),
        ("date", "May 2024", "2024-05-01", False),
        ("date", "9" * 60, "2024-05-01", False),
        ("date", 20240503, "2024-05-03", False),
        ("set", [2, 1, 1], [1, 2], True),
        ("set", [2, 3], [1, 2], False),
        ("set", [{"a": 1}], [{"a": 1.0}], True),
        ("text", "  Blue   PUMP", "blue pump", True),
        ("text", "blue pumps", "blue pump", True),
        ("text", "red valve", "blue pump", False),
        ({"rule": "text", "similarity": 0.95}, "blue pumps", "blue pump", False),
    ],
)
def test_each_rule_says_what_is_right(rule, answer, expected, right):
    found = score({"f": answer}, {"f": expected}, rules={"f": rule})
    assert found.values["field_accuracy"] == right


def test_paths_reach_into_objects_and_arrays():
    expected = {"buyer": {"name": "Ada"}, "items": [{"n": 1}, {"n": 2}], "tags": [], "note": "x"}
    answer = {"buyer": {"name": "ada"}, "items": [{"n": 1, "q": 1}, {"n": 3}, {"n": 4}], "note": "y"}
    found = score(answer, expected, rules={"buyer.name": "text", "note": "ignore", "items[*].n": {"rule": "number"}})
    assert verdicts(found) == {
        "buyer.name": "right",
        "items[0].n": "right",
        "items[1].n": "wrong",
        "items[0].q": "extra",
        "items[2]": "extra",
        "tags": "missing",
    }


def test_a_rule_for_an_array_compares_it_as_one_field():
    found = score({"items": [{"n": 2}, {"n": 1}]}, {"items": [{"n": 1}, {"n": 2}]}, rules={"items": "set"})
    assert verdicts(found) == {"items": "right"}


def test_weights_make_a_field_count_more():
    rules = {"a": {"rule": "exact", "weight": 3}}
    assert score({"a": 1, "b": 0}, {"a": 1, "b": 1}, rules=rules).values["field_accuracy"] == 0.75


def test_null_may_count_as_missing():
    assert score({"a": None}, {"a": 1}).values["missing"] == 0
    assert score({"a": None}, {"a": 1}, null_is_missing=True).values["missing"] == 1
    assert score({"b": None}, {"a": None}, null_is_missing=True).values == {
        "field_accuracy": 1.0, "all_fields": 1.0, "missing": 0, "extra": 0,
    }  # fmt: skip


def test_the_best_of_several_expected_answers_counts_and_those_that_are_no_json_do_not():
    assert score({"a": 2}, {"a": 1}, "text", {"a": 2}).values["all_fields"] == 1.0
    assert isinstance(score({"a": 2}, "text", "3").values["field_accuracy"], NotApplicable)


def test_an_answer_that_is_no_json_lacks_all_fields():
    found = score("I cannot do that.", {"a": 1, "b": {"c": 2}})
    assert found.values == {"field_accuracy": 0.0, "all_fields": 0.0, "missing": 2, "extra": 0}
    assert "no JSON" in found.evidence.message


def test_the_report_has_a_table_by_field():
    evaluator = JsonFields()
    payloads = evaluator.prepare([score({"a": 1, "x": 0}, {"a": 1, "b": [1, 2]}).payload])
    labels = evaluator.details(payloads, np.array([2.0]), [])["labels"]
    assert {each["value"]: each["values"] for each in labels} == {
        "a": {"accuracy": 1.0, "right": 2, "wrong": 0, "missing": 0, "extra": 0},
        "b[*]": {"accuracy": 0.0, "right": 0, "wrong": 0, "missing": 4, "extra": 0},
        "x": {"accuracy": None, "right": 0, "wrong": 0, "missing": 0, "extra": 2},
    }


@pytest.mark.parametrize(
    "expected", ["[" * 500 + "1" + "]" * 500, json.dumps(dict.fromkeys(map(str, range(20_000)), 1))]
)
def test_objects_that_are_too_large_or_deep_are_not_compared(expected):
    assert isinstance(score("{}", expected).values["field_accuracy"], Unscored)


@pytest.mark.parametrize("deep", ["[" * 900 + "1" + "]" * 900, '{"a":' * 900 + "1" + "}" * 900])
def test_fields_of_an_answer_that_are_too_deep_are_wrong_or_extra(deep: str) -> None:
    assert score(f'{{"a": {deep}}}', '{"a": 1}').values["field_accuracy"] == 0.0
    assert score(f'{{"a": 1, "b": {deep}}}', '{"a": 1}').values["extra"] == 1.0


def test_a_rule_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match=r"json_fields\.rules"):
        JsonFields.parameters.build("json_fields", {"rules": {"a": "fuzzy"}})
