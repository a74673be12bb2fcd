"""Text matching: what passes, what fails, and what is said about it."""

import pytest

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import ContextChunk, Reason, Row, RowField, Severity, Source, Unscored
from leadline.evaluators.generation.text_matching import TextMatching, TextMatchingParams

METRICS = (
    "model_passes",
    "model_failures",
    "model_retrieval_failures",
    "model_generation_failures",
    "model_parse_failures",
)
PASS = dict(zip(METRICS, (1.0, 0.0, 0.0, 0.0, 0.0), strict=True))
FAIL = dict(zip(METRICS, (0.0, 1.0, 0.0, 1.0, 0.0), strict=True))
CONDITION = '("Brazil" OR "brazil") AND regexp("15,?969 [Mm]illion") AND NOT "Real"'


def score(row, **params):
    evaluator = TextMatching(TextMatchingParams(**params))
    (result,) = evaluator.score([row], EvalContext())
    assert set(result.values) == set(evaluator.row_metrics)
    return result


def row(answer, condition=CONDITION, context=(), expected=()):
    chunks = tuple(ContextChunk(text) for text in context)
    return Row(
        "c", "m", actual_answer=answer, condition=condition, retrieved_context=chunks, expected_answers=tuple(expected)
    )


def test_an_answer_that_satisfies_the_condition_passes_and_its_operands_are_shown():
    result = score(row("In brazil it was 15969 Million."))
    assert result.values == PASS
    assert result.evidence.message == ""
    assert [(span.start, span.end, span.note) for span in result.evidence.spans] == [
        (3, 9, '"brazil"'),
        (17, 30, 'regexp("15,?969 [Mm]illion")'),
    ]
    assert all(span.source is Source.ACTUAL_ANSWER for span in result.evidence.spans)


def test_an_answer_that_does_not_fails_and_the_part_that_failed_is_named():
    result = score(row("Brazil: 15,969 million Reals"))
    assert result.values == FAIL
    assert result.evidence.message == (
        f'The answer did not satisfy the condition: {CONDITION}. The part that did not match: NOT "Real".'
    )
    assert result.evidence.spans[-1].note == 'unwanted: "Real"'
    assert result.flags == ()


def test_a_condition_that_fails_as_a_whole_is_not_repeated():
    assert score(row("x", '"y"')).evidence.message == 'The answer did not satisfy the condition: "y".'


def test_the_context_is_left_alone_unless_asked_for():
    hit, miss = ["nothing", "Brazil 15,969 million"], ["nothing"]
    answer = "Brazil 15,969 million"
    assert score(row(answer, context=miss)).values == PASS
    assert score(row(answer, context=hit), evaluate_retrieved_context=True).values == PASS
    failed = score(row(answer, context=miss), evaluate_retrieved_context=True)
    assert failed.values == {**PASS, "model_passes": 0.0, "model_failures": 1.0, "model_retrieval_failures": 1.0}
    assert failed.evidence.message.startswith("The retrieved context did not satisfy the condition")
    assert [(flag.type, flag.severity) for flag in failed.flags] == [("retrieval", Severity.MEDIUM)]


def test_a_row_without_context_is_judged_by_its_answer_alone():
    assert score(row("Brazil 15,969 million"), evaluate_retrieved_context=True).values == PASS


def test_both_sides_failing_is_one_failure():
    result = score(row("x", '"y"', ["z"]), evaluate_retrieved_context=True)
    assert result.values == {**FAIL, "model_retrieval_failures": 1.0}
    assert result.flags == ()


def test_operands_in_the_context_are_located_in_their_chunks():
    result = score(row("ab cd", '"ab" AND "cd" AND "b c"', ["xab", "", "cd"]), evaluate_retrieved_context=True)
    context = [span for span in result.evidence.spans if span.source is Source.RETRIEVED_CONTEXT]
    assert [(span.index, span.start, span.end) for span in context] == [(0, 1, 3), (2, 0, 2)]
    over = score(row("b c", '"b c"', ["xab", "cd"]), evaluate_retrieved_context=True)
    context = [span for span in over.evidence.spans if span.source is Source.RETRIEVED_CONTEXT]
    assert [(span.index, span.start, span.end) for span in context] == [(0, 2, 3), (1, 0, 1)]


@pytest.mark.parametrize(("condition", "expected"), [('"x"', FAIL), ('NOT "x"', PASS), ('""', PASS)])
def test_an_empty_answer_is_an_answer(condition, expected):
    assert score(row("", condition)).values == expected


def test_the_expected_answer_stands_in_for_a_condition_only_when_asked_for():
    bare = row("It is Paris.", None, expected=["London", "Paris"])
    strict, lenient = TextMatching(), TextMatching(TextMatchingParams(default_to_expected_answer=True))
    assert strict.required == (RowField.ACTUAL_ANSWER, RowField.CONDITION)
    assert lenient.required == (RowField.ACTUAL_ANSWER,)
    assert RowField.EXPECTED_ANSWER in lenient.reads
    assert RowField.EXPECTED_ANSWER not in strict.reads
    assert score(bare, default_to_expected_answer=True).values == PASS
    missed = score(row("Rome", None, expected=["London", 'the "old" city']), default_to_expected_answer=True)
    assert missed.values == FAIL
    assert missed.evidence.message.endswith('"London" OR "the \\"old\\" city".')
    assert score(row("x", '"x"', expected=["y"]), default_to_expected_answer=True).values == PASS


@pytest.mark.parametrize("expected", [(), ("", "  ")])
def test_a_row_with_nothing_to_match_is_unscored_and_no_zero(expected):
    result = score(row("x", None, expected=expected), default_to_expected_answer=True)
    assert {value.reason for value in result.values.values()} == {Reason.UNSCORABLE}


def test_a_condition_that_does_not_parse_is_a_parsing_failure_and_neither_passes_nor_fails():
    result = score(row("x", '"a" and "b"'))
    assert result.values["model_parse_failures"] == 1.0
    assert isinstance(result.values["model_passes"], Unscored)
    assert isinstance(result.values["model_failures"], Unscored)
    assert "at character 5: operators are upper case" in result.evidence.message
    assert [flag.type for flag in result.flags] == ["evaluation"]


@pytest.mark.slow
def test_a_pattern_that_hangs_costs_its_rows_and_no_others():
    slow = row("a" * 5000 + "!", 'regexp("(?:a|aa)+$")')
    fine = row("a", 'regexp("^a$")')
    evaluator, ctx = TextMatching(), EvalContext()
    ctx.regex_budget.full = 0.2
    results = evaluator.score([slow, fine, slow, slow, slow, slow, fine], ctx)
    reasons = [getattr(result.values["model_passes"], "reason", None) for result in results]
    assert reasons == [Reason.TIMEOUT, None, *[Reason.TIMEOUT] * 4, None]
    assert "not tried again" in results[-2].values["model_passes"].message


def test_hostile_text_is_no_trouble():
    text = "\ud800\x00\u202e😀" * 1000
    assert score(row(text + "Z", 'regexp("\\x00") AND "😀" AND regexp("Z$")', [text])).values == PASS
