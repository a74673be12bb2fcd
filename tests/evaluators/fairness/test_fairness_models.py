"""Toxicity and fairness bias: what the sentences' and the answer's classes make of a row."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import NotApplicable, Reason, Row, RowScore, Unscored
from leadline.evaluators.fairness.classifiers import KINDS, FairnessBias, Toxicity
from leadline.evaluators.ground import ModelRef, ModelUnavailable, UsageError
from leadline.evaluators.models import catalogue, inference
from leadline.evaluators.settings import Settings

pytestmark = pytest.mark.slow

ANSWER = "The pump starts at seven. It is loud! Says the manual: it stops at nine."


@pytest.fixture
def ctx() -> EvalContext:
    return EvalContext(Settings(device="cpu", splitter="rules"))


def row(answer: str) -> Row:
    return Row("case", "model", actual_answer=answer)


def toxicity(folder: Path) -> Toxicity:
    return Toxicity(Toxicity.parameters.build("toxicity", {"toxicity_model": str(folder)}))


def bias(folder: Path, **more: str) -> FairnessBias:
    return FairnessBias(FairnessBias.parameters.build("fairness_bias", {"bias_model": str(folder), **more}))


def reasons(score: RowScore) -> set[Reason]:
    return {value.reason for value in score.values.values() if isinstance(value, Unscored)}


class TestToxicity:
    def test_each_metric_is_the_maximum_over_the_sentences_of_detoxify_s_own_prediction(
        self, tiny: Callable[[str], Path], ctx: EvalContext, tmp_path: Path
    ) -> None:
        import torch
        from detoxify import Detoxify
        from transformers import BertForSequenceClassification

        from tests.support.models.tiny_checkpoints import TOXIC_LABELS

        folder = tiny("bert")
        arguments = {
            "model_type": str(folder),
            "model_name": "BertForSequenceClassification",
            "tokenizer_name": "BertTokenizer",
            "num_classes": 6,
        }
        state = BertForSequenceClassification.from_pretrained(str(folder)).state_dict()
        config = {"dataset": {"args": {"classes": list(TOXIC_LABELS)}}, "arch": {"args": arguments}}
        torch.save({"config": config, "state_dict": state}, tmp_path / "toxic_original.ckpt")
        published = Detoxify(checkpoint=str(tmp_path / "toxic_original.ckpt"))
        rows = [row(ANSWER), row("nine"), row("Seven at nine, and loud. " * 3)]
        for one, score in zip(rows, toxicity(folder).score(rows, ctx), strict=True):
            predictions = [published.predict(each.text) for each in ctx.sentences(one.actual_answer or "")]
            assert set(predictions[0]) == set(KINDS)
            for key in KINDS:
                expected = max(prediction[key] for prediction in predictions)
                assert score.values[key] == pytest.approx(expected, abs=1e-5)

    def test_evidence_points_at_the_worst_sentence_of_each_metric(
        self, tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        (score,) = toxicity(tiny("bert")).score([row(ANSWER)], ctx)
        worst = score.evidence.data["worst"]
        assert isinstance(worst, dict)
        for key, found in worst.items():
            sentence = ANSWER[found["start"] : found["end"]]
            assert sentence == found["sentence"]
            (alone,) = toxicity(tiny("bert")).score([row(sentence)], ctx)
            assert alone.values[key] == pytest.approx(score.values[key], abs=1e-5)
        assert [ANSWER[span.start : span.end] for span in score.evidence.spans] == [
            sentence.text for sentence in ctx.sentences(ANSWER)
        ]
        assert max(span.value or 0.0 for span in score.evidence.spans) == score.values["toxicity"]

    def test_the_end_of_a_long_sentence_counts(self, tiny: Callable[[str], Path], ctx: EvalContext) -> None:
        """Detoxify reads the first 512 tokens of a text; no toxic end may hide behind them."""
        start = "seven and nine " * 30
        folder = tiny("bert")
        (calm,) = toxicity(folder).score([row(start)], ctx)
        ends = ("loud loud loud loud", "the manual says", "it it it it it", "? ! ? !")
        scores = toxicity(folder).score([row(start + end) for end in ends], ctx)
        assert any(score.values["toxicity"] != pytest.approx(calm.values["toxicity"], abs=1e-6) for score in scores)

    def test_labels_are_found_by_name_whatever_their_order(self, tiny: Callable[[str], Path], ctx: EvalContext) -> None:
        folder = tiny("roberta")
        ref = ModelRef("classifier", str(folder))
        (found,) = inference.classify(ref, ["It is loud!"], settings=ctx.settings)
        (score,) = toxicity(folder).score([row("It is loud!")], ctx)
        for place, name in enumerate(found.labels):
            if name in KINDS:
                assert score.values[name] == pytest.approx(found.sigmoid[0, place], abs=1e-9)

    def test_a_kind_that_the_model_has_no_output_for_is_not_applicable(
        self, tiny: Callable[[str], Path], ctx: EvalContext, tmp_path: Path
    ) -> None:
        folder = shutil.copytree(tiny("bert"), tmp_path / "model")
        config = json.loads((folder / "config.json").read_text())
        config["id2label"]["3"] = "sexual_explicit"
        (folder / "config.json").write_text(json.dumps(config))
        (score,) = toxicity(folder).score([row(ANSWER)], ctx)
        assert isinstance(score.values["threat"], NotApplicable)
        assert isinstance(score.values["toxicity"], float)
        assert score.complete

    def test_a_model_without_toxicity_is_refused(self, tiny: Callable[[str], Path], ctx: EvalContext) -> None:
        with pytest.raises(ModelUnavailable, match="no output for toxicity"):
            toxicity(tiny("bias")).score([row(ANSWER)], ctx)

    @pytest.mark.parametrize("answer", ["", " \n"])
    def test_an_answer_without_a_sentence_is_unscorable(
        self, answer: str, tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        (score,) = toxicity(tiny("bert")).score([row(answer)], ctx)
        assert reasons(score) == {Reason.UNSCORABLE}

    def test_detoxify_s_models_go_by_their_names(self, ctx: EvalContext) -> None:
        sources = {
            "original": "unitary/toxic-bert",
            "unbiased": "unitary/unbiased-toxic-roberta",
            "multilingual": "unitary/multilingual-toxic-xlm-roberta",
        }
        for name, source in sources.items():
            evaluator = Toxicity(Toxicity.parameters.build("toxicity", {"toxicity_model": name}))
            assert evaluator.models(ctx) == (ModelRef("classifier", source, catalogue.REVISIONS[source]),)
        assert Toxicity().models(ctx) == (catalogue.TOXIC_BERT,)

    def test_the_same_weights_under_another_name_have_the_same_key(self, ctx: EvalContext) -> None:
        named = Toxicity(Toxicity.parameters.build("toxicity", {"toxicity_model": "unitary/toxic-bert"}))
        assert named.identity(ctx) == Toxicity().identity(ctx)

    def test_a_name_that_is_none_is_refused(self, ctx: EvalContext) -> None:
        evaluator = Toxicity(Toxicity.parameters.build("toxicity", {"toxicity_model": "not a model"}))
        with pytest.raises(UsageError):
            evaluator.models(ctx)

    def test_absent_weights_are_unavailable_with_the_command_that_fetches_them(
        self, ctx: EvalContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
        with pytest.raises(ModelUnavailable, match="leadline evaluators models pull unitary/toxic-bert"):
            Toxicity().score([row(ANSWER)], ctx)


class TestFairnessBias:
    def test_the_value_is_the_probability_of_the_label_biased(
        self, tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        folder = tiny("bias-tensorflow")
        model = AutoModelForSequenceClassification.from_pretrained(str(tiny("bias"))).eval()
        answers = ["The pump is loud.", "nine", "It stops at seven, says the manual."]
        for answer, score in zip(answers, bias(folder).score([row(each) for each in answers], ctx), strict=True):
            inputs = AutoTokenizer.from_pretrained(str(folder))(answer, return_tensors="pt")
            with torch.no_grad():
                logits = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[0]
            assert score.values["fairness_bias"] == pytest.approx(float(logits.double().softmax(-1)[1]), abs=1e-5)
            assert not score.flags

    def test_sonar_s_scale_is_that_of_its_own_code(self, tiny: Callable[[str], Path], ctx: EvalContext) -> None:
        rows = [row(answer) for answer in ("The pump is loud.", "nine", "it", "? !", "seven, seven", ANSWER[:60])]
        plain = bias(tiny("bias")).score(rows, ctx)
        scaled = bias(tiny("bias"), scale="sonar").score(rows, ctx)
        for one, other in zip(plain, scaled, strict=True):
            biased = one.values["fairness_bias"]
            assert isinstance(biased, float)
            likelier = max(biased, 1 - biased)
            normalised = 0.5 - likelier / 2 if biased >= 0.5 else 0.5 + likelier / 2
            assert other.values["fairness_bias"] == pytest.approx(1 - normalised)

    def test_a_long_answer_is_scored_by_its_most_biased_part_and_reported(
        self, tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        answer = "The pump starts at seven. It is loud! " * 20
        (score,) = bias(tiny("bias")).score([row(answer)], ctx)
        (flag,) = score.flags
        assert flag.type == "evaluation"
        assert "more than the 40" in flag.message
        assert "".join(answer[span.start : span.end] for span in score.evidence.spans) == answer
        assert score.values["fairness_bias"] == max(span.value or 0.0 for span in score.evidence.spans)

    @pytest.mark.parametrize(("words", "parts", "told"), [(38, 1, []), (39, 2, []), (40, 2, []), (41, 2, [41])])
    def test_only_an_answer_of_more_tokens_than_the_model_reads_is_reported(
        self, words: int, parts: int, told: list[int], tiny: Callable[[str], Path], ctx: EvalContext
    ) -> None:
        """The tiny model reads 40 tokens, 38 of the text and two marks."""
        (score,) = bias(tiny("bias")).score([row("nine " * words)], ctx)
        assert score.evidence.data["tokens"] == words
        assert score.evidence.data.get("parts", 1) == parts
        assert [flag.message.partition(",")[0] for flag in score.flags] == [
            f"The answer has {count} tokens" for count in told
        ]

    @pytest.mark.parametrize("answer", ["", "\t "])
    def test_a_blank_answer_is_unscorable(self, answer: str, tiny: Callable[[str], Path], ctx: EvalContext) -> None:
        (score,) = bias(tiny("bias")).score([row(answer)], ctx)
        assert reasons(score) == {Reason.UNSCORABLE}

    def test_a_model_without_the_label_is_refused(self, tiny: Callable[[str], Path], ctx: EvalContext) -> None:
        with pytest.raises(ModelUnavailable, match="no output called Biased"):
            bias(tiny("bert")).score([row("nine")], ctx)
