"""Models run by ONNX Runtime give the numbers that torch gives, under keys of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.ground import OFFLINE, ModelKind, ModelRef, ModelUnavailable
from leadline.evaluators.models import embedders, inference, runtime
from leadline.evaluators.models.weights import identity
from leadline.evaluators.settings import Settings
from tests.support.models.tiny_models import make_cross_encoder, make_embedder

TORCH = Settings(device="cpu")
ONNX = Settings(device="cpu", backend="onnx")
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
