"""Reading replies: strictly, or not at all."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from leadline.evaluators.judge.engine.failures import JudgeUnparseable
from leadline.evaluators.judge.replies import read_json, read_number, read_word


class Verdict(BaseModel):
    verdict: str
    share: float = 0.0


@pytest.mark.parametrize(
    "text",
    [
        '{"verdict": "yes"}',
        '  {"verdict": "yes"}\n',
        '```json\n{"verdict": "yes"}\n```',
        '```\n{"verdict": "yes"}```',
        'It says so.\n\n{"verdict": "yes"}',
        'Here it is:\n\n```json\n{"verdict": "yes"}\n```\n',
        '{"verdict": "yes", "share": 1}',
        '{"verdict": "yes", "why": "other keys are passed over"}',
    ],
)
def test_one_object_is_read_alone_in_a_block_or_after_prose(text: str) -> None:
    assert read_json(text, Verdict).verdict == "yes"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "[1, 2]",
        '{"verdict": ',
        '{"verdict": "yes"} {"verdict": "no"}',
        '{"verdict": "yes", "verdict": "no"}',
        '{"verdict": "yes", "more": {"a": 1, "a": 1}}',
        '{"verdict": "yes"}. Anything else?',
        '{"verdict": "yes"} is what I would say if it were true, which it is not.',
        '```json\n{"verdict": "yes"}\n```\nBut then, no.',
        '[{"verdict": "yes"}]',
        '{"verdict": "yes"}```',
        '{"verdict": "yes", "share": 1e999}',
        '{"verdict": "yes", "share": true}',
        '{"verdict": "yes", "share": "1"}',
        '{"verdict": true}',
        '{"other": "yes"}',
        '{"verdict": ["yes"]}',
        '{"verdict": "yes", "share": NaN}',
        '{"verdict": "yes", "share": -Infinity}',
        '{"verdict": "yes", "share": ' + "9" * 5_000 + "}",
        '{"verdict": ' + "[" * 100_000,
        "```json\n" + "\n" * 100_000,
    ],
)
def test_anything_else_is_unreadable_and_quickly_so(text: str) -> None:
    began = time.perf_counter()
    with pytest.raises(JudgeUnparseable):
        read_json(text, Verdict)
    assert time.perf_counter() - began < 1


class Counted(BaseModel):
    count: int
    sure: bool = True
    lines: tuple[int, ...] = ()


@pytest.mark.parametrize("count", ["7", "7.0", "-7", "1e2"])
def test_a_whole_number_is_an_integer_however_it_is_written(count: str) -> None:
    assert read_json(f'{{"count": {count}, "lines": [{count}]}}', Counted).count == float(count)


@pytest.mark.parametrize("count", ["true", '"7"', "7.5", "null", "[7]", "1e400"])
def test_what_is_no_number_is_none_by_force(count: str) -> None:
    with pytest.raises(JudgeUnparseable):
        read_json(f'{{"count": {count}}}', Counted)


def test_a_truth_value_is_not_made_of_a_number_or_a_word() -> None:
    for value in ("1", '"true"', '"yes"'):
        with pytest.raises(JudgeUnparseable, match="sure"):
            read_json(f'{{"count": 1, "sure": {value}}}', Counted)


def test_half_a_character_does_not_make_a_reply_unreadable() -> None:
    assert read_json('{"verdict": "\\ud800"}', Verdict).verdict == "\ufffd"


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(JudgeUnparseable):
        read_json(text, Verdict)
    with suppress(JudgeUnparseable):
        assert read_word(text, ("yes", "no")) in ("yes", "no")
    with suppress(JudgeUnparseable):
        assert 0 <= read_number(text, 0, 9) <= 9


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_what_was_written_as_json_is_read_back(verdict: str, share: float) -> None:
    read = read_json(json.dumps({"verdict": verdict, "share": share}), Verdict)
    assert (read.verdict, read.share) == (verdict, share)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("yes", "yes"),
        ("  YES.", "yes"),
        ("The answer is: No", "no"),
        ("**no**", "no"),
        ('"No."', "no"),
        ("`no`", "no"),
        ("“Yes”!", "yes"),
        ("(no)", "no"),
        ("```\nyes\n```", "yes"),
        ("```text\nyes\n```\n", "yes"),
        ("partly yes", "partly yes"),
        ("Answer: yes", "yes"),
        ("**Answer:** yes", "yes"),
        ("**Final answer**: `yes`", "yes"),
        ("## Verdict:\nyes", "yes"),
        ("My verdict is no.", "no"),
        ("Classification: [no]", "no"),
        ("yes\n\nThe text says so in its second line.", "yes"),
        ("The text says so.\r\n\r\nYes", "yes"),
        ("The text says so.\nAnswer: Yes", "yes"),
        ("Verdict: yes\nReason: the text says so.", "yes"),
        ("Yes\n\nThe text says so.\n\nFinal answer: yes", "yes"),
    ],
)
def test_a_word_that_stands_alone_is_read_in_any_case(text: str, word: str) -> None:
    assert read_word(text, ("yes", "no", "partly yes")) == word


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "yes and no",
        "yes-man",
        "noyes",
        "partly yes, or rather: yes",
        "Partly yes, I would say",
        "not yes",
        "yes? I would not say so",
        "YES, my eyes see it",
        "!yes",
        "~~yes~~",
        "[ ] yes",
        "Not the answer: yes",
        "The answer is not: yes",
        "The answer is hardly yes.",
        "The answer is not\nyes",
        "I do not think that the\nanswer is yes",
        "yes\nis what I would not say",
        "yes\n\nOr rather: it is not yes.",
        "yes\n\nno",
        "One.\n\nyes\n\nThree.",
        "yes " * 100_000,
        "\n" * 100_000 + "not yes",
        "*" * 100_000 + "yes",
    ],
)
def test_a_word_in_a_sentence_or_in_another_word_is_no_verdict(text: str) -> None:
    began = time.process_time()
    with pytest.raises(JudgeUnparseable):
        read_word(text, ("yes", "no", "partly yes"))
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The answer is not correct.", ("correct", "incorrect")),
        ("partly correct", ("correct", "incorrect")),
        ("(in)correct", ("correct", "incorrect")),
        ("not present", ("present", "absent")),
        ("It is hardly true", ("true", "false")),
        ("false positive", ("true", "false")),
        ("not good", ("good", "bad")),
    ],
)
def test_a_verdict_that_is_negated_or_qualified_is_not_read_as_its_opposite(text: str, words: tuple[str, str]) -> None:
    with pytest.raises(JudgeUnparseable, match="nothing else; it holds"):
        read_word(text, words)


@pytest.mark.parametrize(("text", "number"), [("7", 7), (" 7.5\n", 7.5), ("10.", 10), ("+3", 3), ("0", 0)])
def test_a_number_alone_is_read(text: str, number: float) -> None:
    assert read_number(text, 0, 10) == number


@pytest.mark.parametrize("text", ["", "seven", "7 of 10", "7/10", "11", "-1", "nan", "inf", "1e1", "1_0", "٧", "7,5"])
def test_a_number_with_anything_around_it_or_out_of_range_is_not(text: str) -> None:
    with pytest.raises(JudgeUnparseable):
        read_number(text, 0, 10)
