"""The language of text-matching conditions."""

import re
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.text.conditions import (
    MAX_DEPTH,
    MAX_LENGTH,
    And,
    ConditionError,
    Not,
    Or,
    Regexp,
    Text,
    evaluate,
    may_turn,
    parse,
    quote,
    quote_regexp,
)

STRINGS = st.text('abAND"\\ \n()', max_size=4)
REGEXPS = st.sampled_from(["a", "^b", "a.b", "[ab]+$", "\\d", '\\"', "\\\\", "A|D", "(?i)a", ""])
TEXTS = st.text('abAND"\\ \n()1', max_size=10)
SPACE = st.text(" \t\n\r\u00a0\u2003", max_size=3)


def nodes(inner):
    many = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(Not, inner), st.builds(And, many), st.builds(Or, many))


TREES = st.recursive(st.builds(Text, STRINGS) | st.builds(Regexp, REGEXPS), nodes, max_leaves=8)


def truth(node, text):
    """The obvious meaning of a tree, without short cuts."""
    if isinstance(node, Text):
        return node.value in text
    if isinstance(node, Regexp):
        return re.search(node.pattern, text) is not None
    if isinstance(node, Not):
        return not truth(node.operand, text)
    values = [truth(operand, text) for operand in node.operands]
    return all(values) if isinstance(node, And) else any(values)


LEVELS = {Or: 0, And: 1, Not: 2}


def written(node, draw):
    """Write a tree with random white space, and parentheses where they are needed or by chance."""

    def gap():
        return draw(SPACE)

    def operand(child, level):
        inner = written(child, draw)
        if LEVELS.get(type(child), 3) < level or draw(st.booleans()):
            return f"({gap()}{inner}{gap()})"
        return inner

    if isinstance(node, Text):
        return quote(node.value)
    if isinstance(node, Regexp):
        return f"regexp{gap()}({gap()}{quote_regexp(node.pattern)[7:-1]}{gap()})"
    if isinstance(node, Not):
        inner = operand(node.operand, 2)
        between = gap()
        return f"NOT{between if between or inner[0] in '(' + chr(34) else ' '}{inner}"
    word = "AND" if isinstance(node, And) else "OR"
    parts = [operand(child, LEVELS[type(node)] + 1) for child in node.operands]
    out = parts[0]
    for part in parts[1:]:
        after = gap() or ("" if part[0] in '("' else " ")
        out += f"{gap()}{word}{after}{part}"
    return out


@settings(max_examples=600, deadline=None)
@given(st.data(), TREES)
def test_a_written_tree_is_read_back_and_means_what_it_says(data, tree):
    source = written(tree, data.draw)
    parsed = parse(source)
    assert parsed == tree
    for text in data.draw(st.lists(TEXTS, min_size=1, max_size=4)):
        outcome = evaluate(parsed, text)
        assert outcome.matched == truth(tree, text)
        assert bool(outcome.failed) != outcome.matched
        assert outcome.failed in source
        if not outcome.matched:
            assert not evaluate(parse(outcome.failed), text).matched


@given(st.text(), st.text())
def test_a_quoted_string_stands_for_itself(string, text):
    assert parse(quote(string)) == Text(string)
    assert evaluate(parse(quote(string)), text + string).matched


@pytest.mark.parametrize(
    ("source", "text", "matched"),
    [
        ('"15,969"', "it was 15,969 million", True),
        ('regexp("15,?969")', "15969", True),
        ('"15,969" AND regexp("[Mm]illion")', "15,969 Million", True),
        ('"15,969" AND regexp("[Mm]illion")', "15,969 billion", False),
        ('("Brazil" OR "brazil") AND regexp("15,?969 [Mm]illion") AND NOT "Real"', "brazil 15969 Million", True),
        ('("Brazil" OR "brazil") AND regexp("15,?969 [Mm]illion") AND NOT "Real"', "Brazil 15969 Million Real", False),
        ('regexp("^$Brazil revenue was 15,969 million$")', "Brazil revenue was 15,969 million", False),
        ('regexp("^Brazil revenue was 15,969 million$")', "Brazil revenue was 15,969 million", True),
        ('"a" OR "b" AND "c"', "a", True),
        ('("a" OR "b") AND "c"', "a", False),
        ('NOT "a" OR "b"', "ab", True),
        ('NOT ("a" OR "b")', "b", False),
        ('NOT NOT "a"', "a", True),
        ('NOT NOT NOT "a"', "a", False),
        ('"a"AND"b"OR"c"', "c", True),
        ('\t\n "a"  AND\r\n "b" ', "ab", True),
        ('"AND"', "AND", True),
        (r'"say \"hi\""', 'say "hi"', True),
        (r'"C:\\temp"', r"C:\temp", True),
        (r'"C:\temp"', r"C:\temp", True),
        (r'regexp("\"\\d+\"")', r'"\d"', True),
        (r'regexp("\"\d+\"")', '"12"', True),
        ('regexp("(a|b) \\(c\\)")', "b (c)", True),
        ('""', "", True),
        ('regexp("")', "", True),
        ('"é"', "e\u0301", False),
        ('"A"', "a", False),
        ('regexp("a.b")', "a\nb", False),
        ('"\u202eabc"', "x\u202eabc", True),
    ],
)
def test_a_condition_is_read_as_documented(source, text, matched):
    assert evaluate(parse(source), text).matched is matched


@pytest.mark.parametrize(
    ("source", "position", "message"),
    [
        ("", 0, "empty"),
        (" \n\t", 0, "empty"),
        ('"a" AND', 7, 'expected a "string", regexp('),
        ('"a" "b"', 4, 'expected AND, OR or the end, found "b"'),
        ('"a" and "b"', 4, "write AND"),
        ('NOTNOT "a"', 0, "NOTNOT"),
        ('("a"', 4, "expected AND, OR or ), found the end"),
        ('"a")', 3, "found )"),
        ('"a', 0, "never closed"),
        ('"a\\"', 0, "never closed"),
        ("regexp(^A.*)", 7, "double quotes"),
        ('regexp "a"', 7, "expected ( after regexp"),
        ('regexp("a"', 10, "expected ) after the pattern"),
        ('"x" OR regexp("(")', 14, "invalid"),
        ("Paris", 0, "double quotes"),
        ("“Paris”", 0, "straight double quotes"),
        ("'Paris'", 0, "use double quotes"),
        ("AND", 0, "found AND"),
        ("()", 1, "found )"),
    ],
)
def test_a_broken_condition_says_where_and_what_was_expected(source, position, message):
    with pytest.raises(ConditionError) as caught:
        parse(source)
    assert caught.value.position == position
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"at character {position + 1}: ")


@pytest.mark.parametrize("opening", ["(", "NOT ", "(NOT "])
def test_nesting_beyond_the_bound_is_refused_and_up_to_it_accepted(opening):
    def source(depth):
        return opening * depth + '"a"' + ")" * (opening.count("(") * depth)

    levels = MAX_DEPTH // (opening.count("(") + opening.count("NOT"))
    assert evaluate(parse(source(levels)), "a").matched == (opening.count("NOT") * levels % 2 == 0)
    with pytest.raises(ConditionError, match="nested"):
        parse(source(levels + 1))
    with pytest.raises(ConditionError):
        parse(source(20_000)[:MAX_LENGTH])


def test_a_condition_of_hostile_length_is_refused():
    with pytest.raises(ConditionError, match="at most"):
        parse('"' + "a" * MAX_LENGTH + '"')


@pytest.mark.parametrize("junk", ['"' * 99_999, "(" * 99_999, '"\\' * 49_000, '"a" OR ' * 14_000, "NOT" * 30_000])
def test_a_hostile_condition_is_refused_quickly(junk):
    started = time.process_time()
    with pytest.raises(ConditionError):
        parse(junk)
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("source", "text", "failed"),
    [
        ('"a" AND "b" AND "c"', "a", '"b"'),
        ('"a" AND ("b" OR  "c")', "a", '"b" OR  "c"'),
        ('"a" AND NOT ("b")', "ab", 'NOT ("b")'),
        ('"a" AND NOT NOT regexp("z")', "a", 'NOT NOT regexp("z")'),
        ('("a" AND "b") OR "c"', "a", '("a" AND "b") OR "c"'),
        ('"x" AND ("a" AND "b")', "xa", '"b"'),
    ],
)
def test_the_part_that_did_not_match_is_named_as_it_was_written(source, text, failed):
    assert evaluate(parse(source), text).failed == failed


def test_parts_inside_each_other_hold_the_text_of_the_condition_once():
    source = '"x"'
    for _ in range(MAX_DEPTH // 2):
        source = f'NOT ({source} OR "{"y" * 3_000}")'
    tracemalloc.start()
    try:
        parsed = parse(source)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(parsed.source) == source
    assert held < 3 * len(source)


def test_matched_operands_are_located():
    outcome = evaluate(parse('"b" AND regexp("c+") AND NOT "a"'), "abcc")
    assert [(match.start, match.end, match.operand, match.unwanted) for match in outcome.matches] == [
        (1, 2, '"b"', False),
        (2, 4, 'regexp("c+")', False),
        (0, 1, '"a"', True),
    ]


def test_what_is_decided_is_not_searched_further():
    assert evaluate(parse('"a" OR regexp("(?:a|aa)+$")'), "a" * 5000 + "!", timeout=0.2).matched
    assert not evaluate(parse('"b" AND regexp("(?:a|aa)+$")'), "a" * 5000 + "!", timeout=0.2).matched


LETTERS = st.recursive(st.sampled_from("abcd").map(Text), nodes, max_leaves=6)


@given(LETTERS, st.sets(st.sampled_from("abcd")))
def test_what_is_certain_of_a_part_of_a_text_holds_of_every_text_with_it(tree, letters):
    part = "".join(letters)
    outcome = evaluate(tree, part, complete=False)
    for more in ("", "a", "b", "c", "d", "ab", "cd", "abcd"):
        if outcome.certain:
            assert evaluate(tree, part + more).matched is outcome.matched
    assert outcome.matched <= outcome.certain
    assert evaluate(tree, "abcd", complete=False).certain


TURNING = [
    "a$", r"a\Z", r"\Aa*\Z", "^(?!.*b)", "^[^b]*$", "a(?!\nb)", "(?<!b)a", "(?m)a$", "(a)?(?(1)\n?|b)",
    r"(?s)(?>a(?:b\n)?)b", r"(?s)a(?:b\n)?+b", r"(?s)(?=(a(?:b\n)?))\1b", r"(?s)(?=(?P<x>a(?:b\n)?))(?P=x)b",
    "a{1,2}+b", "((?!b).)*$", "a(?:\nb)?+c?b?$",
]  # fmt: skip
STEADY = [
    "a", "^a", "a+", "a*?b", "[$a]", r"\$|a", "[]$]|a", "[^]$]", r"\bab\b", r"a\B", "(?=.*a)b", "(?<=a)b", "(?i)A",
    "(?i:A)", "(?P<x>a)b?", "(?:a|b){1,2}", "a{2}", r"[\]$]|b", "a??b", "[(?!]|a", r"\(\?!|a", r"\Aa", "(?s-i:a.b)",
    "a{+|b",
]  # fmt: skip


def test_patterns_that_may_not_match_once_a_text_goes_on_are_told():
    assert [pattern for pattern in TURNING if not may_turn(pattern)] == []
    assert [pattern for pattern in STEADY if may_turn(pattern)] == []


PATTERNS = st.recursive(
    (st.sampled_from(TURNING + STEADY).map(Regexp)) | st.sampled_from("ab").map(Text), nodes, max_leaves=4
)
LINES = st.text("abA$\n", max_size=6)


@given(PATTERNS, LINES, LINES)
def test_what_is_certain_of_a_part_of_a_text_holds_whatever_lines_follow(tree, part, more):
    outcome = evaluate(tree, part, complete=False)
    if outcome.certain:
        assert evaluate(tree, part).matched is outcome.matched
        assert evaluate(tree, f"{part}\n{more}").matched is outcome.matched


@given(st.sampled_from(STEADY), LINES, LINES)
def test_a_match_of_a_pattern_that_asserts_no_absence_stays(pattern, part, more):
    if evaluate(Regexp(pattern), part):
        assert evaluate(Regexp(pattern), f"{part}\n{more}")


@given(st.sampled_from(TURNING + STEADY), LINES, LINES)
def test_a_pattern_matches_a_text_if_it_does_one_of_its_readings_unless_it_asserts_an_absence(pattern, one, other):
    text = f"{one}\n{other}"
    readings = ((0, len(one)), (len(one) + 1, len(text)))
    found = re.search(pattern, text) or re.search(pattern, one) or re.search(pattern, other)
    unwanted = not evaluate(Not(Regexp(pattern)), text, readings=readings)
    assert unwanted is (found is not None)
    if "(?!" in pattern or "(?<!" in pattern:
        found = re.search(pattern, f"{one} {other}")
    outcome = evaluate(Regexp(pattern), text, readings=readings)
    assert outcome.matched is (found is not None)
    for match in outcome.matches:
        assert text[match.start : match.end].replace("\n", " ") == found[0].replace("\n", " ")


def test_what_is_absent_from_a_text_is_absent_from_all_its_readings_unless_it_is_unwanted():
    node, readings = Regexp("^(?!.*b)a"), ((0, 2), (3, 5))
    for text, matched, unwanted in (("aa\nab", False, True), ("ab\naa", False, True), ("aa\naa", True, True)):
        assert evaluate(node, text, readings=readings).matched is matched
        assert evaluate(Not(node), text, readings=readings).matched is not unwanted


def test_the_readings_of_a_text_share_one_time_limit():
    text = "\n".join(["a" * 4000 + "!"] * 5)
    readings = [(start, start + 4001) for start in range(0, len(text), 4002)]
    started = time.process_time()
    with pytest.raises(TimeoutError, match="took too long"):
        evaluate(parse('regexp("^(?:a|aa)+$")'), text, timeout=0.2, readings=readings)
    assert time.process_time() - started < 1.5


def test_an_absent_operand_of_a_part_of_a_text_is_unknown():
    for source, matched, certain, failed in (
        ('"x" AND NOT "a"', False, True, 'NOT "a"'),
        ('"x" OR "a"', True, True, ""),
        ('"a" AND NOT "x" AND "y"', False, False, 'NOT "x"'),
        ('NOT (NOT "x")', False, False, 'NOT (NOT "x")'),
    ):
        outcome = evaluate(parse(source), "a", complete=False)
        assert (outcome.matched, outcome.certain, outcome.failed) == (matched, certain, failed)
        assert evaluate(parse(source), "a").certain


def test_a_slow_pattern_is_a_timeout():
    with pytest.raises(TimeoutError, match="took too long"):
        evaluate(parse('regexp("(?:a|aa)+$")'), "a" * 5000 + "!", timeout=0.1)
