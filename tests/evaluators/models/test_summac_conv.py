from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.ground import ModelRef, ModelUnavailable
from leadline.evaluators.models import summac_conv, weight_files, weights
from leadline.evaluators.models.catalogue import SUMMAC_CONV
from leadline.evaluators.settings import Settings
from tests.support.models.tiny_nli import conv_state, make_conv
from tests.support.processes.receivers import Received, http_site

SETTINGS = Settings(device="cpu")

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    yield
    summac_conv._load.cache_clear()


def ref_of(folder: Path) -> ModelRef:
    return weights.parse_ref(str(folder), "summac_conv")


def by_torch(entailment: np.ndarray[Any, Any]) -> float:
    """The published computation, step by step."""
    import torch

    state = conv_state()
    numbers = []
    for column in entailment.T:
        histogram, _ = np.histogram(column, range=(0, 1), bins=list(summac_conv.BINS))
        numbers.append(torch.nn.functional.linear(torch.FloatTensor(histogram), state["mlp.weight"], state["mlp.bias"]))
    features = torch.cat(numbers).mean().repeat(3)
    logits = torch.nn.functional.linear(features, state["layer_final.weight"], state["layer_final.bias"])
    return float(logits.softmax(-1)[1])


@pytest.mark.parametrize("layout", ["archive", "safetensors"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (100, 10)])
def test_the_score_is_that_of_the_published_computation(tmp_path: Path, layout: str, shape: tuple[int, int]) -> None:
    entailment = np.random.default_rng(3).beta(0.3, 0.3, shape)
    layer = summac_conv.layer(ref_of(make_conv(tmp_path / layout, layout)), settings=SETTINGS)
    assert layer.score(entailment) == pytest.approx(by_torch(entailment), abs=1e-5)


def test_a_long_document_counts_by_the_part_with_the_best_sentence(tmp_path: Path) -> None:
    layer = summac_conv.layer(ref_of(make_conv(tmp_path / "conv")), settings=SETTINGS)
    entailment = np.random.default_rng(4).uniform(0, 0.9, 250)
    entailment[100] = 0.99
    assert layer.sentence(entailment) == layer.sentence(entailment[83:166])
    assert layer.score(entailment[:, None]) == pytest.approx(by_torch(entailment[83:166, None]), abs=1e-5)


def test_weights_in_the_format_before_archives_need_consent(tmp_path: Path) -> None:
    ref = ref_of(make_conv(tmp_path / "old", "legacy"))
    with pytest.raises(ModelUnavailable, match=r"pickled.*allow_pickle"):
        summac_conv.layer(ref, settings=SETTINGS)
    found = summac_conv.layer(ref, settings=Settings(device="cpu", allow_pickle=True))
    assert found.weight.tolist() == pytest.approx(conv_state()["mlp.weight"][0].tolist())


def test_an_archive_is_read_without_unpickling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    import torch

    ref = ref_of(make_conv(tmp_path / "conv"))

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("unpickled")

    for module, name in ((torch, "load"), (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
        monkeypatch.setattr(module, name, refused)
    assert summac_conv.layer(ref, settings=SETTINGS).weight.shape == (23,)


def altered(data: bytes) -> bytes:
    numbers = data.index(conv_state()["mlp.weight"].numpy().tobytes())
    return data[:numbers] + b"\1\2\3\4" + data[numbers + 4 :]


@pytest.mark.parametrize("damage", [altered, lambda data: data[:1000], lambda data: b""])
def test_a_damaged_file_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    folder = make_conv(tmp_path / "conv")
    path = folder / weight_files.SUMMAC_CONV
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelUnavailable):
        summac_conv.layer(ref_of(folder), settings=SETTINGS)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    folder = tmp_path / "other"
    folder.mkdir()
    save_file({"mlp.weight": torch.zeros(1, 50)}, folder / "model.safetensors")
    with pytest.raises(ModelUnavailable, match="does not hold the weights of SummaC Conv"):
        summac_conv.layer(ref_of(folder), settings=SETTINGS)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Received]:
    """A site in the place of GitHub, and an empty cache."""
    with http_site() as site:
        monkeypatch.setattr(weight_files, "GITHUB", f"http://127.0.0.1:{site.port}")
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        yield site


def test_the_published_file_is_fetched_at_its_commit_once(site: Received, tmp_path: Path) -> None:
    site.content = (make_conv(tmp_path / "published") / weight_files.SUMMAC_CONV).read_bytes()
    with pytest.raises(ModelUnavailable, match="leadline evaluators models pull tingofurro/summac"):
        summac_conv.layer(SUMMAC_CONV, settings=SETTINGS)
    weights.pull(SUMMAC_CONV)
    weights.pull(SUMMAC_CONV)
    assert [path for path, _ in site.messages] == [
        f"/tingofurro/summac/raw/{SUMMAC_CONV.revision}/{weight_files.SUMMAC_CONV}"
    ]
    assert weights.status(SUMMAC_CONV).present
    assert summac_conv.layer(SUMMAC_CONV, settings=SETTINGS).weight.shape == (23,)


def test_a_site_without_the_file_leaves_nothing_behind(site: Received, tmp_path: Path) -> None:
    site.status = 404
    with pytest.raises(ModelUnavailable, match="cannot be fetched"):
        weights.pull(SUMMAC_CONV)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not weights.status(SUMMAC_CONV).present
