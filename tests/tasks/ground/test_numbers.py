"""How numbers and hostile text read."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.ground import visible
from leadline.tasks.ground.numbers import bound, duration, figure, money, percent, when
from leadline.tasks.ground.templating import markdown


@given(st.floats(0, 1))
def test_a_share_reads_as_all_or_none_only_if_it_is(value: float) -> None:
    text = percent(value)
    assert (text == "100 %") == (value == 1)
    assert (text == "0 %") == (value == 0)
    assert text[0] in "<>" or abs(float(text.removesuffix(" %")) - value * 100) <= 0.0501


def test_numbers_read_in_the_unit_that_fits() -> None:
    assert [figure(v) for v in (0.82749, 0.0, 1e-5, 9.7e-232, -1e-9, 1234.56, 1e9, math.inf, -math.inf)] == [
        "0.827", "0.000", "1.0e-05", "0.000", "0.000", "1,234.6", "1e+09", "∞", "-∞",
    ]  # fmt: skip
    assert [bound(0.75), bound(0.5, share=True), bound(math.inf)] == ["0.75", "50 %", "∞"]
    assert [duration(v) for v in (0.25, 3.14, 125.0, 7300.0)] == ["250 ms", "3.1 s", "2 min 5 s", "2 h 1 min"]
    assert [money(v) for v in (0.0, 0.0004, 12.5)] == ["$0.00", "$0.0004", "$12.50"]
    assert when("2026-01-02T03:04:05+00:00") == "2 January 2026, 03:04 UTC"
    assert when("yesterday") == "yesterday"


def test_characters_that_would_act_are_shown() -> None:
    assert visible("a\x00b\x1b[31m\u202egnp\u2028\ud800") == "a␀b␛[31m[U+202E]gnp[U+2028]?"
    assert visible("tab\tand\nline, عربى, 👩‍👩‍👧") == "tab\tand\nline, عربى, 👩‍👩‍👧"


def test_markdown_cannot_leave_its_cell() -> None:
    assert markdown("a | b\n# c <b>`x`") == "a \\| b \\# c \\<b\\>\\`x\\`"
    assert markdown("bm25_llama _emphasis_ __strong__") == "bm25_llama \\_emphasis\\_ \\_\\_strong\\_\\_"
    assert markdown("x" * 30, 10) == "xxxxxxxxxx… (20 more characters)"
