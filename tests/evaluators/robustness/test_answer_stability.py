"""Answer stability: likeness of the answers to copies and originals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import Row
from leadline.evaluators.robustness.answer_stability import normalized, word_f1
from leadline.evaluators.settings import Settings

CTX = EvalContext(Settings(embedder="offline", splitter="rules", device="cpu"))


def score(original, answer, **params):
    kind = get("answer_stability")
    row = Row("c", "m", actual_answer=answer, original_answer=original)
    return kind(kind.parameters.build("answer_stability", params)).score([row], CTX)[0]


@pytest.mark.parametrize(
    ("original", "answer", "likeness", "same"),
    [
        ("It starts at seven.", "it starts at SEVEN", 1.0, 1.0),
        ("It starts at seven.", "At seven it starts.", 1.0, 0.0),
        ("It starts at seven.", "It starts at nine.", 0.75, 0.0),
        ("seven seven", "seven", 2 / 3, 0.0),
        ("seven", "nine", 0.0, 0.0),
        ("", " … ", 1.0, 1.0),
        ("", "seven", 0.0, 0.0),
    ],
)
def test_words_in_common_make_answers_alike(original, answer, likeness, same):
    found = score(original, answer)
    assert found.values == {"answer_stability": pytest.approx(likeness), "same_answer": same}
    assert bool(found.evidence.message) is not bool(same)


@given(st.text(max_size=60), st.text(max_size=60))
def test_likeness_is_symmetric_and_whole_for_equal_answers(one, other):
    ours, theirs = normalized(one), normalized(other)
    assert 0 <= word_f1(ours, theirs) == word_f1(theirs, ours) <= 1
    assert word_f1(ours, ours) == 1


@pytest.mark.slow
def test_embeddings_find_the_same_meaning_in_other_words():
    words = score("The pump starts at seven.", "The machine begins to run at 7 o'clock.").values["answer_stability"]
    near = score("The pump starts at seven.", "The machine begins to run at 7 o'clock.", likeness="embedding").values
    far = score("The pump starts at seven.", "Refunds take thirty days.", likeness="embedding").values
    assert near["answer_stability"] > words
    assert near["answer_stability"] > far["answer_stability"] + 0.2
    assert near["same_answer"] == 0.0
