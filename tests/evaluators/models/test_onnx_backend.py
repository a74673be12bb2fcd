"""Models run by ONNX Runtime give the numbers that torch gives, under keys of their own."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from leadline.evaluators.ground import OFFLINE, ModelKind, ModelRef, ModelUnavailable
from leadline.evaluators.models import embedders, inference, runtime
from leadline.evaluators.models.weights import identity
from leadline.evaluators.settings import Settings
from tests.support.models.tiny_models import make_cross_encoder, make_embedder

TORCH = Settings(device="cpu")
ONNX = Settings(device="cpu", backend="onnx")
BERTHS = [f"The depth of berth {number}" for number in range(100, 267)]
"""Of seven tokens each."""
TEXTS = ["a ship", "the depth of the water", "", "lead line " * 60, "x", "paris is the capital of france", "of"]


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    yield
    embedders.unload()
    inference.unload()


@pytest.mark.slow
@pytest.mark.parametrize("steady", [False, True])
def test_vectors_are_those_of_torch(tmp_path: Path, steady: bool) -> None:
    ref = ModelRef("embedder", str(make_embedder(tmp_path / "model")))
    ours = embedders.embed(ref, TEXTS, settings=ONNX, steady=steady)
    theirs = embedders.embed(ref, TEXTS, settings=TORCH, steady=steady)
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() < 1e-5
    assert not np.array_equal(ours, theirs), "another engine rounds otherwise, else torch has run twice"


@pytest.mark.slow
def test_scores_of_pairs_are_those_of_torch(tmp_path: Path) -> None:
    ref = ModelRef("cross_encoder", str(make_cross_encoder(tmp_path / "model")))
    pairs = [(one, other) for one in TEXTS for other in TEXTS]
    ours = inference.read(ref, pairs, settings=ONNX)
    theirs = inference.read(ref, pairs, settings=TORCH)
    assert np.abs(ours.values - theirs.values).max() < 1e-5
    assert ours.overlong == theirs.overlong
    assert not np.array_equal(ours.values, theirs.values)


def test_the_backend_is_part_of_the_key_and_keys_of_torch_are_what_they_were() -> None:
    for kind in ("embedder", "cross_encoder"):
        ref = ModelRef(kind, "BAAI/bge-small-en", "2" * 40)  # type: ignore[arg-type]
        plain = {
            "kind": kind,
            "precision": "float32",
            "encoding": 1,
            "model": "BAAI/bge-small-en",
            "revision": "2" * 40,
        }
        assert identity(ref, TORCH) == plain
        assert identity(ref, ONNX) == plain | {"backend": "onnx"}
    other: ModelKind = "classifier"
    assert identity(ModelRef(other, "m", "2" * 40), TORCH) == identity(ModelRef(other, "m", "2" * 40), ONNX)


@pytest.mark.parametrize("more", [{"device": "cuda"}, {"precision": "float16"}])
def test_what_the_backend_does_not_do_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ModelUnavailable, match="on the CPU and in float32"):
        embedders.embed(ModelRef("embedder", OFFLINE), ["a"], settings=Settings(backend="onnx", **more))


def test_without_its_package_the_refusal_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'leadline\[onnx\]'") as error:
        runtime.require_onnx()
    assert "\n" not in str(error.value)


class TestOfflineEmbedder:
    """all-MiniLM-L6-v2, which ONNX Runtime runs alone."""

    REF = ModelRef("embedder", OFFLINE)
    ALONE = Settings(device="cpu")
    TORCH = Settings(device="cpu", backend="torch")

    @pytest.mark.slow
    def test_vectors_are_those_of_sentence_transformers(self) -> None:
        texts = [*TEXTS, *odd_texts(60), "The depth of berth nine. " * 90, "漢字" * 300, "lone \ud800 surrogate"]
        ours = embedders.embed(self.REF, texts, settings=self.ALONE)
        theirs = embedders.embed(self.REF, texts, settings=self.TORCH)
        assert ours.shape == theirs.shape == (len(texts), 384)
        assert np.abs(ours - theirs).max() < 1e-5
        assert not np.array_equal(ours, theirs), "another engine rounds otherwise, else torch has run twice"

    @pytest.mark.parametrize("steady", [False, True])
    def test_a_vector_does_not_depend_on_the_texts_that_are_embedded_with_it(self, steady: bool) -> None:
        texts = [*odd_texts(60), "The depth of berth nine. " * 60]
        together = embedders.embed(self.REF, texts, settings=self.ALONE, steady=steady)
        for some in (slice(3, 4), slice(5, 20), slice(55, 61)):
            embedders.forget()
            apart = embedders.embed(self.REF, texts[some], settings=self.ALONE, steady=steady)
            assert apart.tobytes() == together[some].tobytes()

    def test_texts_of_equally_many_tokens_share_a_run_of_a_bounded_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder: Any = embedders._loaded(self.REF, self.ALONE).encoder
        session, shapes = encoder._session, list[tuple[int, int]]()

        def run(names: None, inputs: dict[str, Any]) -> Any:
            shapes.append(inputs["ids"].shape)
            return session.run(names, inputs)

        monkeypatch.setattr(encoder, "_session", Mock(run=run))
        embedders.embed(self.REF, ["a new ship", *BERTHS, "the depth " * 120], settings=self.ALONE)
        assert sorted(shapes) == [(1, 5), (1, 242), (21, 7), (73, 7), (73, 7)]

    def test_keys_tell_the_engines_apart_and_look_at_no_machine(self) -> None:
        alone = identity(self.REF, Settings())
        assert alone == identity(self.REF, self.ALONE) == identity(self.REF, ONNX)
        by_torch = identity(self.REF, self.TORCH)
        assert alone == by_torch | {"backend": "onnx"}  # type: ignore[operator]
        assert identity(self.REF, Settings(precision="bfloat16")) == by_torch | {"precision": "bfloat16"}  # type: ignore[operator]
        assert "backend" not in identity(self.REF, Settings(device="cuda"))  # type: ignore[operator]

    def test_too_little_memory_halves_the_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        texts = BERTHS[:11]
        expected = embedders.embed(self.REF, texts, settings=self.ALONE)
        embedders.forget()
        encoder: Any = embedders._loaded(self.REF, self.ALONE).encoder
        session, tried = encoder._session, list[int]()

        def run(names: None, inputs: dict[str, Any]) -> Any:
            tried.append(len(inputs["ids"]))
            if len(inputs["ids"]) > 3:
                raise RuntimeError("Failed to allocate memory for requested buffer of size 1")
            return session.run(names, inputs)

        monkeypatch.setattr(encoder, "_session", Mock(run=run))
        assert np.abs(embedders.embed(self.REF, texts, settings=self.ALONE) - expected).max() < 1e-5
        assert tried[:3] == [11, 5, 2]

    def test_another_failure_of_the_engine_is_not_taken_for_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder: Any = embedders._loaded(self.REF, self.ALONE).encoder
        monkeypatch.setattr(encoder, "_session", Mock(run=Mock(side_effect=ValueError("invalid input"))))
        with pytest.raises(ValueError, match="invalid input"):
            embedders.embed(self.REF, ["a text nobody embedded yet"], settings=self.ALONE)

    def test_neither_a_library_of_torch_nor_onnx_is_imported_for_it(self) -> None:
        program = (
            "import sys\n"
            "from leadline.evaluators.ground import ModelRef\n"
            "from leadline.evaluators.models.embedders import embed\n"
            "from leadline.evaluators.settings import Settings\n"
            "print(embed(ModelRef('embedder', 'offline'), ['a ship'], settings=Settings()).shape)\n"
            "slow = {'torch', 'transformers', 'sentence_transformers', 'huggingface_hub', 'onnx'}\n"
            "print(slow & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
        assert done.stdout.splitlines() == ["(1, 384)", "set()"]


def odd_texts(number: int) -> list[str]:
    """Return texts of one to thirty words of several scripts, all different."""
    draw = random.Random(7)
    words = "harbour depth Lead-line été naïve 9.5m мель 漢字 مرحبا 👩‍👧 x1y2 ship's https://a.b/c".split()
    return [f"{place} " + " ".join(draw.choices(words, k=draw.randint(1, 30))) for place in range(number)]
