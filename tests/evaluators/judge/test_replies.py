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
        'Here it is: {"verdict": "yes"}. Anything else?',
    ],
)
def test_one_object_is_read_alone_in_a_block_or_with_prose_around_it(text: str) -> None:
    assert read_json(text, Verdict).verdict == "yes"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "[1, 2]",
        '{"verdict": ',
        '{"verdict": "yes"} {"verdict": "no"}',
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
        ("partly yes", "partly yes"),
        ("Partly yes, I would say", "partly yes"),
    ],
)
def test_the_one_word_is_found_in_any_case(text: str, word: str) -> None:
    assert read_word(text, ("yes", "no", "partly yes")) == word


@pytest.mark.parametrize("text", ["", "yesterday", "yes and no", "yes-man", "noyes", "partly yes, or rather: yes"])
def test_a_word_inside_another_or_two_words_are_no_verdict(text: str) -> None:
    with pytest.raises(JudgeUnparseable):
        read_word(text, ("yes", "no", "partly yes"))


@pytest.mark.parametrize(("text", "number"), [("7", 7), (" 7.5\n", 7.5), ("10.", 10), ("+3", 3), ("0", 0)])
def test_a_number_alone_is_read(text: str, number: float) -> None:
    assert read_number(text, 0, 10) == number


@pytest.mark.parametrize("text", ["", "seven", "7 of 10", "7/10", "11", "-1", "nan", "inf", "1e1", "1_0", "٧", "7,5"])
def test_a_number_with_anything_around_it_or_out_of_range_is_not(text: str) -> None:
    with pytest.raises(JudgeUnparseable):
        read_number(text, 0, 10)
