import json
import math

import pytest

from benchmarks.trust import personal_data, refusals
from leadline.evaluators.core.registry import all_evaluators
from leadline.flows.cli.main import run
from leadline.tasks.trust.trust_cards import read_cards, write_cards


def test_every_card_is_of_an_evaluator_in_its_present_version():
    present = {kind.spec.id: kind.spec.version for kind in all_evaluators().values()}
    for card in read_cards():
        assert present[card.evaluator] == card.version, f"measure {card.evaluator} again: benchmarks.trust DIR --write"


def test_figures_lie_in_their_intervals_and_say_how_many_labels_they_rest_on():
    for card in read_cards():
        assert card.low <= card.value <= card.high
        assert card.n > 0
        assert card.data
        assert card.licence


def test_one_evaluators_cards_are_shown(capsys: pytest.CaptureFixture[str]):
    assert run(["trust", "refusal", "--json"]) == 0
    assert {card["evaluator"] for card in json.loads(capsys.readouterr().out)} == {"refusal"}
    assert run(["trust", "refusal"]) == 0
    assert "accuracy" in capsys.readouterr().out


def test_an_evaluator_that_nobody_measured_is_said(capsys: pytest.CaptureFixture[str]):
    assert run(["trust", "perplexity"]) == 2
    assert "Measured: " in capsys.readouterr().err


def test_figures_are_measured_on_sets_in_a_folder(tmp_path):
    text = "Call me at 0494 92 82 32, or mail bob@acme.com."
    spans = [
        {"entity_type": "PHONE_NUMBER", "start_position": 11, "end_position": 24},
        {"entity_type": "EMAIL_ADDRESS", "start_position": 34, "end_position": 46},
    ]
    spans += [
        {"entity_type": kind, "start_position": 0, "end_position": 4}
        for kind in ("CREDIT_CARD", "IBAN_CODE", "IP_ADDRESS", "US_SSN")
    ]
    (tmp_path / "presidio_pii.jsonl").write_text(json.dumps({"full_text": text, "spans": spans}) + "\n")
    found = {(card.claim.split(":")[0], card.measure): card.value for card in personal_data(tmp_path)}
    assert found["phone number", "recall"] == found["email address", "precision"] == 1
    assert found["iban code", "recall"] == 0
    assert ("iban code", "precision") not in found
    answers = [("I can't help with that.", "2_full_refusal"), ("Sure, here it is.", "1_full_compliance")] * 3
    (tmp_path / "xstest_completions.jsonl").write_text(
        "".join(json.dumps({"completion": text, "final_label": label}) + "\n" for text, label in answers)
    )
    assert {card.value for card in refusals(tmp_path)} == {1.0}
    assert not list(refusals(tmp_path / "nothing"))
    kept = tmp_path / "cards.json"
    write_cards(refusals(tmp_path), kept)
    assert all(math.isfinite(card["low"]) for card in json.loads(kept.read_text()))
