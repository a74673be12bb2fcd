"""Looping: what the three ratios say; the longest repeat equals brute force, and hostile texts take seconds."""

import random
import time
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import Row
from leadline.evaluators.generation.looping_detection import (
    MOST_SPANS,
    LoopingDetection,
    Repeat,
    longest_repeat,
    repeat_in_long,
    repeat_in_short,
)
from leadline.evaluators.settings import Settings

TOOLS = EvalContext(Settings(splitter="rules"))


def score(text):
    return LoopingDetection().score([Row("case", "model", actual_answer=text)], TOOLS)[0]


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text("ab. ", max_size=40), st.text(max_size=20)))
def test_ratios_equal_their_definitions(text):
    values = score(text).values
    sentences = [each.text for each in TOOLS.sentences(text) if len(each.text) >= 10]
    raw = text.encode("utf-8", errors="surrogatepass")
    assert values["unique_sentences"] == (len(set(sentences)) / len(sentences) if sentences else 1.0)
    assert values["longest_repeated_substring"] == pytest.approx(
        brute_force(text).covered / max(1, len(text)), abs=1e-12
    )
    assert values["compression_ratio"] == (min(1.0, len(zlib.compress(raw, 9)) / len(raw)) if raw else 1.0)
    assert all(0 <= value <= 1 for value in values.values())


def test_a_loop_shows_in_all_three_ratios():
    found = score("The tide comes in. " * 50)
    assert found.values["unique_sentences"] == 1 / 50
    assert found.values["longest_repeated_substring"] > 0.95
    assert found.values["compression_ratio"] < 0.1
    assert found.evidence.message.startswith("49 of 50 sentences repeat another; ")
    assert {span.note for span in found.evidence.spans} == {"repeated sentence", "longest repeated substring"}
    assert len(found.evidence.spans) <= 2 * MOST_SPANS


def test_evidence_points_at_the_repetition():
    text = "First, the pump is started. Then we wait a while. First, the pump is started."
    spans = score(text).evidence.spans
    assert {text[span.start : span.end] for span in spans if span.note == "repeated sentence"} == {
        "First, the pump is started."
    }
    assert [text[span.start : span.end] for span in spans if span.note != "repeated sentence"] == [
        "First, the pump is started."
    ] * 2


def test_ordinary_prose_does_not_loop():
    found = score("Ships drift at night. Harbour lights guide them home, and nobody aboard sleeps before the quay.")
    assert found.values["unique_sentences"] == 1.0
    assert found.values["longest_repeated_substring"] < 0.2
    assert not found.evidence


MILLION = 1_000_000


def brute_force(text):
    for length in range(len(text) // 2, 0, -1):
        most, found = 1, ""
        for start in range(len(text) - length + 1):
            piece = text[start : start + length]
            if text.count(piece) > most:
                most, found = text.count(piece), piece
        if found:
            starts, at = [], 0
            while (at := text.find(found, at)) >= 0:
                starts.append(at)
                at += length
            return Repeat(length, tuple(starts))
    return Repeat(0, ())


@settings(max_examples=1500, deadline=None)
@given(st.one_of(st.text("ab", max_size=45), st.text("abc\ud800😀 ", max_size=45), st.text(max_size=20)))
@example("")
@example("aaaa")
@example("abcdefgh abcdefgh")
@example("abcabcXabc")
def test_repeat_equals_brute_force(text):
    assert repeat_in_short(text) == repeat_in_long(text) == brute_force(text)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(40, 120), st.randoms(use_true_random=False))
def test_a_planted_loop_is_found_among_many_kinds_of_characters(times, length, draw):
    kinds = [chr(point) for point in range(0x4E00, 0x4E00 + 600)]
    loop = "".join(draw.sample(kinds, length))
    text = "".join(draw.sample(kinds, 30)) + loop * (times + 1)
    assert longest_repeat(text) == repeat_in_long(text)
    assert repeat_in_long(text).length >= length * ((times + 1) // 2)


def thue_morse(size):
    return "".join("ab"[number.bit_count() % 2] for number in range(size))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "length"),
    [
        (lambda: "a" * MILLION, 500_000),
        (lambda: "ab" * (MILLION // 2), 500_000),
        (lambda: thue_morse(MILLION), 262_144),
        (lambda: "".join(random.Random(1).choices("ab", k=MILLION)), 37),
        (lambda: "".join(map(chr, random.Random(2).choices(range(0x100, 0x3000), k=MILLION))), 2),
    ],
    ids=["one letter", "two letters", "Thue-Morse", "random bits", "random letters"],
)
def test_a_hostile_megabyte_takes_seconds(made, length):
    text = made()
    began = time.process_time()
    repeat = longest_repeat(text)
    assert repeat.length == length
    assert len(repeat.starts) >= 2
    assert len({text[start : start + length] for start in repeat.starts}) == 1
    assert all(b - a >= length for a, b in zip(repeat.starts, repeat.starts[1:], strict=False))
    assert time.process_time() - began < 60
    if length < 100:
        first = {}
        longer = range(len(text) - length)
        assert all(start - first.setdefault(text[start : start + length + 1], start) <= length for start in longer)


def test_short_sentences_are_left_out():
    assert score("Yes. Yes. Yes. Yes.").values["unique_sentences"] == 1.0
    assert score("Yes. Yes. It is so indeed. It is so indeed.").values["unique_sentences"] == 0.5
