"""Leadline's evaluators as scorers of real inspect_ai tasks, with its fake model."""

from __future__ import annotations

import math
from pathlib import Path

import inspect_ai
import pytest
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate

import leadline.inspect
from leadline import LeadlineError, evaluate
from tests.support.judges.judge_endpoint import JudgeEndpoint

ANSWERS = ("The pump starts at seven.", "The pump is on Mars.")


def run(*scorers: object, answers: tuple[str, ...] = ANSWERS) -> EvalLog:
    samples = [
        Sample(
            id=f"c{n}",
            input="When does the pump start?",
            target=ANSWERS[0],
            metadata={"retrieved_context": [{"content": "The pump starts at seven.", "source": "manual.pdf"}]},
        )
        for n in range(len(answers))
    ]
    outputs = [ModelOutput.from_content("mockllm/model", answer) for answer in answers]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=6, output_tokens=5, total_tokens=11)  # else counted with a file to fetch
    model = get_model("mockllm/model", custom_outputs=outputs)
    task = inspect_ai.Task(dataset=samples, solver=generate(), scorer=list(scorers))
    [log] = inspect_ai.eval(task, model=model, display="none", max_samples=1, log_dir="logs")
    assert log.status == "success", log.error
    return log


def test_an_evaluator_scores_samples_and_their_mean_is_the_tasks_metric() -> None:
    log = run(leadline.inspect.scorer("bleu"), leadline.inspect.scorer("rouge"))
    assert log.samples
    assert log.results
    first, second = (sample.scores["bleu"] for sample in log.samples)
    assert first.value == pytest.approx(1.0)
    assert 0 <= second.value < 1
    assert first.metadata["passes"] is True
    assert set(first.metadata["values"]) == {"bleu_1", "bleu_2", "bleu_3", "bleu_4"}
    named = {scored.name: scored.metrics for scored in log.results.scores}
    assert set(named) == {"bleu", "rouge"}
    assert named["bleu"]["mean"].value == pytest.approx((first.value + second.value) / 2)


def test_a_judge_sees_the_samples_contexts_and_is_asked_once_for_the_same(judge: JudgeEndpoint) -> None:
    for _ in range(2):
        log = run(leadline.inspect.scorer("llamaindex.faithfulness"))
        assert log.samples
        assert [sample.scores["llamaindex.faithfulness"].value for sample in log.samples] == [1.0, 0.0]
    assert len(judge.answered) == 2
    assert all("manual" not in text and "The pump starts at seven." in text for text in judge.answered)


def test_what_cannot_be_measured_is_unscored_and_what_lacks_an_input_has_no_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    dead = {"model": "openai/judge", "api_base": "http://127.0.0.1:9", "max_calls": 0}
    log = run(leadline.inspect.scorer("llamaindex.faithfulness", judge=dead), leadline.inspect.scorer("text_matching"))
    assert log.samples
    for sample in log.samples:
        score = sample.scores["llamaindex.faithfulness"]
        assert math.isnan(score.value)
        assert (score.reason, score.explanation.split(":")[0]) == ("scoring_failed", "budget")
        assert "text_matching" not in sample.scores


def test_a_function_and_a_metric_of_an_evaluator_are_scorers_too() -> None:
    log = run(leadline.inspect.scorer("bleu:bleu_2"))
    assert log.samples
    assert log.samples[0].scores["bleu"].metadata["metric"] == "bleu_2"
    with pytest.raises(LeadlineError, match="has no metric 'bleu_9'"):
        leadline.inspect.scorer("bleu:bleu_9")
    with pytest.raises(LeadlineError, match="faithfullness"):
        leadline.inspect.scorer("faithfullness")


def test_a_log_that_inspect_wrote_is_a_dataset(tmp_path: Path) -> None:
    log = run(leadline.inspect.scorer("bleu"))
    found = evaluate(log.location, metrics=["bleu"])
    primary = found.scores.query("metric == 'bleu_1'").set_index("case").value
    assert log.samples
    for sample in log.samples:
        assert primary[sample.id] == pytest.approx(sample.scores["bleu"].value)
