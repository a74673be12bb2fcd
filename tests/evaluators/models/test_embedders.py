from __future__ import annotations

import random
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from leadline.evaluators.core import EvalContext
from leadline.evaluators.ground import LeadlineError, ModelRef, ModelUnavailable, OutOfMemory
from leadline.evaluators.models import embedders, weights
from leadline.evaluators.models.vectors import MemoryVectors, text_digest
from leadline.evaluators.settings import Settings
from tests.support.models.tiny_models import MAX_TOKENS, WORDS, make_embedder

pytestmark = pytest.mark.slow

SETTINGS = Settings(device="cpu")
ODD = ["", "  \n\t", "\u00a0", "lone \ud800 surrogate", "\0nul\0", "👩‍👩‍👧 مرحبا", "ﷺ" * 9, "x" * 5000, "\u200b"]


class KeptVectors:
    """A vector store in memory that counts."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, bytes], np.ndarray[Any, Any]] = {}
        self.puts: list[int] = []

    def get(self, model: str, texts: Sequence[bytes]) -> Mapping[bytes, np.ndarray[Any, Any]]:
        return {text: self.kept[model, text] for text in texts if (model, text) in self.kept}

    def put(self, model: str, texts: Sequence[bytes], vectors: np.ndarray[Any, Any]) -> None:
        assert len(texts) == len(vectors)
        self.puts.append(len(texts))
        self.kept.update({(model, text): vector for text, vector in zip(texts, vectors, strict=True)})


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    embedders.forget()
    yield
    embedders.forget()


@pytest.fixture
def ref(tiny_embedder: Path) -> ModelRef:
    return weights.parse_ref(str(tiny_embedder))


@pytest.fixture
def encode(ref: ModelRef) -> Callable[[str], np.ndarray[Any, Any]]:
    """Return the reference: one text through the published library, divided by its length."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(ref.source, device="cpu", local_files_only=True)

    def one(text: str) -> np.ndarray[Any, Any]:
        vector = np.asarray(model.encode([text], show_progress_bar=False)[0], dtype=np.float64)
        return vector / np.linalg.norm(vector)

    return one


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of all texts that reach the model."""
    from sentence_transformers import SentenceTransformer

    seen: list[str] = []
    original = SentenceTransformer.encode

    def counting(self: Any, inputs: list[str], **kwargs: Any) -> Any:
        seen.extend(inputs)
        return original(self, inputs, **kwargs)

    monkeypatch.setattr(SentenceTransformer, "encode", counting)
    return seen


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [f"{place} " + " ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for place in range(count)]


def test_vectors_are_those_of_the_library_in_any_order_and_batch(
    ref: ModelRef, encode: Callable[[str], np.ndarray[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = sentences(50)
    expected = np.array([encode(text) for text in texts])
    assert np.ptp(expected @ expected.T) > 0.1  # the made-up model tells texts apart
    for seed, size in ((1, 1), (2, 7), (3, 64)):
        embedders.forget()
        monkeypatch.setattr(embedders._loaded(ref, SETTINGS), "batch_size", size)
        order = random.Random(seed).sample(range(50), 50)
        found = embedders.embed(ref, [texts[place] for place in order], settings=SETTINGS)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected[order], atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_each_text_is_encoded_once_across_calls_and_processes(ref: ModelRef, encoded: list[str]) -> None:
    texts = sentences(40)
    store = KeptVectors()
    first = embedders.embed(ref, texts[:25] * 3, settings=SETTINGS, vectors=store)
    embedders.embed(ref, texts[10:], settings=SETTINGS, vectors=store)
    assert sorted(encoded) == sorted(texts)
    embedders.forget()  # as a new process: only the store is left
    again = embedders.embed(ref, texts[:25] * 3, settings=SETTINGS, vectors=store)
    assert len(encoded) == len(texts)
    np.testing.assert_array_equal(first, again)


def test_a_process_that_stays_notices_another_model_in_the_same_directory(tmp_path: Path) -> None:
    folder = make_embedder(tmp_path / "model", seed=1)
    ref = ModelRef("embedder", str(folder))
    before = embedders.embed(ref, ["a ship"], settings=Settings(device="cpu"))
    shutil.rmtree(folder)
    make_embedder(folder, seed=5)
    after = embedders.embed(ref, ["a ship"], settings=Settings(device="cpu"))
    embedders.unload()
    assert np.array_equal(after, embedders.embed(ref, ["a ship"], settings=Settings(device="cpu")))
    assert not np.allclose(before, after, atol=1e-3)


def test_the_longest_texts_come_first(ref: ModelRef, encoded: list[str]) -> None:
    embedders.embed(ref, sentences(100), settings=SETTINGS)
    assert [len(text) for text in encoded] == sorted((len(text) for text in encoded), reverse=True)


def test_what_was_computed_before_a_crash_is_kept(
    ref: ModelRef, encoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = KeptVectors()
    texts = sentences(600)
    embedder = embedders._loaded(ref, SETTINGS)
    original = embedder._forward

    def dying(batch: Sequence[str]) -> Any:
        if len(encoded) >= 300:
            raise KeyboardInterrupt
        return original(batch)

    monkeypatch.setattr(embedder, "_forward", dying)
    with pytest.raises(KeyboardInterrupt):
        embedders.embed(ref, texts, settings=SETTINGS, vectors=store)
    assert sum(store.puts) == 256
    embedders.forget()
    monkeypatch.setattr(embedder, "_forward", original)
    del encoded[:]
    embedders.embed(ref, texts, settings=SETTINGS, vectors=store)
    assert len(encoded) == 600 - 256


def test_a_store_that_cannot_be_written_costs_only_a_warning(
    ref: ModelRef, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = KeptVectors()
    monkeypatch.setattr(store, "put", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    assert embedders.embed(ref, ["the ship"], settings=SETTINGS, vectors=store).shape == (1, 32)
    assert "disk full" in caplog.text


def test_known_vectors_need_no_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    model = weights.identity_digest(weights.identity(weights.BGE_SMALL_EN, SETTINGS))
    store = KeptVectors()
    store.put(model, [text_digest("known")], np.ones((1, 4), dtype=np.float32) / 2)
    found = embedders.embed(weights.BGE_SMALL_EN, ["known", ""], settings=SETTINGS, vectors=store)
    np.testing.assert_array_equal(found, [[0.5] * 4, [0] * 4])
    with pytest.raises(ModelUnavailable, match="not on this machine"):
        embedders.embed(weights.BGE_SMALL_EN, ["known", "unknown"], settings=SETTINGS, vectors=store)


class TestLongTexts:
    def test_every_token_counts(self, ref: ModelRef, encode: Callable[[str], np.ndarray[Any, Any]]) -> None:
        head = "the ship " * 40
        one, other = embedders.embed(ref, [head + "paris france", head + "depth of water"], settings=SETTINGS)
        assert np.abs(one - other).max() > 1e-3
        np.testing.assert_allclose(encode(head + "paris france"), encode(head + "depth of water"), atol=1e-6)

    def test_the_vector_is_the_mean_of_windows_by_tokens(
        self, ref: ModelRef, encode: Callable[[str], np.ndarray[Any, Any]]
    ) -> None:
        text = " ".join(random.Random(4).choices(WORDS, k=150))
        embedder = embedders._loaded(ref, SETTINGS)
        windows = embedder.windows([text])[0]
        mean = np.sum([encode(piece) * tokens for piece, tokens in windows], axis=0)
        found = embedders.embed(ref, ["a ship", text, "water"], settings=SETTINGS)[1]
        np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=1e-5)

    @pytest.mark.parametrize("text", ["word " * 500, "x1" * 3000, "the ship. " * 90 + "é" * 400, "漢字" * 300, *ODD])
    def test_windows_fit_and_lose_nothing(self, ref: ModelRef, text: str) -> None:
        embedder = embedders._loaded(ref, SETTINGS)
        windows = embedder.windows([text])[0]
        assert "".join(piece for piece, _ in windows) == text.replace("\ud800", "\ufffd")
        counts = embedder.encoder.token_counts([piece for piece, _ in windows])
        assert max(counts) <= MAX_TOKENS
        if len(windows) > 1:
            assert [tokens for _, tokens in windows] == counts
            assert len(windows) <= 4 * sum(counts) / MAX_TOKENS + 2

    def test_windows_end_at_white_space_where_there_is_some(self, ref: ModelRef) -> None:
        pieces = [piece for piece, _ in embedders._loaded(ref, SETTINGS).windows(["harbour " * 100])[0]]
        assert len(pieces) > 1
        assert all(set(piece.split()) == {"harbour"} for piece in pieces)


class TestOddTexts:
    def test_any_text_has_a_finite_vector(self, ref: ModelRef) -> None:
        found = embedders.embed(ref, ODD, settings=SETTINGS)
        assert np.isfinite(found).all()
        lengths = np.linalg.norm(found, axis=1)
        blank = np.array([not text or text.isspace() for text in ODD])
        np.testing.assert_array_equal(lengths[blank], 0)
        np.testing.assert_allclose(lengths[~blank], 1, atol=1e-5)

    def test_no_texts_have_no_vectors(self, ref: ModelRef) -> None:
        assert embedders.embed(ref, [], settings=SETTINGS).shape == (0, 0)
        assert embedders.embed(ref, [" "], settings=SETTINGS).shape == (1, 32)


class TestMemory:
    @pytest.fixture
    def fits(self, ref: ModelRef, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
        """Let the model run out of memory above a batch size; return the batch sizes tried."""
        import torch

        embedder = embedders._loaded(ref, SETTINGS)
        original = embedder.encoder.model.encode

        def limit(most: int) -> list[int]:
            tried: list[int] = []

            def encode(inputs: list[str], **kwargs: Any) -> Any:
                tried.append(len(inputs))
                if len(inputs) > most:
                    raise torch.OutOfMemoryError("CUDA out of memory.")
                return original(inputs, **kwargs)

            monkeypatch.setattr(embedder.encoder.model, "encode", encode)
            return tried

        return limit

    def test_batches_are_halved_until_they_fit(self, ref: ModelRef, fits: Callable[[int], list[int]]) -> None:
        texts = sentences(40)
        expected = embedders.embed(ref, texts, settings=SETTINGS)
        embedders.forget()
        tried = fits(5)
        np.testing.assert_allclose(embedders.embed(ref, texts, settings=SETTINGS), expected, atol=1e-5)
        assert tried == [32, 16, 8, *[4] * 10]

    def test_a_text_that_does_not_fit_alone_is_out_of_memory(
        self, ref: ModelRef, fits: Callable[[int], list[int]]
    ) -> None:
        tried = fits(0)
        with pytest.raises(OutOfMemory, match="does not fit"):
            embedders.embed(ref, sentences(3), settings=SETTINGS)
        assert tried == [3, 1]

    def test_other_failures_are_not_taken_for_it(self, ref: ModelRef, monkeypatch: pytest.MonkeyPatch) -> None:
        embedder = embedders._loaded(ref, SETTINGS)

        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("shapes do not match")

        monkeypatch.setattr(embedder.encoder.model, "encode", broken)
        with pytest.raises(RuntimeError, match="shapes"):
            embedders.embed(ref, ["a"], settings=SETTINGS)

    def test_vectors_in_memory_are_bounded_and_the_oldest_go_first(self) -> None:
        memory = MemoryVectors(limit=10 * (16 + 300))
        digests = [text_digest(str(number)) for number in range(30)]
        memory.put("m", digests[:10], np.ones((10, 4), dtype=np.float32))
        memory.get("m", digests[:1])
        memory.put("m", digests[10:12], np.ones((2, 4), dtype=np.float32))
        kept = memory.get("m", digests)
        assert len(kept) == 10
        assert digests[0] in kept
        assert digests[1] not in kept


class TestLoading:
    def test_loading_and_encoding_open_no_connection(self, ref: ModelRef, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(self: socket.socket, address: Any) -> None:
            raise AssertionError(f"a connection to {address}")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: refuse(None, "a host"))  # type: ignore[arg-type]
        embedders.unload()
        assert embedders.embed(ref, ["the ship"], settings=SETTINGS).shape == (1, 32)

    def test_loading_says_nothing(self, ref: ModelRef, capfd: pytest.CaptureFixture[str]) -> None:
        embedders.unload()
        embedders.embed(ref, ["the ship", "water " * 200], settings=SETTINGS)
        assert capfd.readouterr() == ("", "")

    def test_a_checkpoint_that_is_no_model_is_unavailable_in_one_line(
        self, tmp_path: Path, tiny_embedder: Path
    ) -> None:
        (tmp_path / "config.json").write_text('{"model_type": "nonsense"}')
        for name in ("model.safetensors", "tokenizer.json"):
            (tmp_path / name).write_bytes((tiny_embedder / name).read_bytes())
        with pytest.raises(ModelUnavailable, match="cannot be loaded") as failed:
            embedders.embed(weights.parse_ref(str(tmp_path)), ["a"], settings=SETTINGS)
        assert "\n" not in str(failed.value)

    def test_a_tokenizer_that_cannot_be_asked_is_an_unavailable_model(
        self, ref: ModelRef, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        embedders.unload()
        monkeypatch.setattr(embedders, "Embedder", Mock(side_effect=AttributeError("no pad token")))
        with pytest.raises(ModelUnavailable, match="cannot be loaded: AttributeError: no pad token"):
            embedders.embed(ref, ["a text nobody embedded"], settings=SETTINGS)

    @pytest.mark.parametrize("device", ["cuda:99", "tpu", "cpu:1", ""])
    def test_a_device_that_is_not_there_is_named(self, ref: ModelRef, device: str) -> None:
        with pytest.raises(ModelUnavailable, match="no device"):
            embedders.embed(ref, ["a"], settings=Settings(device=device))

    def test_vectors_that_are_not_numbers_are_refused(self, ref: ModelRef, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        embedder = embedders._loaded(ref, SETTINGS)
        monkeypatch.setattr(
            embedder.encoder.model, "encode", lambda inputs, **_: torch.full((len(inputs), 32), torch.inf)
        )
        with pytest.raises(LeadlineError, match="precision"):
            embedders.embed(ref, ["a"], settings=SETTINGS)

    def test_precisions_do_not_share_vectors(self, ref: ModelRef, encoded: list[str]) -> None:
        full = embedders.embed(ref, ["the ship"], settings=SETTINGS)
        half = embedders.embed(ref, ["the ship"], settings=Settings(device="cpu", precision="bfloat16"))
        assert len(encoded) == 2
        np.testing.assert_allclose(half, full, atol=0.05)

    def test_the_packaged_embedder_tells_paraphrases_from_others(self) -> None:
        ref = weights.parse_ref("offline")
        ctx = EvalContext(SETTINGS)
        a, b, c = ctx.embed(ref, ["Paris is the capital of France.", "France's capital is Paris.", "Bananas ripen."])
        assert a @ b > 0.8 > 0.3 > a @ c


def test_a_steady_vector_does_not_depend_on_the_texts_that_share_its_batch(ref: ModelRef) -> None:
    draw = random.Random(4)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 2 * MAX_TOKENS))) for _ in range(60)]
    plain = embedders.embed(ref, texts, settings=SETTINGS)
    embedders.forget()
    together = dict(zip(texts, embedders.embed(ref, texts, settings=SETTINGS, steady=True), strict=True))
    np.testing.assert_allclose(np.stack(list(together.values())), plain, atol=1e-6)
    for size in (1, 2, 7, 31):
        embedders.forget()
        some = draw.sample(texts, size)
        for text, vector in zip(some, embedders.embed(ref, some, settings=SETTINGS, steady=True), strict=True):
            assert vector.tobytes() == together[text].tobytes()


def test_steady_vectors_are_computed_as_well_when_memory_runs_out(
    ref: ModelRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = embedders._loaded(ref, SETTINGS)
    monkeypatch.setattr(embedder, "rows", embedders.CPU_ROWS)  # None once memory ran out
    original = embedder._forward
    tried: list[int] = []

    def small(batch: Sequence[str], length: int | None = None) -> Any:
        tried.append(len(batch))
        if len(batch) > 4:
            raise MemoryError("out of memory")
        return original(batch, length)

    monkeypatch.setattr(embedder, "_forward", small)
    found = embedders.embed(ref, sentences(6), settings=SETTINGS, steady=True)
    assert np.isfinite(found).all()
    assert tried[0] == embedders.CPU_ROWS
    assert embedder.rows is None
