"""JSON is what Python's strict parser takes; schemas validate as jsonschema does, and none takes for ever."""

import json
import re
import time

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Reason, Row, Unscored
from leadline.evaluators.structured.json_schema import JsonSchema
from leadline.evaluators.structured.json_valid import JsonValid, identity_of
from leadline.evaluators.text.time_budget import RegexTimeBudget

SCALARS = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6) | st.text("ab é", max_size=4)
VALUES = st.recursive(SCALARS, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from("abc"), one))
KINDS = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries({"type": KINDS})
    | st.fixed_dictionaries({"pattern": st.sampled_from(["a", "^b", "é$"])})
    | st.fixed_dictionaries({"uniqueItems": st.just(True)})
    | st.fixed_dictionaries({"const": SCALARS})
    | st.fixed_dictionaries({"minimum": st.integers(-5, 5)}),
    lambda inner: st.fixed_dictionaries({"items": inner})
    | st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), inner),
                             "additionalProperties": inner})
    | st.fixed_dictionaries({"patternProperties": st.dictionaries(st.sampled_from(["a|b", "^c"]), inner),
                             "additionalProperties": inner})
    | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
    | st.fixed_dictionaries({"required": st.just(["a"]), "not": inner}),
    max_leaves=6,
)  # fmt: skip
FENCED = 'Here it is:\n\n```json\n{"a": 1}\n```\nEnjoy.'


def score(which, answer, ctx=None, metadata=None, /, **params):
    row = Row("c", "m", actual_answer=answer, metadata=metadata or {})
    return which(which.parameters.build(which.spec.id, params)).score([row], ctx or EvalContext())[0]


def value(*args, **params):
    [found] = score(*args, **params).values.values()
    return found


def refuse(constant):
    raise ValueError(constant)


@given(VALUES, st.text('{}[]:,"\\ a1\n', max_size=3), st.integers(0, 30))
def test_valid_is_what_python_parses_strictly(document, junk, at):
    text = json.dumps(document)
    text = text[:at] + junk + text[at:]
    try:
        json.loads(text, parse_constant=refuse)
        good = True
    except ValueError:
        good = False
    assert value(JsonValid, text, kind="any") == good


@pytest.mark.parametrize(
    "text", ["NaN", "[1,]", "{'a': 1}", "[1e400]", '["\\ud800"]', "\ufeff[]", "", " ", "[" * 5000, "{}x"]
)
def test_what_parsers_disagree_about_is_not_valid(text):
    assert value(JsonValid, text) == 0.0


@pytest.mark.parametrize(("where", "good"), [("whole", 0.0), ("fenced", 1.0), ("anywhere", 1.0)])
def test_a_fence_counts_where_the_user_says_so(where, good):
    assert value(JsonValid, FENCED, where=where) == good


def test_json_in_prose_counts_where_the_user_says_so():
    prose = 'The set {x} is empty; the result is {"a": [1, 2]}, as I said.'
    assert value(JsonValid, prose, where="fenced") == 0.0
    assert value(JsonValid, prose, where="anywhere") == 1.0


def test_what_is_wrong_is_told_with_its_line_and_column():
    found = score(JsonValid, '{"a": 1,\n "b": }')
    assert "line 2, column 7" in found.evidence.message
    assert found.evidence.spans[0].start == 15


@pytest.mark.parametrize(("kind", "good"), [("object", 0.0), ("array", 1.0), ("object_or_array", 1.0), ("any", 1.0)])
def test_the_kind_of_value_can_be_asked_for(kind, good):
    assert value(JsonValid, "[1]", kind=kind) == good


@given(VALUES, VALUES)
def test_identity_is_equality_of_json(one, other):
    equal = jsonschema.Draft202012Validator({"const": one}).is_valid(other)
    assert (identity_of(one) == identity_of(other)) == equal


@settings(max_examples=200)
@given(VALUES, SCHEMAS)
def test_schemas_validate_as_jsonschema_does(document, schema):
    expected = sorted(
        "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        for error in jsonschema.Draft202012Validator(schema).iter_errors(document)
        if error.validator != "additionalProperties"
    )
    found = score(JsonSchema, json.dumps(document), None, {"json_schema": json.dumps(schema)})
    errors = found.evidence.data.get("errors", [])
    assert found.values["json_schema"] == jsonschema.Draft202012Validator(schema).is_valid(document)
    assert [error["path"] for error in errors if error["keyword"] != "additionalProperties"] == expected[:20] or (
        found.payload["errors"] > 20
    )


def test_errors_have_paths_and_are_added_up_by_them():
    schema = {"properties": {"items": {"items": {"required": ["price"]}}}}
    evaluator = JsonSchema(JsonSchema.parameters(json_schema=schema))
    rows = [Row("a", "m", actual_answer='{"items": [{}, {"price": 1}, {}]}'), Row("b", "m", actual_answer="{}")]
    scores = evaluator.score(rows, EvalContext())
    assert [error["path"] for error in scores[0].evidence.data["errors"]] == ["$.items[0]", "$.items[2]"]
    payloads = evaluator.prepare([each.payload for each in scores])
    assert evaluator.aggregate(payloads, np.array([[1.0, 1.0], [2.0, 0.0]]))["errors_per_answer"].tolist() == [1.0, 2.0]
    [label] = evaluator.details(payloads, np.array([3.0, 1.0]), [])["labels"]
    assert label == {"key": "$.items[*]", "value": "required", "values": {"errors": 6}}


@pytest.mark.parametrize(
    ("number", "divisor", "good"),
    [
        ("19.99", "0.01", 1.0),
        ("0.3", "0.1", 1.0),
        ("1e300", "1e-3", 1.0),
        ("7", "0.5", 1.0),
        ("19.995", "0.01", 0.0),
        ("7", "2", 0.0),
        ("true", "2", 1.0),
    ],
)
def test_multiples_are_those_of_the_numbers_as_written(number, divisor, good):
    assert value(JsonSchema, number, json_schema={"multipleOf": json.loads(divisor)}) == good


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ('{"$ref": "https://example.com/schema.json"}', "is not in it"),
        ('{"$ref": "file:///etc/passwd"}', "is not in it"),
        ('{"$ref": "#"}', "without end"),
        ('{"type": 5}', r"no JSON Schema at \$\.type"),
        ('{"pattern": "("}', "invalid"),
        ('{"$schema": "urn:none"}', "no draft"),
        ("{", "no JSON"),
    ],
)
def test_a_schema_that_cannot_be_used_leaves_the_row_unscored(schema, why):
    found = value(JsonSchema, '"x"', None, {"json_schema": schema})
    assert isinstance(found, Unscored)
    assert found.reason is Reason.UNSCORABLE
    assert re.search(why, found.message)


DOUBLING = {"$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)} | {"a60": {}},
            "$ref": "#/$defs/a0"}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        (DOUBLING, {}),
        ({"pattern": "(a|a)*$|(a+)+c"}, "a" * 5000 + "b"),
        ({"patternProperties": {"(a|a)*$|(a+)+c": False}, "additionalProperties": False}, {"a" * 5000 + "b": 1}),
    ],
)
def test_no_schema_takes_for_ever(schema, document):
    started = time.process_time()
    ctx = EvalContext(regex_budget=RegexTimeBudget(full=0.2))
    score(JsonSchema, json.dumps(document), ctx, {"json_schema": schema})
    assert time.process_time() - started < 5


def test_unique_items_of_a_long_array_are_counted_fast():
    started = time.process_time()
    many = json.dumps([{"n": n} for n in range(20_000)])
    assert value(JsonSchema, many, json_schema={"uniqueItems": True}) == 1.0
    assert time.process_time() - started < 5


def test_a_row_without_a_schema_is_not_applicable_and_one_without_json_is_wrong():
    assert isinstance(value(JsonSchema, "{}"), NotApplicable)
    assert value(JsonSchema, "no idea", json_schema={}) == 0.0
    assert value(JsonSchema, FENCED, json_schema={"required": ["a"]}) == 1.0
    assert value(JsonSchema, "{}", None, {"json_schema": {"required": ["b"]}}, json_schema={}) == 0.0


def test_an_answer_that_ends_too_early_is_marked_at_its_last_character() -> None:
    [span] = score(JsonValid, '{"a": "b').evidence.spans
    assert (span.start, span.end) == (7, 8)
    assert not score(JsonValid, "").evidence.spans
