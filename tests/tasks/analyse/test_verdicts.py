"""Verdicts on answers that people judged: a small part of benchmarks.verdicts, with its answers of EVOUNA."""

from __future__ import annotations

import random

import pytest

from benchmarks.verdicts import BOTS, drawn, read_answers, verdicts

DRAWS = 6


@pytest.mark.parametrize(
    ("wrong", "never", "mostly"), [(0.0, "FAIL", "PASS"), (0.3, "PASS", "INCONCLUSIVE"), (1.0, "PASS", "FAIL")]
)
def test_the_gate_tells_right_answers_from_wrong_ones_without_a_judge(wrong: float, never: str, mostly: str) -> None:
    answers, chance = read_answers([]), random.Random(1)
    rows, bad = [], set()
    for draw in range(DRAWS):
        for number, answer in enumerate(drawn(answers, wrong, 40, chance) or ()):
            bad |= set() if answer.right else {len(rows)}
            rows.append(answer.row(f"{draw}-{number}", f"draw{draw}"))
    found = verdicts(rows)
    said = [verdict for verdict, _ in found.values()]
    assert len(said) == DRAWS
    assert never not in said
    assert said.count(mostly) >= DRAWS / 2
    listed = set().union(*(named for _, named in found.values()))
    assert len(listed & bad) >= 0.8 * len(bad)


@pytest.mark.parametrize(
    ("bot", "verdict"),
    [
        ("support bot, all right", "PASS"),
        ("support bot, sentences, all right", "PASS"),
        ("support bot, all wrong", "FAIL"),
        ("labels, all right", "PASS"),
        ("labels, all wrong", "FAIL"),
        ("code and JSON, all right", "PASS"),
        ("8 of 40 answers empty", "FAIL"),
    ],
)
def test_bots_of_other_kinds_get_the_verdict_that_is_true(bot: str, verdict: str) -> None:
    rows = [{**row, "case": str(n), "model": "bot"} for n, row in enumerate(BOTS[bot](random.Random(2)))]
    assert verdicts(rows)["bot"][0] == verdict
