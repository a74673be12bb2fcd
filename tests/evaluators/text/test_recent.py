"""A memory that is bounded by the length of the texts."""

from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.text.recent import OVERHEAD, Recent


def test_what_was_not_used_for_longest_is_forgotten_first() -> None:
    recent: Recent[int] = Recent(2 * (OVERHEAD + 1))
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (1, None, 3)


def test_a_text_that_is_longer_than_all_may_be_is_not_kept() -> None:
    recent: Recent[int] = Recent(1_000)
    recent.put("x" * 2_000, 1)
    assert (len(recent), recent.size) == (0, 0)


@given(st.lists(st.text("ab", max_size=300), max_size=30))
def test_never_more_characters_are_held_than_allowed(texts: list[str]) -> None:
    recent: Recent[str] = Recent(1_000)
    for text in texts:
        recent.put(text, text)
        assert recent.size <= recent.most
    kept = [text for text in dict.fromkeys(texts) if recent.get(text) == text]
    assert recent.size == sum(len(text) + OVERHEAD for text in kept)
    if texts:
        assert recent.get(texts[-1]) == texts[-1]
