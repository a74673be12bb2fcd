"""Grounding with a tiny classifier: which pairs are read, and what is made of its likelihoods."""

import pytest

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import ContextChunk, Reason, Row, Unscored
from leadline.evaluators.ground import ModelRef
from leadline.evaluators.models import inference
from leadline.evaluators.models.results import ENTAILMENT
from leadline.evaluators.settings import Settings

pytestmark = pytest.mark.slow

CTX = EvalContext(Settings(splitter="rules", device="cpu"))
CHUNKS = ("pump starts", "", "manual says")
ANSWER = "It stops. Pump is loud."


def row(answer=ANSWER, chunks=CHUNKS):
    return Row("c", "m", retrieved_context=tuple(map(ContextChunk, chunks)), actual_answer=answer)


@pytest.fixture(scope="module")
def folder(tiny):
    return str(tiny("nli"))


@pytest.fixture
def grounding(folder):
    def build(**params):
        kind = get("grounding")
        return kind(kind.parameters.build("grounding", {"grounding_model": folder, **params}))

    return build


def test_each_sentence_counts_with_the_chunk_that_entails_it_most(grounding, folder):
    claims = ("It stops.", "Pump is loud.")
    cuts = inference.fit(ModelRef("nli", folder), CHUNKS + claims, settings=CTX.settings)
    assert all(len(places) == 1 for places in cuts.values())
    read = [(chunk, claim) for claim in claims for chunk in (CHUNKS[0], CHUNKS[2])]
    likely = inference.infer(ModelRef("nli", folder), read, settings=CTX.settings)[:, ENTAILMENT]
    best = [max(likely[:2]), max(likely[2:])]
    between = float(sum(best) / 2)
    [found] = grounding(supported_from=between).score([row()], CTX)
    assert found.values["grounding"] == 0.5
    assert found.values["least_grounded"] == pytest.approx(min(best), abs=1e-5)
    assert [span.value for span in found.evidence.spans] == pytest.approx(best, abs=1e-5)
    assert found.evidence.data["best_chunks"] == [0 if pair[0] > pair[1] else 2 for pair in (likely[:2], likely[2:])]


def test_texts_beyond_the_model_are_cut_and_rows_are_read_together(grounding):
    long = "the pump starts at seven and stops at nine says the manual " * 20
    rows = [row(), row(long, (long, "x")), row("It is loud.", (long,))]
    together = grounding().score(rows, CTX)
    for one, each in zip(rows, together, strict=True):
        [alone] = grounding().score([one], CTX)
        assert each.values == pytest.approx(alone.values, abs=1e-4)


def test_a_blank_context_supports_nothing_and_a_blank_answer_claims_nothing(grounding):
    [blank, silent] = grounding().score([row(chunks=("", " ")), row(answer=" ")], CTX)
    assert blank.values == {"grounding": 0.0, "least_grounded": 0.0}
    value = silent.values["grounding"]
    assert isinstance(value, Unscored)
    assert value.reason is Reason.UNSCORABLE


def test_too_many_pairs_are_not_read(grounding):
    [found] = grounding().score([row("It is loud. " * 200, [f"chunk {number}" for number in range(200)])], CTX)
    assert isinstance(found.values["grounding"], Unscored)
