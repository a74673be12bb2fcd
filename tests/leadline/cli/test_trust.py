"""``leadline evaluators trust``: what a user reads of agreement with people."""

from __future__ import annotations

import json

import pytest

from leadline.cli.main import run


def test_the_overview_has_the_best_first_and_fits_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluators", "trust"]) == 0
    told = capsys.readouterr().out
    tables = [line for line in told.splitlines() if line.startswith(("bleu ", "rouge ", "levenshtein ", "refusal "))]
    assert max(map(len, tables)) <= 80
    assert told.index("\nrouge ") < told.index("\nlevenshtein ")
    assert "people among themselves" in told
    assert "toxicity: HateCheck, half: not measured here, needs the weights unitary/toxic-bert" in told
    assert "> chance" in told


def test_one_evaluator_is_shown_with_failures_and_how_to_measure_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluators", "trust", "refusal"]) == 0
    told = capsys.readouterr().out
    assert "accuracy" in told
    assert "CC BY 4.0" in told
    assert "Wrong: " in told
    assert "People among themselves: accuracy 0.9" in told
    assert "python -m benchmarks.trust DIR --metric refusal" in told


def test_what_is_no_better_than_chance_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluators", "trust", "answer_relevancy_sentence_similarity"]) == 0
    assert "No better than chance: " in capsys.readouterr().out


def test_json_has_the_cards_of_one_evaluator(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluators", "trust", "refusal", "--json"]) == 0
    cards = json.loads(capsys.readouterr().out)
    assert {card["evaluator"] for card in cards} == {"refusal"}
    assert all(card["measured"] for card in cards)


@pytest.mark.parametrize(
    ("evaluator", "told"),
    [
        ("refusl", "Did you mean refusal?"),
        ("perplexity", "Measured: "),
        ("faithfulness", "leadline labels sample --metric faithfulness"),
        ("\x1b[31mred", "List them with"),
    ],
)
def test_an_evaluator_without_a_card_is_told_what_to_do(
    evaluator: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluators", "trust", evaluator]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "\x1b" not in error
