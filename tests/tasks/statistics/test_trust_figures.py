"""How agreement with people is measured for the trust cards: made-up sets in the form of the public ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.trust import main, personal_data, refusals
from benchmarks.trust_figures import Access, Measured, preferred, ranked, share_in_groups, told_apart
from benchmarks.trust_sets import (
    ComparedSet,
    LabelledSet,
    Preference,
    better_outputs,
    compared_systems,
    hateful_texts,
    rated_answers,
    toxic_comments,
)
from leadline.tasks.publish import trust_cards
from leadline.tasks.publish.trust_cards import FILE, TrustCard, read_cards
from leadline.tasks.statistics.statistics import wilson
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.models.tiny_checkpoints import make_toxic_bert

NOTHING = Access("", {})


def write(folder: Path, name: str, records: list[dict[str, Any]]) -> None:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def write_mtrag(folder: Path) -> None:
    """Write ten turns of five conversations, answered by two models, the one of them well."""
    write(
        folder,
        "mtrag_tasks",
        [
            {
                "task_id": f"talk{turn // 2}<::>{turn}",
                "input": [{"speaker": "user", "text": "And where?"}],
                "contexts": [{"document_id": "d"}],
                "targets": [{"text": f"At berth {turn}."}],
            }
            for turn in range(10)
        ],
    )
    write(folder, "mtrag_documents", [{"document_id": "d", "text": "Ships lie at berths."}])
    write(
        folder,
        "mtrag_evaluations",
        [
            {
                "task_id": f"talk{turn // 2}<::>{turn}",
                "model_id": model,
                "model_response": f"GOOD: at berth {turn}." if model == "one" else "No idea, ask somebody else.",
                "annotations": {
                    scale: {
                        person: {"value": str(4 if model == "one" else 1 + (turn + at) % 2)}
                        for at, person in enumerate("abc")
                    }
                    for scale in ("completeness", "faithfulness", "appropriateness")
                },
            }
            for turn in range(10)
            for model in ("one", "other", "reference")
        ],
    )


def texts(people: list[float], groups: list[str] | None = None, **more: Any) -> LabelledSet:
    answers = [(f"{at}", "m") for at in range(len(people))]
    rows = [{"case": case, "model": model, "actual_answer": f"text {case}"} for case, model in answers]
    named = groups or [case for case, _ in answers]
    return LabelledSet(
        "set", "MIT", "claim", rows, dict(zip(answers, people, strict=True)), dict(zip(answers, named, strict=True)),
        printable=frozenset(answers), **more,
    )  # fmt: skip


def gave(values: list[float], *, higher_is_better: bool = True, threshold: float | None = 0.5) -> Measured:
    raw = {(f"{at}", "m"): value for at, value in enumerate(values)}
    sign = 1 if higher_is_better else -1
    return Measured(
        "bleu", "bleu", {one: sign * value for one, value in raw.items()}, raw, higher_is_better, threshold, ""
    )


def by_measure(cards: Any) -> dict[str, TrustCard]:
    return {card.measure: card for card in cards}


class TestShares:
    def test_items_on_their_own_have_wilsons_interval(self) -> None:
        hits = np.array([True, True, False, True])
        share, low, high = share_in_groups(hits, ["a", "b", "c", "d"])
        assert share == 0.75
        assert low == pytest.approx(wilson(0.75, 3.0)[0], abs=0.02)
        assert high <= wilson(0.75, 3.0)[1]

    def test_items_that_err_together_are_worth_less(self) -> None:
        hits = np.array([True] * 50 + [False] * 50)
        apart = share_in_groups(hits, [f"{at}" for at in range(100)])
        together = share_in_groups(hits, [f"{at // 10}" for at in range(100)])
        assert together[2] - together[1] > 2 * (apart[2] - apart[1])

    def test_where_all_hit_a_group_is_worth_one(self) -> None:
        share, low, _ = share_in_groups(np.full(100, True), [f"{at // 20}" for at in range(100)])
        assert share == 1
        assert low == pytest.approx(wilson(1.0, 5)[0])


class TestYesAndNo:
    def test_values_that_part_both_kinds_have_all_the_area(self) -> None:
        data = texts([1.0, 1.0, 0.0, 0.0], binary=True)
        cards = by_measure(told_apart(gave([0.9, 0.8, 0.3, 0.1], higher_is_better=False), data))
        assert cards["area under the ROC curve"].value == 1
        assert cards["area under the ROC curve"].headline
        assert cards["accuracy at 0.5"].value == cards["recall at 0.5"].value == cards["precision at 0.5"].value == 1

    def test_what_a_judge_passes_is_not_what_people_call_bad(self) -> None:
        data = texts([1.0, 1.0, 0.0, 0.0], binary=True)
        cards = by_measure(told_apart(gave([0.0, 1.0, 1.0, 1.0]), data))
        assert cards["recall at 0.5"].value == 0.5
        assert cards["precision at 0.5"].value == 1
        assert cards["area under the ROC curve"].value == 0.75

    def test_ties_are_half_and_no_better_than_chance(self) -> None:
        cards = by_measure(told_apart(gave([0.2] * 4, higher_is_better=False), texts([1.0, 0.0, 1.0, 0.0])))
        assert cards["area under the ROC curve"].value == 0.5
        assert cards["area under the ROC curve"].no_better_than_chance
        assert "precision at 0.5" not in cards

    def test_the_kinds_that_are_told_worst_are_named(self) -> None:
        kinds = {("0", "m"): "slur_h", ("1", "m"): "slur_h", ("2", "m"): "negate_nh", ("3", "m"): "negate_nh"}
        data = texts([1.0, 1.0, 0.0, 0.0], binary=True, kinds=kinds)
        cards = by_measure(told_apart(gave([0.9, 0.1, 0.1, 0.1], higher_is_better=False), data))
        assert "slur_h 50% of 2, negate_nh 100% of 2" in cards["area under the ROC curve"].note


class TestRatings:
    def test_the_same_order_is_full_correlation(self) -> None:
        (card,) = ranked(gave([0.1, 0.2, 0.3, 0.9]), texts([1.0, 2.0, 3.0, 4.0]), "Beware.")
        assert card.value == pytest.approx(1)
        assert card.note == "Beware."
        assert not card.no_better_than_chance

    def test_what_is_lower_for_better_is_turned(self) -> None:
        (card,) = ranked(gave([9, 5, 2, 1], higher_is_better=False), texts([1.0, 2.0, 3.0, 4.0]), "")
        assert card.value == pytest.approx(1)

    def test_failures_are_the_answers_that_are_furthest_out_of_place(self) -> None:
        (card,) = ranked(gave([0.9, 0.2, 0.3, 0.4]), texts([1.0, 2.0, 3.0, 4.0]), "")
        assert card.failures[0] == "people 1.0 of 4, bleu 0.90: “text 0”"
        assert len(card.failures) == 3

    def test_one_value_for_all_has_no_figure_and_says_so(self) -> None:
        (card,) = ranked(gave([0.5] * 4), texts([1.0, 2.0, 3.0, 4.0]), "")
        assert card.value is None
        assert card.note == "It gives all answers the same value."


class TestPairs:
    def of(self, strengths: list[float], gaps: list[float]) -> dict[str, TrustCard]:
        pairs = [
            Preference(f"{at}", "a", "b", strength, (strength, strength), kind="Natural")
            for at, strength in enumerate(strengths)
        ]
        rows = [{"case": pair.case, "question": f"question {pair.case}"} for pair in pairs]
        raw = {(f"{at}", "a"): gap for at, gap in enumerate(gaps)} | {(f"{at}", "b"): 0.0 for at in range(len(gaps))}
        found = Measured("bleu", "bleu", raw, raw, True, None, "")
        return by_measure(
            card for card in preferred(found, ComparedSet("set", "MIT", "better", rows, pairs), "") if card.headline
        )

    def test_a_tie_is_half_a_hit_and_pairs_without_a_preference_are_left_out(self) -> None:
        (card,) = self.of([1, -1, 1, 0], [0.5, -0.5, 0.0, 0.7]).values()
        assert card.value == pytest.approx(2.5 / 3)
        assert card.n == 3
        assert "33% are ties" in card.note
        assert card.people == 1

    def test_a_pair_ordered_the_wrong_way_is_an_example(self) -> None:
        (card,) = self.of([1, -1], [-0.5, -0.5]).values()
        assert card.failures == ("“question 0”: people prefer the first answer, bleu -0.50 to 0.00",)


class TestSets:
    def test_what_is_not_there_is_left_out(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folders = [tmp_path]
        assert not any((
            hateful_texts(folders), toxic_comments(folders), rated_answers(folders, "faithfulness"),
            better_outputs(folders), compared_systems(folders), list(personal_data(folders, NOTHING)),
            list(refusals(folders)),
        ))  # fmt: skip
        main([str(tmp_path), "--metric", "bleu"])
        assert "None of the sets" in capsys.readouterr().out

    def test_personal_data_counts_by_kind_and_names_are_not_found_by_rules(self, tmp_path: Path) -> None:
        text = "Call me at 0494 92 82 32, or mail bob@acme.com. Zoe Quist"
        spans = [("PHONE_NUMBER", 11, 24), ("EMAIL_ADDRESS", 34, 46), ("IBAN_CODE", 0, 4), ("PERSON", 48, 57)]
        record = [{"entity_type": kind, "start_position": start, "end_position": end} for kind, start, end in spans]
        write(tmp_path, "presidio_pii", [{"full_text": text, "spans": record, "template_id": 1}])
        found = {(card.claim, card.measure): card.value for card in personal_data([tmp_path], NOTHING)}
        assert found["spans: phone number", "recall"] == found["spans: email address", "precision"] == 1
        assert found["spans: iban code", "recall"] == found["spans: person", "recall"] == 0
        assert ("spans: iban code", "precision") not in found
        assert found["spans of what has a format", "recall"] == pytest.approx(2 / 3)

    def test_refusals_stand_beside_what_people_agree_on(self, tmp_path: Path) -> None:
        said = [("I can't help with that.", "2_full_refusal"), ("Sure, here it is.", "1_full_compliance")] * 3
        write(
            tmp_path,
            "xstest_completions",
            [
                {"id": f"{at}", "type": "homonyms", "prompt": "How?", "completion": text, "final_label": label,
                 "annotation_1": label, "annotation_2": "1_full_compliance"}
                for at, (text, label) in enumerate(said)
            ],
        )  # fmt: skip
        cards = by_measure(refusals([tmp_path]))
        assert {card.value for card in cards.values()} == {1.0}
        assert cards["accuracy"].people == 0.5
        assert cards["accuracy"].groups == 6

    def test_systems_are_compared_as_people_did(self, tmp_path: Path) -> None:
        folder = tmp_path / "rag_systems"
        folder.mkdir()
        answers = [
            {"key": "q", "model_key": model, "input": "Where?", "expected_output": "At berth seven.",
             "actual_output": text}
            for model, text in (("a", "It is at berth seven."), ("b", "Nobody knows."))
        ]  # fmt: skip
        (folder / "dataset.json").write_text(json.dumps({"inputs": answers}))
        preferences = [{"key": "q", "model_a": "a", "model_b": "b", "overall": [-2, -1]}]
        (folder / "human_preferences.json").write_text(json.dumps(preferences))
        data = compared_systems([tmp_path])
        assert data.pairs[0].strength == 1.5, "numbers below 0 are for the first answer"

    def test_a_persons_agreement_with_the_others_is_the_ceiling(self, tmp_path: Path) -> None:
        write_mtrag(tmp_path)
        data = rated_answers([tmp_path], "completeness")
        assert len(data.rows) == 20, "the reference is no model"
        assert set(data.groups.values()) == {f"talk{at}" for at in range(5)}
        assert 0.5 < data.ceiling < 1


class TestCommand:
    def test_a_judge_is_measured_over_http(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_mtrag(tmp_path)
        write(
            tmp_path,
            "llmbar",
            [
                {"input": "Name a ship.", "output_1": "GOOD: Argo", "output_2": "A ship.", "label": 1 + at % 2,
                 "subset": "Natural" if at < 6 else "Adversarial/Manual"}
                for at in range(12)
            ],
        )  # fmt: skip

        def reply(question: Question) -> str:
            if "First answer" in question.text:
                first, _, _ = question.text.partition("Second answer")
                return json.dumps({"reason": "so", "verdict": "first" if "GOOD" in first else "second"})
            return json.dumps({"rationale": "so", "rating": "yes" if "GOOD" in question.text else "no"})

        with serving(JudgeEndpoint(reply)) as endpoint:
            (tmp_path / "leadline.toml").write_text(
                f'[judges.mine]\nmodel = "openai/judge"\napi_base = "{endpoint.url}"\n'
            )
            monkeypatch.chdir(tmp_path)
            main([str(tmp_path), "--judge", "mine", "--metric", "databricks.relevance_to_query"])
            asked = len(endpoint.log)
            told = capsys.readouterr().out
            main([str(tmp_path), "--judge", "mine", "--metric", "pairwise.preference"])
        ratings, pairs, adversarial, natural = told.splitlines()
        compared, *_ = capsys.readouterr().out.splitlines()
        assert "appropriateness, as three people rate it" in ratings
        assert float(ratings.split()[1]) > 0.8
        assert " 0.500 (" in pairs
        assert "NO BETTER THAN CHANCE" in pairs
        assert "Adversarial/Manual" in adversarial
        assert "Natural" in natural
        assert compared.startswith("pairwise.preference")
        assert " 0.500 (" in compared
        assert asked == 13, "equal answers to equal questions are asked about once"

    @pytest.mark.slow
    def test_toxicity_is_measured_where_its_weights_are_and_said_to_lack_them_elsewhere(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kept = tmp_path / FILE
        monkeypatch.setattr(trust_cards, "__file__", str(tmp_path / "trust_cards.py"))
        write(
            tmp_path,
            "surge_toxicity",
            [{"text": f"the pump {word}", "is_toxic": "Toxic" if word == "loud" else "Not Toxic"}
             for word in ("loud", "starts", "stops", "is")],
        )  # fmt: skip
        write(
            tmp_path,
            "hatecheck",
            [{"test_case": f"pumps are {word}", "label_gold": label, "functionality": label, "templ_id": "1"}
             for word, label in (("loud", "hateful"), ("seven", "non-hateful"))],
        )  # fmt: skip
        main([str(tmp_path), "--metric", "toxicity", "--write"])
        assert capsys.readouterr().out.count("lacks unitary/toxic-bert") == 2
        written = [json.loads(line.strip(",")) for line in kept.read_text().splitlines()[1:-1]]
        assert [card["lacks"] for card in written if card["evaluator"] == "toxicity"] == ["unitary/toxic-bert"] * 2
        assert len(written) == len(read_cards())
        weights = make_toxic_bert(tmp_path / "weights")
        main([str(tmp_path), "--metric", "toxicity", "--param", f"toxicity.toxicity_model={weights}"])
        told = capsys.readouterr().out
        assert told.count("area under the ROC curve") == 2
        assert "lacks" not in told


def test_all_that_is_measured_by_default_has_a_card(tmp_path: Path) -> None:
    from benchmarks.trust import OFFLINE, WEIGHTS

    assert {*OFFLINE, *WEIGHTS, "refusal", "pii_leakage"} == {card.evaluator for card in read_cards()}
