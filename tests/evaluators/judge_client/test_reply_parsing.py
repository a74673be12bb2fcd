"""Reading replies: strictly, or not at all."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from leadline.evaluators.judge_client.calls import JudgeUnparseable
from leadline.evaluators.judge_client.reply_parsing import read_json, read_number, read_word


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
        '[\n{"verdict": "yes"}',
        '{"verdict": "yes", "share": ' + "9" * 400 + "}",
        '{"verdict": "yes", "share": -' + "9" * 400 + "}",
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
    began = time.process_time()
    with pytest.raises(JudgeUnparseable):
        read_json(text, Verdict)
    assert time.process_time() - began < 1


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


_NAMES = st.text("abc", min_size=1, max_size=3)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3))


@given(_VALUES, _NAMES, _SCALARS, _SCALARS, st.integers(0, 3), st.data())
def test_a_key_that_stands_twice_at_any_depth_is_refused(
    others: Any, name: str, first: Any, second: Any, depth: int, data: st.DataObject
) -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in name)
    again = data.draw(st.sampled_from([name, escaped]))
    inner = f'{{"{name}": {json.dumps(first)}, "z": {json.dumps(others)}, "{again}": {json.dumps(second)}}}'
    for _ in range(depth):
        inner = data.draw(st.sampled_from([f'{{"x": {inner}}}', f'{{"x": [0, {inner}]}}']))
    with pytest.raises(JudgeUnparseable, match="stands twice"):
        read_json(f'{{"verdict": "yes", "more": {inner}}}', Verdict)


@given(st.text(min_size=1).filter(lambda text: text.strip() not in ("", "```")), st.booleans())
def test_whatever_follows_the_object_is_refused(rest: str, in_block: bool) -> None:
    reply = f'{"```json" if in_block else ""}{{"verdict": "yes"}}{rest}'
    with pytest.raises(JudgeUnparseable):
        read_json(reply, Verdict)


@given(
    st.text().filter(lambda text: "{" not in text and not text.rstrip().endswith("[")), st.sampled_from(["", " ", "\n"])
)
def test_text_before_the_object_is_passed_over(before: str, after: str) -> None:
    assert read_json(f'{before}{{"verdict": "yes"}}{after}', Verdict).verdict == "yes"


@given(
    st.one_of(
        st.booleans().map(json.dumps),
        st.floats().map(lambda number: json.dumps(str(number))),
        st.integers().map(lambda number: json.dumps(str(number))),
        st.just("null"),
        st.integers(310, 5_000).map(lambda power: f"1e{power}"),
        st.integers(310, 3_000).map(lambda digits: "9" * digits),
        st.sampled_from(["NaN", "Infinity", "-Infinity", "[1]", "{}", '""', "1_0", "01", "+1", ".5", "0x1", "1,5"]),
    )
)
def test_what_is_no_finite_number_fits_no_field_of_one(written: str) -> None:
    for field in ("share", "count"):
        with pytest.raises(JudgeUnparseable):
            read_json(f'{{"verdict": "yes", "count": 1, "{field}": {written}}}', Both)


class Both(BaseModel):
    share: float = 0.0
    count: int


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53))
def test_a_number_is_read_as_it_is(number: float) -> None:
    assert read_json(f'{{"verdict": "yes", "share": {json.dumps(number)}}}', Verdict).share == number


_PAIRS = (("yes", "no"), ("correct", "incorrect"), ("present", "absent"), ("true", "false"), ("supported", "refuted"))
_MARKS = st.text("*_`\"'() #", max_size=4)
_LABELS = st.sampled_from(
    ["", "Answer: ", "The verdict is: ", "**Final answer:** ", "My rating is ", "Classification: "]
)


@given(st.sampled_from(_PAIRS), _MARKS, _LABELS, st.sampled_from([str.lower, str.upper, str.title]), st.booleans())
def test_a_word_is_read_whatever_marks_and_label_it_has(
    pair: tuple[str, str], marks: str, label: str, case: Callable[[str], str], first: bool
) -> None:
    word = pair[not first]
    closing = marks.replace("(", ")").replace("#", "")
    opening = marks.replace(")", "(")
    assert read_word(f"{label}{opening}{case(word)}{closing}.", pair) == word


_AROUND = st.text("abdghijklmopqruvwxyz ,;'-", min_size=1, max_size=30)


@given(st.sampled_from(_PAIRS), _AROUND, st.booleans(), st.booleans())
def test_a_word_with_any_other_word_beside_it_is_never_read(
    pair: tuple[str, str], around: str, before: bool, first: bool
) -> None:
    assume(any(letter.isalpha() for letter in around))
    word = pair[not first]
    for glue in (" ", ", ", "", "-"):
        with pytest.raises(JudgeUnparseable):
            read_word(f"{around}{glue}{word}" if before else f"{word}{glue}{around}", pair)


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
        ("_no_", "no"),
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
        ("It does not say more.\n\nYes", "yes"),
        ("Yes\n\nThe text actually says so, which is not an example.", "yes"),
        ("Reasoning: it does not say less\nAnswer: yes", "yes"),
        ("Since it is not denied\n\nVerdict: no", "no"),
        ("Here is my verdict:\n\nyes", "yes"),
        ("I would say:\n\nyes", "yes"),
        ("Verdict: yes\n\nThis is an example of a good answer.", "yes"),
        ("Verdict: yes\n\nIgnore-lists are named as well.", "yes"),
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
        "yes_or_no",
        "is_yes",
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
        "not\n\nyes",
        "The opposite of:\n\nyes",
        "I would never say:\n\n**yes**",
        "Answer: yes\n\nJust kidding, it is wrong.",
        "Verdict: yes\nWait, that was it.",
        "Verdict: yes\nThat was the example reply.",
        "A lazy judge would reply:\n\nyes",
        "It would be wrong to say:\n\nyes",
        "If it were right I would say:\n\nyes",
        "It is hardly\n\nyes",
        "Wrong answer:\n\nyes",
        "Answer: yes\n\nStrike that.",
        "Answer: yes\n\nEdit: it fails.",
        "Answer: yes\n\nLet me reconsider.",
        "yes\n\nBut the above is only a sample.",
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


@given(st.text(max_size=6) | st.from_regex(r"\A ?[+-]?[0-9]{1,3}(\.[0-9]{1,3})?[.a%/e ]?\Z"))
def test_only_a_decimal_number_in_range_is_a_number(text: str) -> None:
    try:
        number = read_number(text, 0, 10)
    except JudgeUnparseable:
        return
    assert re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?\.?", text.strip())
    assert number == float(text.strip().removesuffix("."))
    assert math.copysign(1, number) == 1
    assert 0 <= number <= 10


@pytest.mark.parametrize(
    "text", ["", "seven", "7 of 10", "7/10", "11", "10.5", "-0.5", "-1", "nan", "inf", "1e1", "1_0", "٧", "7,5", "7..."]
)
def test_a_number_with_anything_around_it_or_out_of_range_is_not(text: str) -> None:
    with pytest.raises(JudgeUnparseable):
        read_number(text, 0, 10)
