from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import ContextChunk, NotApplicable, Reason, Row, RowScore
from leadline.evaluators.generation._procedures import Edit, align, joined, procedures
from leadline.evaluators.generation.step_alignment import StepAlignment
from leadline.evaluators.judge_client.calls import JudgeUnavailable
from leadline.evaluators.models import embedders
from leadline.evaluators.settings import Settings
from tests.support.datasets.rag_rows import cosine_by_library
from tests.support.judges.judged import ScriptedJudge, fenced, judged, reason, scripted_context
from tests.support.models.tiny_models import WORDS

EDITS = ("edits", "insertions", "deletions", "mismatches")
COUNTS = (*EDITS, "retrieved_context_steps", "actual_answer_steps")


def listed(steps: Sequence[str]) -> str:
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


def row_of(answer: str, *chunks: str, case: str = "c") -> Row:
    return Row(case, "m", actual_answer=answer, retrieved_context=tuple(ContextChunk(chunk) for chunk in chunks))


def values(score: RowScore) -> tuple[Any, ...]:
    return tuple(score.values[key] for key in COUNTS)


PUMP = (
    "Close the main valve.",
    "Disconnect the power supply.",
    "Remove the old filter.",
    "Insert the new filter.",
    "Restart the pump.",
)


@pytest.fixture(scope="module")
def offline(one_thread: None) -> Iterator[EvalContext]:
    yield EvalContext(Settings(embedder="offline", device="cpu"))
    embedders.unload()


@pytest.mark.slow
class TestExamplesCheckedByHand:
    """With the weights of all-MiniLM-L6-v2, which the reference uses."""

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            pytest.param(PUMP, (0, 0, 0, 0, 5, 5), id="the same"),
            pytest.param(
                (
                    "Shut the main valve",
                    "Unplug the power supply",
                    "Take out the old filter",
                    "Put in the new filter",
                    "Start the pump again",
                ),
                (0, 0, 0, 0, 5, 5),
                id="in other words",
            ),
            pytest.param(PUMP[:3] + PUMP[4:], (1, 1, 0, 0, 5, 4), id="one missing"),
            pytest.param((*PUMP[:2], "Call your grandmother.", *PUMP[2:]), (1, 0, 1, 0, 5, 6), id="one too many"),
            pytest.param(
                (*PUMP[:2], "Call your grandmother.", *PUMP[3:]), (1, 0, 0, 1, 5, 5), id="another in its place"
            ),
            pytest.param((PUMP[4], *PUMP[:4]), (2, 1, 1, 0, 5, 5), id="the last first"),
            pytest.param((PUMP[1], PUMP[4], "Bake a cake."), (4, 3, 1, 0, 5, 3), id="little is right"),
            pytest.param(("Bake a cake.", "Call your grandmother."), (5, 3, 0, 2, 5, 2), id="nothing is right"),
        ],
    )
    def test_counts(self, offline: EvalContext, answer: Sequence[str], expected: tuple[int, ...]) -> None:
        row = row_of(f"Do this:\n{listed(answer)}", f"Maintenance\n\n{listed(PUMP)}")
        (score,) = StepAlignment().score([row], offline)
        assert values(score) == expected

    def test_the_procedure_that_the_answer_is_about_is_compared(self, offline: EvalContext) -> None:
        cake = listed(["Mix flour and eggs.", "Pour the dough into a tin.", "Bake the cake."])
        tea = listed(["Boil water.", "Pour it over the tea."])
        for chunks in ([cake, listed(PUMP), tea], [f"{tea}\n\nMaintenance:\n\n{listed(PUMP)}\n\nA cake:\n\n{cake}"]):
            (score,) = StepAlignment().score([row_of(listed(PUMP[:4]), *chunks)], offline)
            assert values(score) == (1, 1, 0, 0, 10, 4)
            assert score.evidence.data["context_procedures"] == 3

    def test_a_procedure_that_is_cut_between_chunks_is_whole(self, offline: EvalContext) -> None:
        lines = listed(PUMP).split("\n")
        chunks = ("\n".join(lines[2:]), "\n".join(lines[:3]))
        (score,) = StepAlignment().score([row_of(listed(PUMP), *chunks)], offline)
        assert values(score) == (0, 0, 0, 0, 5, 5)

    def test_an_answer_without_steps_lacks_those_of_the_procedure_it_is_about(self, offline: EvalContext) -> None:
        cake = listed(["Mix flour and eggs.", "Bake the cake."])
        (score,) = StepAlignment().score([row_of("You change the filter of the pump.", cake, listed(PUMP))], offline)
        assert values(score) == (5, 5, 0, 0, 7, 0)

    def test_a_context_without_steps_is_a_problem(self, offline: EvalContext) -> None:
        (score,) = StepAlignment().score([row_of(listed(PUMP), "Pumps are loud.")], offline)
        assert values(score) == (5, 0, 5, 0, 0, 5)
        assert "No steps were found in the retrieved context" in score.flags[0].message

    def test_a_row_about_no_procedure_has_no_edits(self, offline: EvalContext) -> None:
        (score,) = StepAlignment().score([row_of("Seven.", "Pumps start at seven.")], offline)
        assert all(isinstance(score.values[key], NotApplicable) for key in EDITS)
        assert values(score)[4:] == (0, 0)
        assert score.complete


def random_row(seed: int) -> Row:
    draw = random.Random(seed)

    def step() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(2, 6)))

    steps = [step() for _ in range(draw.randint(2, 7))]
    answer = [draw.choice([one, step()]) for one in steps if draw.random() < 0.8] or [step()]
    return row_of(listed(answer), "Some text.", listed(steps), case=str(seed))


@pytest.mark.slow
class TestStepsFound:
    def test_those_of_procedures_that_are_not_compared_count_too(self, ctx: EvalContext) -> None:
        first, second = listed(["Turn it.", "Push it.", "Wash it."]), listed(PUMP)
        answer = f"{first}\n\nThen the cake:\n\n{listed(['Mix it.', 'Bake it.'])}"
        (score,) = StepAlignment().score([row_of(answer, first, second)], ctx)
        assert values(score) == (0, 0, 0, 0, 8, 5)
        assert "the answer's 3 steps into the context's 3" in str(score.evidence.message)
        assert score.evidence.data["other_procedures_of_the_answer"] == 1

    def test_a_procedure_that_two_chunks_repeat_counts_once(self, ctx: EvalContext) -> None:
        chunk = listed(PUMP)
        (score,) = StepAlignment().score([row_of(chunk, chunk, f"See here:\n{chunk}")], ctx)
        assert values(score) == (0, 0, 0, 0, 5, 5)

    def test_scores_of_the_version_that_counted_otherwise_are_not_taken_for_these(self) -> None:
        assert StepAlignment().identity(EvalContext())["version"] == "2"


@pytest.mark.slow
class TestAgainstTheDefinition:
    def test_counts_follow_from_the_librarys_similarities_in_any_batch_and_order(
        self, ctx: EvalContext, tiny_embedder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cosine = cosine_by_library(tiny_embedder)
        rows = [random_row(seed) for seed in range(12)]
        expected = []
        for row in rows:
            (theirs,) = joined([procedures(chunk.content) for chunk in row.retrieved_context])
            (ours,) = procedures(str(row.actual_answer))
            table = np.array([[cosine(a.text, b.text) for b in ours.steps] for a in theirs.steps])
            kinds = [place.edit for place in align(table, 0.7)]
            counts = [kinds.count(kind) for kind in (Edit.INSERTION, Edit.DELETION, Edit.MISMATCH)]
            expected.append((sum(counts), *counts, len(theirs.steps), len(ours.steps)))
        assert len(set(expected)) > 3
        for block in (1, 1000):
            embedders.forget()
            monkeypatch.setattr("leadline.evaluators.core.model_evaluator.BLOCK_TEXTS", block)
            order = random.Random(block).sample(range(len(rows)), len(rows))
            scores = StepAlignment().score([rows[at] for at in order], ctx)
            assert [values(score) for score in scores] == [expected[at] for at in order]

    def test_each_step_of_the_answer_is_shown_with_what_became_of_it(self, ctx: EvalContext) -> None:
        row = random_row(3)
        (score,) = StepAlignment().score([row], ctx)
        answer = str(row.actual_answer)
        assert [answer[span.start : span.end] for span in score.evidence.spans] == answer.split("\n")
        alignment: Any = score.evidence.data["alignment"]
        assert [span.note for span in score.evidence.spans] == [each["edit"] for each in alignment if each["answer"]]
        plain = StepAlignment(StepAlignment.parameters(sentence_level_metrics=False)).score([row], ctx)[0]
        assert values(plain) == values(score)
        assert not plain.evidence.spans

    def test_more_pairs_than_are_compared_leave_the_row_unscored(
        self, ctx: EvalContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("leadline.evaluators.generation.step_alignment.MOST_PAIRS", 3)
        (score,) = StepAlignment().score([row_of(listed(["a b", "c d"]), listed(["a b", "c d"]))], ctx)
        assert reason(score) == Reason.UNSCORABLE
        assert "more pairs" in score.flags[0].message

    def test_hostile_texts_are_survived(self, ctx: EvalContext) -> None:
        texts = ["\ud800\n1. \ud800 a\n2. \x00 b", "1. 🙂\n2. 👩‍👩‍👧 x\n3. مرحبا", "- a\n" * 1500, "", "1. " * 2000]
        rows = [row_of(one, other) for one in texts for other in (*texts, listed(PUMP))]
        for score in StepAlignment().score(rows, ctx):
            assert all(isinstance(value, float | int | NotApplicable) for value in score.values.values())


PROSE = row_of(
    "You close the valve and then the pump is switched on.", "Valves are closed before pumps are switched on."
)
SAID = {
    "Valves are closed": {"procedures": [["Read the manual."], ["Close the valve", "Switch on the pump"]]},
    "You close the valve": {"procedures": [["close the valve", "the pump is switched on"]]},
}


@pytest.mark.slow
class TestByJudge:
    @pytest.fixture
    def embedder(self, tiny_embedder: Path) -> Iterator[str]:
        yield str(tiny_embedder)
        embedders.forget()

    def test_the_judge_finds_steps_in_prose(self, embedder: str) -> None:
        judge = ScriptedJudge(SAID)
        (score,) = judged("step_alignment", judge, PROSE, extraction="judge", embedding_model="offline")
        assert values(score) == (0, 0, 0, 0, 3, 2)
        assert sorted(text for prompt in judge.asked for text in fenced(prompt, "text")) == sorted(
            [str(PROSE.actual_answer), PROSE.retrieved_context[0].content]
        )
        answer = str(PROSE.actual_answer)
        assert [answer[span.start : span.end] for span in score.evidence.spans] == [
            "close the valve",
            "the pump is switched on",
        ]
        assert len(score.evidence.data["calls"]) == 2  # type: ignore[arg-type]

    def test_with_both_the_expressions_find_what_the_judge_overlooks(self, embedder: str) -> None:
        row = row_of(listed(PUMP), listed(PUMP))
        judge = ScriptedJudge({"Reply with": {"procedures": []}})
        for extraction, expected in (("judge", (0, 0)), ("both", (5, 5))):
            (score,) = judged("step_alignment", judge, row, extraction=extraction, embedding_model=embedder)
            assert values(score)[4:] == expected

    def test_steps_that_the_judge_and_the_expressions_find_are_not_counted_twice(self, embedder: str) -> None:
        row = row_of(listed(PUMP), listed(PUMP))
        judge = ScriptedJudge({"Reply with": {"procedures": [[step.lower() for step in PUMP], ["Wash your hands."]]}})
        (score,) = judged("step_alignment", judge, row, extraction="both", embedding_model=embedder)
        assert values(score) == (0, 0, 0, 0, 6, 6)

    def test_a_judge_that_is_down_leaves_the_row_unscored(self, embedder: str) -> None:
        judge = ScriptedJudge({"Reply with": ["no JSON"]})
        (score,) = judged("step_alignment", judge, PROSE, extraction="judge", embedding_model=embedder)
        assert reason(score) == Reason.JUDGE_UNPARSEABLE

    def test_without_an_embedder_the_judge_is_not_asked(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
        judge = ScriptedJudge(SAID)
        (score,) = judged("step_alignment", judge, PROSE, extraction="judge")
        assert reason(score) == Reason.MODEL_UNAVAILABLE
        assert not judge.asked

    def test_without_a_judge_it_is_said_that_there_is_none(self, embedder: str) -> None:
        evaluator = StepAlignment(StepAlignment.parameters(extraction="judge", embedding_model=embedder))
        (score,) = evaluator.score([PROSE], EvalContext(Settings(device="cpu")))
        assert reason(score) == JudgeUnavailable.reason


def test_only_the_way_that_asks_a_judge_runs_in_the_judges_lane() -> None:
    kind = get("step_alignment")
    assert (kind.spec.lane, kind.spec.judge, StepAlignment().spec.lane) == ("gpu", None, "gpu")
    asking = StepAlignment(StepAlignment.parameters(extraction="both")).spec
    assert (asking.lane, asking.judge) == ("judge", "llm")
    assert replace(asking, lane="gpu", judge=None) == kind.spec


def test_a_judge_is_part_of_the_key_only_where_it_is_asked() -> None:
    ctx = scripted_context(ScriptedJudge({}))
    assert not {"judge", "prompts"} & set(StepAlignment().identity(ctx))
    assert {"judge", "prompts"} <= set(StepAlignment(StepAlignment.parameters(extraction="judge")).identity(ctx))
