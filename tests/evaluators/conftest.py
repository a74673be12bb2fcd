from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.evaluators.core import EvalContext
from leadline.evaluators.models import embedders
from leadline.evaluators.settings import Settings
from tests.support.models.tiny_checkpoints import checkpoint
from tests.support.models.tiny_models import make_cross_encoder, make_embedder


@pytest.fixture(scope="session")
def one_thread() -> None:
    """Keep models of this size from waiting for other cores."""
    import torch
    import transformers.models.auto  # noqa: F401

    torch.set_num_threads(1)
    gc.freeze()  # a test of what runs out of memory collects garbage a dozen times


@pytest.fixture(scope="session")
def tiny(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a tiny checkpoint by its name."""
    root = tmp_path_factory.mktemp("checkpoints")
    return lambda name: checkpoint(root, name)


@pytest.fixture(scope="session")
def tiny_embedder(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_embedder(tmp_path_factory.mktemp("models") / "embedder")


@pytest.fixture(scope="session")
def tiny_cross_encoder(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cross_encoder(tmp_path_factory.mktemp("models") / "cross-encoder")


@pytest.fixture
def ctx(tiny_embedder: Path) -> Iterator[EvalContext]:
    """What evaluators get of a run whose embedder is tiny; the embedder forgets its vectors."""
    yield EvalContext(Settings(embedder=str(tiny_embedder), device="cpu"))
    embedders.forget()
