"""Trust cards: what stands in them, and how they are kept."""

from __future__ import annotations

from pathlib import Path

from leadline.evaluators.core import all_evaluators
from leadline.tasks.publish.trust_cards import TrustCard, merged, read_cards, write_cards


def card(evaluator: str, data: str, value: float | None, **more: object) -> TrustCard:
    return TrustCard(evaluator, "1", "claim", "accuracy", data, "MIT", value=value, **more)  # type: ignore[arg-type]


def test_every_card_is_of_an_evaluator_in_its_present_version() -> None:
    present = {kind.spec.id: kind.spec.version for kind in all_evaluators().values()}
    for each in read_cards():
        assert present[each.evaluator] == each.version, f"measure {each.evaluator} again: benchmarks.trust DIR --write"


def test_figures_lie_in_their_intervals_and_say_how_many_labels_they_rest_on() -> None:
    for each in read_cards():
        assert each.data
        assert each.licence
        assert each.measured
        if each.value is None:
            assert each.lacks
            continue
        assert each.low is not None
        assert each.high is not None
        assert each.low <= each.value <= each.high
        assert each.n >= each.groups > 0


def test_each_evaluator_has_one_figure_that_stands_for_all_on_a_set_and_claim() -> None:
    leading = [(each.evaluator, each.data, each.claim) for each in read_cards() if each.headline]
    assert len(leading) == len(set(leading))
    assert {each.evaluator for each in read_cards()} == {evaluator for evaluator, *_ in leading}


def test_what_reaches_the_figure_of_guessing_is_no_better_than_chance() -> None:
    assert card("bleu", "x", 0.6, low=0.5, high=0.7, chance=0.5).no_better_than_chance
    assert not card("bleu", "x", 0.6, low=0.51, high=0.7, chance=0.5).no_better_than_chance
    assert not card("bleu", "x", 0.6, low=0.5, high=0.7).no_better_than_chance
    assert not card("bleu", "x", None, chance=0.5).no_better_than_chance


def test_new_figures_replace_those_of_their_evaluator_and_set_and_no_others() -> None:
    old = [card("bleu", "a", 0.1), card("bleu", "b", 0.2), card("rouge", "a", 0.3)]
    new = [card("bleu", "a", 0.4)]
    assert {(each.evaluator, each.data, each.value) for each in merged(old, new)} == {
        ("bleu", "a", 0.4), ("bleu", "b", 0.2), ("rouge", "a", 0.3),
    }  # fmt: skip


def test_cards_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "cards.json"
    written = [card("bleu", "a", 0.123456, low=0.1, high=0.2, n=3, failures=("one",)), card("bleu", "b", None)]
    write_cards(written, path)
    assert path.read_text(encoding="utf-8").count("\n") == 4
    assert '"value": 0.1235' in path.read_text(encoding="utf-8")
    assert "setting" not in path.read_text(encoding="utf-8")
