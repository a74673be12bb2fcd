"""Users' patterns mean what Python's re says, and never hang."""

import re
import resource
import sys
import time
import unicodedata

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from leadline.evaluators.text import patterns
from leadline.evaluators.text.patterns import MAX_PATTERN, PatternError, compiled, search

ALPHABET = "abAB01 _-.{}[]()&|~\n²é́\x1cĸ_"
WRITTEN = r"""
    a b A B 0 1 _ - ² é . \. \d \D \w \W \s \S \b \n { } {} {e<=1} x{1 \{ \u00e9 \x41 (?#a[) ^ $ \A \Z
    [ab] [^ab] [a-z0] [\w-] [^\w] [\W] [^\W] [a\S] [^a\S1] [\W\S] [[:alpha:]] []a] [^]a] [a||b] [&&~~] [{}] [\]\[]
    """.split()
ATOMS = st.sampled_from([*WRITTEN, " ", r"\N{EN DASH}"])
QUANTIFIERS = st.sampled_from(
    ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "{,}", "*?", "+?", "??", "?+"]
)


def joined(parts):
    return st.lists(parts, min_size=1, max_size=4).map("".join)


def grown(inner):
    group = st.sampled_from(["({})", "(?:{})", "(?={})", "(?!{})", "(?i:{})", "(?-i:{})", "(?s:{})", "(?>{})"])
    wrapped = st.builds(lambda form, body: form.replace("{}", body), group, inner)
    quantified = st.builds("{}{}".format, wrapped, QUANTIFIERS)
    return st.one_of(quantified, st.builds("{}|{}".format, inner, inner), joined(quantified | inner))


PATTERNS = st.recursive(joined(st.builds("{}{}".format, ATOMS, QUANTIFIERS)), grown, max_leaves=5)
PATTERNS = st.builds("{}{}".format, st.sampled_from(["", "", "(?i)", "(?a)", "(?m)", "(?s)", "(?ai)"]), PATTERNS)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@settings(max_examples=500, deadline=None)
@given(PATTERNS, st.text(ALPHABET, max_size=12))
def test_a_pattern_finds_what_re_finds(pattern, text):
    try:
        expected = re.search(pattern, text)
    except re.error:
        assume(False)
    found = search(pattern, text, timeout=5)
    assert found == (expected.span() if expected else None)


@pytest.mark.parametrize("letter", ["w", "W", "s", "S", "d", "D"])
@pytest.mark.parametrize("form", ["\\{}", "[\\{}]", "[^\\{}]", "[\\{}x]"])
def test_classes_hold_the_same_characters_as_in_re(letter, form):
    pattern = form.replace("{}", letter)
    ours, theirs = compiled(pattern), re.compile(pattern)
    known = [char for char in map(chr, range(0, sys.maxunicode + 1, 3)) if unicodedata.category(char) != "Cn"]
    assert [char for char in known if bool(ours.match(char)) != bool(theirs.match(char))] == []


@pytest.mark.parametrize("pattern", ["a{e}", "(?:foo){e<=1}", "[[:digit:]]"])
def test_what_only_the_other_engine_knows_stays_plain(pattern):
    assert search(pattern, "5 fo b", timeout=1) is None


@pytest.mark.parametrize(
    "pattern",
    ["(", "[a", "a**", "\\p{L}", "(?R)", "(?<n>a)", "a{99999999999}", "*", "(?<=a+)b", "\\", "(?P<a>x)(?P<a>y)"],
)
def test_what_re_refuses_is_refused(pattern):
    with pytest.raises(PatternError):
        compiled(pattern)


@pytest.mark.parametrize("pattern", ["(?x) a # [", "(?x: a)", "(?a:\\w)", "(?s-i:a)(?xi:b)"])
def test_flags_that_change_how_a_pattern_reads_are_refused(pattern):
    with pytest.raises(PatternError, match="flags"):
        compiled(pattern)


def test_a_pattern_of_hostile_size_or_depth_is_refused():
    with pytest.raises(PatternError, match="longer"):
        compiled("a" * (MAX_PATTERN + 1))
    with pytest.raises(PatternError, match="nested"):
        compiled("(" * 4000 + "a" + ")" * 4000)


@pytest.mark.parametrize(
    "pattern",
    [
        "(((a{1000}){1000}){1000})",
        "((a{1000}){1000}){10}",
        "(?:(?:a{1000}){1000}?b|c){10,}",
        "(?=(?:(?>a{1000}){1000}+))x",
        "(x)?(?(1)(?:a{1000}){1000}|b)",
        "(" * 60 + "a" + ")+" * 60,
        "(?:" * 30 + "a" + "){2}" * 30,
    ],
)
def test_repeats_that_grow_to_something_huge_are_refused_before_they_are_compiled(pattern, monkeypatch):
    monkeypatch.setattr(patterns.regex, "compile", lambda *_, **__: pytest.fail("compiled"))
    with pytest.raises(PatternError, match="written out"):
        compiled(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "((a{1,100}){1,100}){1,100}",
        "(a{0,30000}){0,30000}b",
        "(a+)+$",
        "a{50000}",
        "(" * 90 + "a" + ")*" * 90,
        "(\\w{2,20}[ -]?){500}",
        "\\b" * (MAX_PATTERN // 2),
    ],
)
def test_repeats_that_stay_small_are_accepted(pattern):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    compiled(pattern)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


def test_what_is_kept_counts_what_patterns_were_written_out_to():
    for number in range(60):
        compiled(f"{number}x{{20000}}")
    assert patterns._compiled.cache.currsize <= patterns.CACHED
    assert len(patterns._compiled.cache) < 30


@pytest.mark.parametrize("pattern", ["(?:a|aa)+$", "(?:a|a)*[cd]", "(.+)+\\d"])
def test_an_exponential_pattern_is_given_up_in_time(pattern):
    started = time.process_time()
    with pytest.raises(TimeoutError):
        search(pattern, "a" * 5000 + "!", timeout=0.2)
    assert time.process_time() - started < 10


def test_a_surrogate_and_a_nul_are_characters():
    assert search(".\\x00$", "\ud800\x00", timeout=1) == (0, 2)


def test_what_is_kept_of_hostile_patterns_is_bounded() -> None:
    hostile = [f"{number}" + "a" * 9_000 for number in range(30)]
    sizes = [patterns._size(patterns._compiled(pattern)) for pattern in hostile]
    assert patterns._compiled.cache.currsize <= patterns.CACHED < sum(sizes)
    assert compiled(hostile[-1]) is compiled(hostile[-1])
