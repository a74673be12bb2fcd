"""Steps are found and put together, and no alignment of them is better."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.generation._procedures import Edit, align, joined, procedures


def found(text: str) -> list[list[str]]:
    return [[step.text for step in procedure.steps] for procedure in procedures(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("To start:\n1. Open the valve.\n2. Press Start.", [["Open the valve", "Press Start"]]),
        ("1) Open\n2) Close", [["Open", "Close"]]),
        ("(1) Open\n(2) Close", [["Open", "Close"]]),
        ("Step 1: Open\nStep 2: Close", [["Open", "Close"]]),
        ("**Step 1:** Open it\nslowly.\n\n**Step 2**: Close it.", [["Open it slowly", "Close it"]]),
        ("### Step 1 - Open\nText.\n### Step 2 - Close", [["Open Text", "Close"]]),
        ("Step one: Open\nStep two: Close", [["Open", "Close"]]),
        ("1.1 Open\n1.2 Clean\n2.1 Close", [["Open", "Clean", "Close"]]),
        ("(a) Open\n(b) Close", [["Open", "Close"]]),
        ("i) Open\nii) Close", [["Open", "Close"]]),
        ("- Open\n- Close", [["Open", "Close"]]),
        ("• Open\r\n• Close\r\n", [["Open", "Close"]]),
        ("- [ ] Open\n- [x] Close", [["Open", "Close"]]),
        ("> 1. Open\n> 2. Close", [["Open", "Close"]]),
        ("第1步：打开\n第2步：关闭", [["打开", "关闭"]]),
        ("Шаг 1. Открыть\nШаг 2. Закрыть", [["Открыть", "Закрыть"]]),
        ("1. Open:\n   - turn it\n   - pull it\n2. Close", [["Open", "turn it", "pull it", "Close"]]),
        ("1. Open:\n   1. turn it\n   2. pull it\n2. Close", [["Open", "turn it", "pull it", "Close"]]),
        ("1. Open\n\nTake care.\n\n2. Close", [["Open", "Close"]]),
        ("1. Open\n2. Close\n\nThen:\n\n1. Go", [["Open", "Close"], ["Go"]]),
        ("- Open\n- Close\n\nAnd:\n\n- Go\n- Stay", [["Open", "Close"], ["Go", "Stay"]]),
        ("1. Open\n\n2. Close", [["Open", "Close"]]),
        ("Do this: 1) open it, 2) start it; 3) stop it.", [["open it", "start it", "stop it"]]),
        ("1. Open. 2. Close. 3. Go", [["Open", "Close", "Go"]]),
        ("First, open it, then start it. Finally, close it.", [["open it", "start it", "close it"]]),
        ("First open it, and then close it.", [["open it", "close it"]]),
        ("5. Tighten\n6. Check", [["Tighten", "Check"]]),
        ("1. Only this", [["Only this"]]),
        ("- only this", []),
        ("In 2024. It was.\n3.5 million people\nA. Einstein\nStage a play\nStep aside", []),
        ("He was first in the race, and then lost.", []),
        ("---\n* * *\n1.\n2.\n", []),
        ("The pump starts at seven.", []),
        ("", []),
    ],
)
def test_steps_found_in_a_text(text: str, expected: list[list[str]]) -> None:
    assert found(text) == expected


@given(st.text(alphabet="1234ab.):-*#>\n\t Step,then\u2028\ud800🙂", max_size=60))
def test_every_step_stands_where_it_says(text: str) -> None:
    for procedure in procedures(text):
        ends = [0]
        for step in procedure.steps:
            assert 0 <= ends[-1] <= step.start < step.end <= len(text)
            assert step.text.split()[0] in text[step.start : step.end].replace("**", "").replace("__", "")
            ends.append(step.start)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (["1. A\n2. B", "3. C\n4. D"], [["A", "B", "C", "D"]]),
        (["3. C\n4. D", "1. A\n2. B"], [["A", "B", "C", "D"]]),
        (["1. A\n2. B\n3. C", "2. B\n3. C\n4. D"], [["A", "B", "C", "D"]]),
        (["1. A\n2. B", "2. X\n3. Y"], [["A", "B"], ["X", "Y"]]),
        (["1. A\n2. B", "5. E\n6. F"], [["A", "B"], ["E", "F"]]),
        (["1. A\n2. B", "no steps", "1. C\n2. D"], [["A", "B"], ["C", "D"]]),
        ([], []),
    ],
)
def test_a_procedure_cut_between_texts_is_put_together(chunks: list[str], expected: list[list[str]]) -> None:
    together = joined([procedures(chunk) for chunk in chunks])
    assert [[step.text for step in procedure.steps] for procedure in together] == expected


@pytest.mark.parametrize(
    "text",
    [
        "1. a\n",
        "- ",
        "(",
        "1",
        " ",
        "1) ",
        "then ",
        ", then a",
        "\n",
        "x ",
        "**",
        "#",
        "first,",
        ".\n",
        "; ",
        "1.1.1.",
        "step ",
    ],
)
def test_time_grows_with_the_length_only(text: str) -> None:
    begun = time.process_time()
    procedures(text * (500_000 // len(text)))
    assert time.process_time() - begun < 5


THRESHOLD = 0.7


def letters(expected: str, actual: str) -> np.ndarray:
    """Similarity of steps that are letters: 1 for equal ones, 0.5 for the same in another case, else 0."""
    table = [[1.0 if a == b else 0.5 if a.lower() == b.lower() else 0.0 for b in actual] for a in expected]
    return np.array(table).reshape(len(expected), len(actual))


def shown(expected: str, actual: str) -> str:
    """Write an alignment as ``expected/actual`` pairs with a dash for a gap."""
    return " ".join(
        f"{'-' if place.expected is None else expected[place.expected]}"
        f"{'-' if place.actual is None else actual[place.actual]}"
        for place in align(letters(expected, actual), THRESHOLD)
    )


@pytest.mark.parametrize(
    ("expected", "actual", "alignment"),
    [
        ("", "", ""),
        ("abc", "abc", "aa bb cc"),
        ("abc", "ac", "aa b- cc"),
        ("ac", "abc", "aa -b cc"),
        ("abc", "axc", "aa bx cc"),
        ("abc", "", "a- b- c-"),
        ("", "abc", "-a -b -c"),
        ("abcd", "bcda", "a- bb cc dd -a"),
        ("ab", "ba", "-b aa b-"),
        ("abcde", "xbde", "ax bb c- dd ee"),
        ("ab", "B", "a- bB"),
        ("aab", "ab", "a- aa bb"),
    ],
)
def test_alignments_checked_by_hand(expected: str, actual: str, alignment: str) -> None:
    assert shown(expected, actual) == alignment


def test_kinds_of_edits() -> None:
    kinds = [place.edit for place in align(letters("abcde", "xbdey"), THRESHOLD)]
    assert kinds == [Edit.MISMATCH, Edit.MATCH, Edit.INSERTION, Edit.MATCH, Edit.MATCH, Edit.DELETION]


def test_a_similarity_at_the_threshold_is_a_match() -> None:
    assert align(np.array([[0.7]]), 0.7)[0].edit is Edit.MATCH
    assert align(np.array([[0.6999999]]), 0.7)[0].edit is Edit.MISMATCH


def best(similarity: np.ndarray, row: int = 0, column: int = 0) -> tuple[int, int]:
    """Fewest edits, and then the greatest sum of similarities (negated, in millionths), by trying everything."""
    rows, columns = similarity.shape
    if row == rows and column == columns:
        return (0, 0)
    tries = []
    if row < rows and column < columns:
        edits, total = best(similarity, row + 1, column + 1)
        value = float(similarity[row, column])
        tries.append((edits + (value < THRESHOLD), total - round(value * 1_000_000)))
    if row < rows:
        edits, total = best(similarity, row + 1, column)
        tries.append((edits + 1, total))
    if column < columns:
        edits, total = best(similarity, row, column + 1)
        tries.append((edits + 1, total))
    return min(tries)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 5), st.integers(0, 5), st.data())
def test_no_alignment_is_better(rows: int, columns: int, data: st.DataObject) -> None:
    values = st.sampled_from([-1.0, -0.25, 0.0, 0.3, 0.699999, 0.7, 0.85, 1.0])
    cells = data.draw(st.lists(values, min_size=rows * columns, max_size=rows * columns))
    similarity = np.array(cells).reshape(rows, columns)
    aligned = align(similarity, THRESHOLD)
    assert [place.expected for place in aligned if place.expected is not None] == list(range(rows))
    assert [place.actual for place in aligned if place.actual is not None] == list(range(columns))
    pairs = [similarity[p.expected, p.actual] for p in aligned if p.expected is not None and p.actual is not None]
    found = (sum(place.edit is not Edit.MATCH for place in aligned), -sum(round(value * 1_000_000) for value in pairs))
    assert found == best(similarity)


def test_long_sequences_take_no_long_time() -> None:
    similarity = np.random.default_rng(1).uniform(-1, 1, (2000, 2000))
    assert len(align(similarity, THRESHOLD)) >= 2000
