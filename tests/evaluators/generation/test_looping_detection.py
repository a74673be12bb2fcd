"""Looping: what the three ratios say of texts that repeat and texts that do not."""

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import Row
from leadline.evaluators.generation.looping_detection import MOST_SPANS, LoopingDetection
from leadline.evaluators.settings import Settings

TOOLS = EvalContext(Settings(splitter="rules"))


def score(text):
    return LoopingDetection().score([Row("case", "model", actual_answer=text)], TOOLS)[0]


def longest_by_brute_force(text):
    for length in range(len(text) // 2, 0, -1):
        most = max(text.count(text[start : start + length]) for start in range(len(text) - length + 1))
        if most > 1:
            return length * most / len(text)
    return 0.0


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text("ab. ", max_size=40), st.text(max_size=20)))
def test_ratios_equal_their_definitions(text):
    values = score(text).values
    sentences = [each.text for each in TOOLS.sentences(text) if len(each.text) >= 10]
    raw = text.encode("utf-8", errors="surrogatepass")
    assert values["unique_sentences"] == (len(set(sentences)) / len(sentences) if sentences else 1.0)
    assert values["longest_repeated_substring"] == pytest.approx(longest_by_brute_force(text), abs=1e-12)
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


def test_short_sentences_are_left_out():
    assert score("Yes. Yes. Yes. Yes.").values["unique_sentences"] == 1.0
    assert score("Yes. Yes. It is so indeed. It is so indeed.").values["unique_sentences"] == 0.5


def test_an_empty_answer_does_not_loop():
    assert dict(score("").values) == {
        "unique_sentences": 1.0,
        "longest_repeated_substring": 0.0,
        "compression_ratio": 1.0,
    }


def test_occurrences_do_not_overlap():
    assert score("aaaa").values["longest_repeated_substring"] == 1.0
    assert score("aaa").values["longest_repeated_substring"] == 1.0
    assert score("abcabcab").values["longest_repeated_substring"] == 6 / 8
