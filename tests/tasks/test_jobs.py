"""Which evaluators a request means."""

from __future__ import annotations

import pytest

from evaluators.errors import UsageError
from evaluators.judge.config import JudgeConfig
from evaluators.toolbox import Settings
from tasks.jobs import choose

WITHOUT = Settings(embedder="offline")
WITH = Settings(embedder="offline", judges=(JudgeConfig(model="openai/some-model"),))


@pytest.fixture(autouse=True)
def _no_weights_but_the_offline_ones(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path_factory.mktemp("empty")))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path_factory.mktemp("hub")))


def ids(suite: str | None = None, *named: str, settings: Settings = WITHOUT) -> list[str]:
    return [evaluator.spec.id for evaluator in choose(suite, named, {}, settings).evaluators]


def test_what_is_named_runs_even_where_its_weights_are_absent() -> None:
    assert ids(None, "toxicity") == ["toxicity"]
    assert "toxicity" in ids("no-judge")
    assert ids("privacy", "bleu", settings=WITH)[0] == "bleu"


def test_where_nothing_is_named_everything_runs_that_can() -> None:
    choice = choose(None, (), {}, WITHOUT)
    running = [evaluator.spec.id for evaluator in choice.evaluators]
    assert {"bleu", "groundedness", "text_matching"} <= set(running)
    assert "faithfulness" not in running
    assert "toxicity" in choice.left_out
    assert "not on this machine" in choice.left_out["toxicity"]
    assert "faithfulness" in ids(settings=WITH)


def test_parameters_name_an_evaluator_too() -> None:
    choice = choose(None, (), {"toxicity": {"metric_threshold": 0.5}}, WITHOUT)
    assert "toxicity" in [evaluator.spec.id for evaluator in choice.evaluators]


def test_a_judge_evaluator_without_a_judge_is_refused() -> None:
    with pytest.raises(UsageError, match="faithfulness asks a judge, and none is named"):
        ids(None, "faithfulness")


def test_parameters_for_an_evaluator_that_does_not_run_are_refused() -> None:
    with pytest.raises(UsageError, match="does not run"):
        choose("privacy", (), {"bleu": {"metric_threshold": 0.5}}, WITHOUT)
