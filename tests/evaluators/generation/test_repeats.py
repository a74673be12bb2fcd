"""The longest repeat equals brute force, and hostile texts take seconds."""

import random
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.evaluators.generation.looping_detection import Repeat, longest_repeat

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
    assert longest_repeat(text) == brute_force(text)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(40, 120), st.randoms(use_true_random=False))
def test_a_planted_loop_is_found_among_many_kinds_of_characters(times, length, draw):
    kinds = [chr(point) for point in range(0x4E00, 0x4E00 + 600)]
    loop = "".join(draw.sample(kinds, length))
    text = "".join(draw.sample(kinds, 30)) + loop * (times + 1)
    assert longest_repeat(text).length >= length * ((times + 1) // 2)


def thue_morse(size):
    return "".join("ab"[number.bit_count() % 2] for number in range(size))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("a" * MILLION, 500_000),
        ("ab" * (MILLION // 2), 500_000),
        (thue_morse(MILLION), 262_144),
        ("".join(random.Random(1).choices("ab", k=MILLION)), 37),
        ("".join(map(chr, random.Random(2).choices(range(0x100, 0x3000), k=MILLION))), 2),
    ],
    ids=["one letter", "two letters", "Thue-Morse", "random bits", "random letters"],
)
def test_a_hostile_megabyte_takes_seconds(text, length):
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
