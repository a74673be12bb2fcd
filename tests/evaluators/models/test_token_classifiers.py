"""Token classifiers: what the tokens of a text make of it."""

from __future__ import annotations

import pytest

from leadline.evaluators.ground import ModelRef, ModelUnavailable
from leadline.evaluators.models.inference import entities, types_of
from leadline.evaluators.settings import Settings
from tests.support.models.tiny_ner import make_ner

pytestmark = pytest.mark.slow

CPU = Settings(device="cpu")


@pytest.fixture(scope="module")
def ref(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> ModelRef:
    words = {"anna": "B-PER", "berg": "I-PER", "bob": "B-PER", "oslo": "LOC"}
    return ModelRef("token_classifier", str(make_ner(tmp_path_factory.mktemp("ner") / "model", words)))


def found(ref: ModelRef, text: str) -> list[tuple[str, str]]:
    return [(one.type, text[one.start : one.end]) for one in entities(ref, [text], settings=CPU)[0]]


def test_words_of_one_entity_are_one_stretch_of_the_text(ref: ModelRef) -> None:
    assert found(ref, "so says Anna Berg, in Oslo.") == [("PER", "Anna Berg"), ("LOC", "Oslo")]
    assert found(ref, "Anna  Berg") == [("PER", "Anna  Berg")]


def test_a_second_beginning_is_a_second_entity(ref: ModelRef) -> None:
    assert found(ref, "anna bob") == [("PER", "anna"), ("PER", "bob")]
    assert found(ref, "anna, berg") == [("PER", "anna"), ("PER", "berg")]


def test_a_word_is_what_its_first_token_is(ref: ModelRef) -> None:
    assert found(ref, "the bobs") == [("PER", "bobs")]
    assert found(ref, "the xanna") == []
    assert found(ref, "oslo-anna") == [("LOC", "oslo"), ("PER", "anna")]


def test_a_long_text_is_read_to_its_end(ref: ModelRef) -> None:
    text = "it is so " * 200 + "Anna Berg"
    assert found(ref, text) == [("PER", "Anna Berg")]


def test_texts_are_answered_in_order_in_any_batch(ref: ModelRef) -> None:
    texts = ["", "anna", "it is so " * 50, "oslo", "anna", "  "]
    kinds = [[one.type for one in each] for each in entities(ref, texts, settings=CPU)]
    assert kinds == [[], ["PER"], [], ["LOC"], ["PER"], []]
    assert types_of(ref, settings=CPU) == {"PER", "LOC"}


def test_lone_surrogates_and_other_scripts_do_no_harm(ref: ModelRef) -> None:
    assert found(ref, "\ud800 anna \U0001f600 東京 oslo") == [("PER", "anna"), ("LOC", "oslo")]


def test_a_model_of_another_kind_is_refused(one_thread: None, tiny) -> None:
    with pytest.raises(ModelUnavailable, match="is no token classifier; it was saved as BertForSequence"):
        entities(ModelRef("token_classifier", str(tiny("bert"))), ["anna"], settings=CPU)
