from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.evaluators.core import EvalContext
from leadline.evaluators.data import Reason, Row, Unscored
from leadline.evaluators.ground import ModelUnavailable, OutOfMemory
from leadline.evaluators.models import (
    embedders,
    inference,
    runtime,
    summac_conv,
)
from leadline.evaluators.models.summac_conv import BINS
from leadline.evaluators.settings import Settings
from leadline.evaluators.summarization import _summac, completeness_faithfulness
from leadline.evaluators.summarization._summac import CONV, ZERO_SHOT, zero_shot
from leadline.evaluators.summarization.completeness_faithfulness import (
    COMPLETENESS,
    CompletenessFaithfulness,
    SummaryParams,
)
from leadline.evaluators.text.sentences import splitter_for
from tests.support.models.tiny_models import WORDS
from tests.support.models.tiny_nli import conv_state, make_conv, make_nli


def sentences(count: int, seed: int, longest: int = 7) -> list[str]:
    draw = random.Random(seed)
    return [f"{' '.join(draw.choices(WORDS, k=draw.randint(4, longest)))}.".capitalize() for _ in range(count)]


def row_of(number: int, document: int, summary: int) -> Row:
    source = sentences(document, number)
    kept = random.Random(number).sample(source, min(summary // 2, len(source)))
    answer = [*kept, *sentences(summary - len(kept), 1000 + number)]
    return Row(f"case {number}", "m", question=" ".join(source), actual_answer=" ".join(answer))


ROWS = [row_of(number, *sizes) for number, sizes in enumerate([(4, 2), (9, 3), (3, 2), (15, 4), (6, 6)])]


@pytest.fixture(scope="module")
def params(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> SummaryParams:
    folder = tmp_path_factory.mktemp("summac")
    return SummaryParams(nli_model=str(make_nli(folder / "nli")), conv_weights=str(make_conv(folder / "conv")))


@pytest.fixture
def ctx(tiny_embedder: Path) -> Iterator[EvalContext]:
    yield EvalContext(Settings(embedder=str(tiny_embedder), device="cpu", splitter="rules"))
    embedders.forget()


@pytest.fixture(scope="module", autouse=True)
def _cold() -> Iterator[None]:
    yield
    runtime.unload()
    summac_conv._load.cache_clear()


def split(text: str | None) -> list[str]:
    found = [sentence.text for sentence in splitter_for("en", "rules").split(text or "")]
    return [sentence for sentence in found if len(sentence) > 10]


def reason(value: object) -> Reason | None:
    return value.reason if isinstance(value, Unscored) else None


class TestSummaC:
    """Against the definition: one pair at a time, with the libraries' own calls."""

    @staticmethod
    @cache
    def image(folder: str, at: int) -> np.ndarray[Any, Any]:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        with torch.no_grad():
            return np.array(
                [
                    [
                        model(**tokenizer(d, s, return_tensors="pt")).logits[0].softmax(-1).tolist()
                        for s in split(ROWS[at].actual_answer)
                    ]
                    for d in split(ROWS[at].question)
                ]
            )

    @staticmethod
    def conv(image: np.ndarray[Any, Any]) -> float:
        state = {name: value.numpy().astype(float) for name, value in conv_state().items()}
        values = []
        for column in image[:, :, 0].T:
            counts, _ = np.histogram(column, range=(0, 1), bins=list(BINS))
            values.append(counts @ state["mlp.weight"][0] + state["mlp.bias"][0])
        logits = state["layer_final.weight"] @ np.full(3, np.mean(values)) + state["layer_final.bias"]
        return float(np.exp(logits[1]) / np.exp(logits).sum())

    @pytest.mark.e2e
    @pytest.mark.parametrize("at_once", [1, 60, 1_000_000])
    def test_both_metrics_equal_the_definition_in_any_batch_and_order(
        self, params: SummaryParams, ctx: EvalContext, monkeypatch: pytest.MonkeyPatch, at_once: int
    ) -> None:
        monkeypatch.setattr("leadline.evaluators.models.checkpoints.TOKENS_CPU", at_once)
        monkeypatch.setattr(_summac, "BLOCK_PAIRS", at_once)
        order = random.Random(at_once).sample(range(len(ROWS)), len(ROWS))
        scores = CompletenessFaithfulness(params).score([ROWS[at] for at in order], ctx)
        for at, score in zip(order, scores, strict=True):
            image = self.image(str(params.nli_model), at)
            support = (image[:, :, 0] - image[:, :, 1]).max(axis=0)
            assert score.values[ZERO_SHOT] == pytest.approx(max(0.0, support.mean()), abs=1e-5)
            assert score.values[CONV] == pytest.approx(self.conv(image), abs=1e-5)
            assert [span.value for span in score.evidence.spans] == pytest.approx(support.tolist(), abs=1e-5)
            answer = str(ROWS[at].actual_answer)
            assert [answer[span.start : span.end] for span in score.evidence.spans] == split(answer)

    @pytest.mark.e2e
    def test_a_row_that_does_not_fit_into_memory_costs_no_other_its_score(
        self, params: SummaryParams, ctx: EvalContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = inference.infer

        def small(ref: Any, pairs: Any, *, settings: Settings) -> Any:
            if any(pair[0] == split(ROWS[1].question)[0] for pair in pairs):
                raise OutOfMemory("too large")
            return whole(ref, pairs, settings=settings)

        expected = [score.values[ZERO_SHOT] for score in CompletenessFaithfulness(params).score(ROWS, ctx)]
        monkeypatch.setattr(inference, "infer", small)
        scores = CompletenessFaithfulness(params).score(ROWS, ctx)
        for at, score in enumerate(scores):
            if at == 1:
                assert reason(score.values[ZERO_SHOT]) is reason(score.values[CONV]) is Reason.OUT_OF_MEMORY
            else:
                assert score.values[ZERO_SHOT] == pytest.approx(expected[at], abs=1e-6)

    @pytest.mark.e2e
    def test_sentences_longer_than_the_model_reads_are_read_in_parts(
        self, params: SummaryParams, ctx: EvalContext
    ) -> None:
        row = Row("c", "m", question="The ship is of water " * 20 + ".", actual_answer="Lead line depth " * 20 + ".")
        (score,) = CompletenessFaithfulness(params).score([row], ctx)
        assert isinstance(score.values[ZERO_SHOT], float)
        data: Any = score.evidence.data
        assert data["faithfulness"]["pairs"] > 9
        assert (score.evidence.spans[0].start, score.evidence.spans[-1].end) == (0, len(str(row.actual_answer)))

    @pytest.mark.e2e
    def test_more_pairs_than_allowed_are_not_compared(self, params: SummaryParams, ctx: EvalContext) -> None:
        evaluator = CompletenessFaithfulness(params.model_copy(update={"max_pairs": 10}))
        few, many = evaluator.score(ROWS[:2], ctx)
        assert isinstance(few.values[ZERO_SHOT], float)
        assert reason(many.values[ZERO_SHOT]) is Reason.UNSCORABLE
        assert "max_pairs" in many.flags[0].message

    def test_what_zero_shot_takes_from_the_document(self) -> None:
        entailment = np.array([[0.9, 0.2], [0.6, 0.5]])
        contradiction = np.array([[0.1, 0.7], [0.0, 0.1]])
        assert zero_shot(entailment, contradiction).tolist() == pytest.approx([0.8, 0.4])
        assert zero_shot(entailment, contradiction, "package").tolist() == pytest.approx([0.8, -0.2])
        assert zero_shot(entailment, contradiction, "entailment").tolist() == pytest.approx([0.9, 0.5])


class TestGeometry:
    SQUARE = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 3.0], [0.0, 3.0]])

    def test_three_segments_by_hand(self) -> None:
        plane = completeness_faithfulness.plane_of(self.SQUARE)
        assert plane.length == 5 + 4 + 4, "a diagonal, and at each end the longer side"
        assert plane.near == 4.0, "of 3, 3, 4, 4, 5, 5"
        for points, expected in (([], 0), ([0], 0), ([0, 1], 4), ([0, 1, 2], 5 + 4 + 3)):
            assert completeness_faithfulness.three_segments(plane.distances[points][:, points]) == expected

    def test_points_move_to_the_closest_or_are_thrown_out(self) -> None:
        plane = completeness_faithfulness.plane_of(self.SQUARE)
        summary = np.array([[0.5, 0.2], [3.0, 2.5], [8.0, 0.0], [8.01, 0.0], [0.0, 0.1]])
        assert completeness_faithfulness.snap(summary, plane) == (0, 2, 1, None, 0)

    @settings(max_examples=60, deadline=None)
    @given(st.integers(3, 12), st.integers(1, 8), st.integers(0, 10**6))
    def test_the_longest_segment_and_the_longest_at_its_ends(self, count: int, dimensions: int, seed: int) -> None:
        points = np.random.default_rng(seed).normal(size=(count, dimensions))
        length = {(a, b): float(np.linalg.norm(points[a] - points[b])) for a in range(count) for b in range(count)}
        a, b = max(length, key=length.__getitem__)
        ends = [max(length[end, c] for c in range(count) if c not in (a, b)) for end in (a, b)]
        assert completeness_faithfulness.plane_of(points).length == pytest.approx(length[a, b] + sum(ends))


@pytest.mark.e2e
class TestCompleteness:
    @pytest.mark.parametrize("count", [3, 4, 6, 20])
    def test_the_document_itself_is_complete_and_a_part_of_it_is_not(self, count: int) -> None:
        vectors = np.random.default_rng(count).normal(size=(count, 16)).astype(np.float32)
        whole = completeness_faithfulness.cover(vectors, vectors, seed=42)
        assert whole.value == 1.0
        assert whole.closest == tuple(range(count))
        assert whole.dimensions == min(5, count - 2)
        part = completeness_faithfulness.cover(vectors, vectors[:1], seed=42)
        assert part.value == 0.0, "one point has no length"

    def test_what_is_compiled_for_it_is_kept_for_the_next_process(self) -> None:
        from umap import layouts, umap_

        completeness_faithfulness.reduce(np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32), 42)
        functions = [each for module in (layouts, umap_) for each in vars(module).values()]
        compiled = [each for each in functions if getattr(each, "signatures", [])]
        assert umap_.smooth_knn_dist in compiled
        assert all(each.stats.cache_path for each in compiled)

    def test_equal_seeds_give_equal_bits_in_any_company(self, params: SummaryParams, ctx: EvalContext) -> None:
        evaluator = CompletenessFaithfulness(params)
        first = [score.values[COMPLETENESS] for score in evaluator.score(ROWS, ctx)]
        assert len(set(first)) > 1
        assert all(isinstance(value, float) and 0 <= value <= 1 for value in first)
        embedders.unload()
        turned = CompletenessFaithfulness(params).score(ROWS[::-1], EvalContext(ctx.settings))[::-1]
        assert [score.values[COMPLETENESS] for score in turned] == first
        assert [evaluator.score([row], ctx)[0].values[COMPLETENESS] for row in ROWS] == first
        other = CompletenessFaithfulness(params.model_copy(update={"seed": 7})).score(ROWS, ctx)
        assert [score.values[COMPLETENESS] for score in other] != first

    @pytest.mark.parametrize(
        ("question", "answer", "message"),
        [
            ("The ship is of water. Lead line depth.", "The ship is. Line of lead.", "fewer than 3"),
            (str(ROWS[0].question), "The ship is of water.", "fewer than 2"),
            ("The ship is of water. " * 30, "The ship is. Line of lead.", "fewer than 3"),
        ],
    )
    def test_too_few_different_sentences_are_unscored_and_a_problem(
        self, params: SummaryParams, ctx: EvalContext, question: str, answer: str, message: str
    ) -> None:
        row = Row("c", "m", question=question, actual_answer=answer)
        (score,) = CompletenessFaithfulness(params).score([row], ctx)
        assert reason(score.values[COMPLETENESS]) is Reason.UNSCORABLE
        assert message in score.flags[0].message
        assert isinstance(score.values[ZERO_SHOT], float)
        assert score.complete

    @pytest.mark.parametrize("field", ["question", "actual_answer"])
    @pytest.mark.parametrize("text", ["", " \n\u2028 "])
    def test_without_a_sentence_nothing_is_measured(
        self, params: SummaryParams, ctx: EvalContext, field: str, text: str
    ) -> None:
        (score,) = CompletenessFaithfulness(params).score([replace(ROWS[0], **{field: text})], ctx)
        assert {reason(value) for value in score.values.values()} == {Reason.UNSCORABLE}
        assert len(score.flags) == 1

    def test_each_metric_is_measured_without_the_instruments_of_the_others(
        self, params: SummaryParams, ctx: EvalContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
        cases: list[tuple[dict[str, Any], set[str]]] = [
            ({"nli_model": None}, {CONV, ZERO_SHOT}),
            ({"conv_weights": None}, {CONV}),
            ({"embedding_model": "BAAI/bge-small-en-v1.5"}, {COMPLETENESS}),
        ]
        for change, missing in cases:
            (score,) = CompletenessFaithfulness(params.model_copy(update=change)).score(ROWS[:1], ctx)
            found = {key for key, value in score.values.items() if reason(value) is Reason.MODEL_UNAVAILABLE}
            assert found == missing
            assert all("leadline evaluators models pull" in str(score.values[key]) for key in missing)
            assert not score.complete

    def test_what_is_not_here_is_looked_for_once(
        self, params: SummaryParams, ctx: EvalContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        from leadline.evaluators.models import classifiers, sentence_models

        looked: list[str] = []

        def locate(ref: Any, settings: Settings) -> Path:
            looked.append(ref.kind)
            raise ModelUnavailable("not here")

        for module in (sentence_models, classifiers, summac_conv):
            monkeypatch.setattr(module, "locate", locate)
        embedders.unload()
        summac_conv._load.cache_clear()
        CompletenessFaithfulness(params).score(ROWS, ctx)
        assert sorted(looked) == ["embedder", "summac_conv"], "the NLI model is loaded already"

    def test_without_umap_it_is_said_what_to_install(
        self, params: SummaryParams, ctx: EvalContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(__import__("sys").modules, "umap.umap_", None)
        (score,) = CompletenessFaithfulness(params).score(ROWS[:1], ctx)
        assert reason(score.values[COMPLETENESS]) is Reason.MODEL_UNAVAILABLE
        assert "umap-learn" in str(score.values[COMPLETENESS])

    def test_hostile_texts_are_survived(self, params: SummaryParams, ctx: EvalContext) -> None:
        texts = [
            "\ud800 \udfff. \x00 nul nul nul. 🙂🙂🙂🙂 🙂🙂🙂🙂!",
            "مرحبا بالعالم كله. كيف حالك اليوم؟ نعم.",
            "." * 3000,
            "a" * 9000,
        ]
        rows = [
            Row(text[:5], "m", question=a, actual_answer=b)
            for text in texts
            for a, b in ((text, text), (str(ROWS[0].question), text))
        ]
        for score in CompletenessFaithfulness(params).score(rows, ctx):
            assert all(reason(value) in (None, Reason.UNSCORABLE) for value in score.values.values())


def test_keys_cover_what_weights_are_and_not_where_they_lie(
    one_thread: None, tiny_embedder: Path, tmp_path: Path
) -> None:
    ctx = EvalContext(Settings(embedder=str(tiny_embedder), device="cpu"))
    one, same = (
        SummaryParams(nli_model=str(make_nli(tmp_path / name)), conv_weights=str(make_conv(tmp_path / f"{name}-c")))
        for name in ("a", "b")
    )
    other = one.model_copy(update={"conv_weights": str(make_conv(tmp_path / "other", seed=9))})
    identity = CompletenessFaithfulness(one).identity(ctx)
    assert identity == CompletenessFaithfulness(same).identity(ctx)
    assert identity != CompletenessFaithfulness(other).identity(ctx)
    assert identity != CompletenessFaithfulness(one.model_copy(update={"seed": 1})).identity(ctx)


def test_a_directory_without_the_model_is_said_to_be_unusable(tmp_path: Path) -> None:
    evaluator = CompletenessFaithfulness(SummaryParams(nli_model=str(tmp_path)))
    with pytest.raises(ModelUnavailable, match=r"no config\.json"):
        evaluator.identity(EvalContext(Settings(embedder="offline", device="cpu")))
