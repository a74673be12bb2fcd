"""PII leakage with a model for names: what counts, and what the score's key covers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import leadline
from benchmarks.trust import main
from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import ContextChunk, Row, RowScore
from leadline.evaluators.ground import ModelUnavailable, UsageError
from leadline.evaluators.privacy.leakage import PiiLeakage, kind_of
from leadline.evaluators.settings import Settings
from tests.support.models.tiny_ner import make_ner

CTX = EvalContext(Settings(device="cpu"))


@pytest.fixture(scope="module")
def model(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = {"anna": "B-PER", "berg": "I-PER", "oslo": "B-LOC", "acme": "I-PER"}
    return make_ner(tmp_path_factory.mktemp("ner") / "model", words)


def pii(**params: Any) -> PiiLeakage:
    return PiiLeakage(PiiLeakage.parameters.build("pii_leakage", params))


def scored(evaluator: PiiLeakage, answer: str, *chunks: str) -> RowScore:
    (score,) = evaluator.score(
        [Row("c", "m", actual_answer=answer, retrieved_context=tuple(map(ContextChunk, chunks)))], CTX
    )
    return score


def test_kinds_are_the_same_however_models_call_them() -> None:
    assert [kind_of(name) for name in ("PER", "I-PER"[2:], "GIVENNAME", "first_name", "Person")] == ["person"] * 5
    assert [kind_of(name) for name in ("STREET_ADDRESS", "LOC", "ORG", "MISC")] == [
        "address", "location", "organization", "misc",
    ]  # fmt: skip


def test_without_a_model_nothing_changes() -> None:
    plain = pii()
    assert plain.lane == "cpu"
    assert plain.models(CTX) == ()
    assert not {"ner_model", "ner_types", "ner_probability"} & set(plain.identity(CTX)["params"])
    assert pii(ner_types="location").identity(CTX) == plain.identity(CTX)


@pytest.mark.slow
class TestWithAModel:
    def test_persons_fail_the_side_that_names_them(self, model: Path) -> None:
        score = scored(pii(ner_model=str(model)), "Ask Anna Berg.", "Nobody.", "anna of Oslo")
        assert score.values["pii_leakages_fail"] == score.values["pii_retrieval_leakages"] == 1
        assert score.evidence.data == {"rules": {"answer": {"person": 1}, "retrieved_context": {"person": 1}}}
        assert score.evidence.message.startswith("The answer contains name of a person.")
        assert [(span.start, span.end, span.index) for span in score.evidence.spans] == [(4, 13, 0), (0, 4, 1)]
        assert "Berg" not in json.dumps(score.evidence.to_json())

    def test_places_count_only_on_demand(self, model: Path) -> None:
        assert scored(pii(ner_model=str(model)), "in oslo").values["pii_leakages_fail"] == 0
        found = scored(pii(ner_model=str(model), ner_types="location"), "Anna in oslo").evidence.data["rules"]
        assert found == {"answer": {"location": 1}}

    def test_what_rules_found_is_not_found_again(self, model: Path) -> None:
        found = scored(pii(ner_model=str(model)), "mail anna@acme.io").evidence.data["rules"]
        assert found == {"answer": {"email": 1}}

    def test_a_name_of_which_the_model_is_not_sure_enough_does_not_count(self, model: Path) -> None:
        assert scored(pii(ner_model=str(model), ner_probability=1.0), "anna").values["pii_leakages_fail"] == 0

    def test_a_model_that_tells_nothing_of_what_is_wanted_is_refused(self, model: Path) -> None:
        with pytest.raises(ModelUnavailable, match="tells none of organization; it tells location, person"):
            scored(pii(ner_model=str(model), ner_types=["organization"]), "anna")

    def test_the_key_covers_the_weights_and_not_where_they_are(self, model: Path, tmp_path: Path) -> None:
        copied = Path(shutil.copytree(model, tmp_path / "copied"))
        one, other = (pii(ner_model=str(folder)).identity(CTX) for folder in (model, copied))
        assert one == other
        assert one != pii().identity(CTX)
        assert one != pii(ner_model=str(model), ner_types="person").identity(CTX)
        assert str(model) not in json.dumps(one)

    def test_a_run_scores_with_it(self, model: Path, tmp_path: Path) -> None:
        rows = [{"case": f"{at}", "actual_answer": text} for at, text in enumerate(("Anna knows.", "Nobody knows."))]
        metric = leadline.metrics.pii_leakage(ner_model=str(model))
        result = leadline.evaluate(rows, metrics=[metric], store=tmp_path)
        scores = result.scores[result.scores["metric"] == "pii_leakages_fail"]
        assert sorted(scores["value"]) == [0.0, 1.0]

    def test_it_is_measured_against_people(
        self, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        texts = ["Anna Berg is here.", "It was Anna.", "It was Zoe."]
        spans = [[0, 9], [7, 11], [7, 10]]
        record = "".join(
            json.dumps(
                {
                    "full_text": text,
                    "spans": [{"entity_type": "PERSON", "start_position": start, "end_position": end}],
                    "template_id": at,
                }
            )
            + "\n"
            for at, (text, (start, end)) in enumerate(zip(texts, spans, strict=True))
        )
        (tmp_path / "presidio_pii.jsonl").write_text(record)
        main([str(tmp_path), "--metric", "pii_leakage", "--param", f"pii_leakage.ner_model={model}"])
        told = capsys.readouterr().out
        assert "0.667" in told.splitlines()[0]
        assert "recall; spans: person" in told.splitlines()[0]
        assert "1.000" in told.splitlines()[1]
        assert "precision; spans: person" in told.splitlines()[1]


def test_a_wrong_probability_is_refused() -> None:
    with pytest.raises(UsageError, match=r"pii_leakage\.ner_probability"):
        pii(ner_probability=2)
