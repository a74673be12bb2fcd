"""Classifiers give each text the logits that Transformers gives it alone, however they are batched."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.ground import ModelRef, ModelUnavailable, OutOfMemory
from leadline.evaluators.models import inference, runtime
from leadline.evaluators.models.results import Classified
from leadline.evaluators.settings import Settings

pytestmark = pytest.mark.slow

CPU = Settings(device="cpu")
TEXTS = (
    "the pump starts at seven.",
    "loud",
    "",
    "It stops at nine, says the manual; and it is loud!",
    "seven " * 20,
    "the pump starts",
    "ünïcödé 🙂 \u202e \ud800",
)
LONG = "The pump starts at seven, says the manual. " * 12


def labels(model: ModelRef) -> tuple[str, ...]:
    (found,) = inference.classify(model, ["It"], settings=CPU)
    return found.labels


def ref(folder: Path) -> ModelRef:
    return ModelRef("classifier", str(folder))


@cache
def by_transformers(folder: Path) -> tuple[Any, Any]:
    """Return a checkpoint's model and tokenizer as Transformers loads them."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(str(folder)).eval()
    return model, AutoTokenizer.from_pretrained(str(folder))


def alone(folder: Path, text: str) -> Any:
    """Return the logits of one text by Transformers itself."""
    import torch

    model, tokenizer = by_transformers(folder)
    with torch.no_grad():
        return model(**tokenizer(text, return_tensors="pt")).logits[0].double().numpy()


@pytest.fixture(params=["bert", "roberta", "bias"])
def folder(request: pytest.FixtureRequest, tiny: Callable[[str], Path]) -> Path:
    return tiny(request.param)


@pytest.mark.parametrize("at_once", [1, 64, 100_000])
def test_logits_equal_those_of_each_text_alone_in_any_batch_and_order(
    folder: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.evaluators.models.checkpoints.TOKENS_CPU", at_once)
    texts = [text for text in TEXTS if "\ud800" not in text]
    random.Random(at_once).shuffle(texts)
    found = inference.classify(ref(folder), texts, settings=CPU)
    for text, each in zip(texts, found, strict=True):
        assert each.places == ((0, len(text)),)
        np.testing.assert_allclose(each.logits[0], alone(folder, text), atol=1e-5)


def test_a_long_text_is_read_in_windows_that_leave_nothing_out(folder: Path) -> None:
    import torch

    (found,) = inference.classify(ref(folder), [LONG], settings=CPU)
    limit = inference.classify(ref(folder), ["It"], settings=CPU)[0].limit
    assert limit == {"bert": 40, "roberta": 38, "bias": 40}[folder.name]
    assert [found.places[0][0], *(end for _, end in found.places)] == [*(at for at, _ in found.places), len(LONG)]
    model, tokenizer = by_transformers(folder)
    first, *ids, last = tokenizer(LONG)["input_ids"]
    assert found.tokens == len(ids)
    count = len(found.places)
    assert (count - 1) * (limit - 2) < len(ids) <= count * (limit - 2)
    for number in range(count):
        window = [first, *ids[len(ids) * number // count : len(ids) * (number + 1) // count], last]
        assert len(window) <= limit
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([window])).logits[0].double().numpy()
        np.testing.assert_allclose(found.logits[number], logits, atol=1e-5)


def test_equal_texts_are_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leadline.evaluators.models.classifiers import Classifier

    read: list[int] = []
    forward = Classifier._forward

    def counted(self: Any, batch: Sequence[Sequence[int]]) -> Any:
        read.append(len(batch))
        return forward(self, batch)

    monkeypatch.setattr(Classifier, "_forward", counted)
    found = inference.classify(ref(folder), ["seven", "nine", "seven"], settings=CPU)
    assert sum(read) == 2
    assert found[0] is found[2]


def test_no_texts_need_no_weights() -> None:
    assert inference.classify(ModelRef("classifier", "/no/where"), [], settings=CPU) == []


def test_probabilities_are_sigmoids_or_shares() -> None:
    found = Classified(np.array([[-800.0, 0.0, 800.0], [1.0, 2.0, 3.0]]), ((0, 1), (1, 2)), 2)
    np.testing.assert_allclose(found.sigmoid[0], [0.0, 0.5, 1.0], atol=1e-12)
    np.testing.assert_allclose(found.sigmoid[1], 1 / (1 + np.exp([-1.0, -2.0, -3.0])), atol=1e-12)
    np.testing.assert_allclose(found.softmax.sum(axis=1), 1.0)
    np.testing.assert_allclose(found.softmax[0], [0.0, 0.0, 1.0], atol=1e-12)


def test_batches_are_halved_until_they_fit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from leadline.evaluators.models.classifiers import Classifier

    forward = Classifier._forward

    def small(self: Any, batch: Sequence[Sequence[int]]) -> Any:
        if len(batch) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, batch)

    expected = inference.classify(ref(folder), TEXTS, settings=CPU)
    monkeypatch.setattr(Classifier, "_forward", small)
    for ours, theirs in zip(inference.classify(ref(folder), TEXTS, settings=CPU), expected, strict=True):
        np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-5)


def test_what_does_not_fit_alone_is_an_error_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from leadline.evaluators.models.classifiers import Classifier

    def never(self: Any, batch: Sequence[Sequence[int]]) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Classifier, "_forward", never)
    with pytest.raises(OutOfMemory):
        inference.classify(ref(folder), TEXTS, settings=CPU)


class TestTensorflow:
    def test_hdf5_gives_the_same_logits_as_safetensors(self, tiny: Callable[[str], Path]) -> None:
        ours = inference.classify(ref(tiny("bias-tensorflow")), TEXTS, settings=CPU)
        theirs = inference.classify(ref(tiny("bias")), TEXTS, settings=CPU)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one.logits, other.logits, atol=1e-6)

    def test_safetensors_go_before_hdf5(self, tiny: Callable[[str], Path], tmp_path: Path) -> None:
        folder = shutil.copytree(tiny("bias"), tmp_path / "both")
        (folder / "tf_model.h5").write_bytes(b"no HDF5")
        assert labels(ref(folder)) == ("Non-biased", "Biased")

    @pytest.mark.parametrize("content", [b"no HDF5", b""])
    def test_a_damaged_file_is_refused(self, content: bytes, tiny: Callable[[str], Path], tmp_path: Path) -> None:
        folder = shutil.copytree(tiny("bias-tensorflow"), tmp_path / "damaged")
        (folder / "tf_model.h5").write_bytes(content)
        with pytest.raises(ModelUnavailable, match=r"tf_model\.h5"):
            labels(ref(folder))

    def test_another_model_s_weights_are_refused(self, tiny: Callable[[str], Path], tmp_path: Path) -> None:
        folder = shutil.copytree(tiny("bias-tensorflow"), tmp_path / "other")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"n_layers": 3}))
        with pytest.raises(ModelUnavailable, match="no weights for"):
            labels(ref(folder))
        (folder / "config.json").write_text(json.dumps(config | {"n_layers": 1}))
        with pytest.raises(ModelUnavailable, match="no place for"):
            labels(ref(folder))


class TestResidence:
    def test_a_model_is_loaded_once(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from leadline.evaluators.models import classifiers

        runtime.unload()
        loads: list[ModelRef] = []
        load = classifiers.load_classifier

        def counted(ref: ModelRef, device: str, settings: Settings) -> Any:
            loads.append(ref)
            return load(ref, device, settings)

        monkeypatch.setattr(classifiers, "load_classifier", counted)
        for language in ("en", "de", "en"):  # what does not concern models loads none
            inference.classify(ref(folder), ["seven"], settings=Settings(device="cpu", language=language))
        assert loads == [ref(folder)]

    def test_older_models_go_when_memory_is_short(
        self, tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runtime.unload()
        first, second = ref(tiny("bert")), ref(tiny("roberta"))
        labels(first)
        labels(second)
        assert runtime.loaded() == (first, second)
        runtime.unload()
        monkeypatch.setattr(runtime, "SHARE", 0.0)
        labels(first)
        labels(second)
        assert runtime.loaded() == (second,)
