"""Which evaluators a request means, and what of them travels to workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from leadline.evaluators.core import EvalContext, registry
from leadline.evaluators.ground import UsageError
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks.plan.jobs import make_jobs, read_jobs, write_jobs
from leadline.tasks.plan.selection import choose
from tests.support.models.fake_hub import model_files, write_folder

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
    with pytest.raises(UsageError, match="faithfulness asks a judge, and none is named"):
        choose(None, (), {"faithfulness": {"min_test_cases": 5}}, WITHOUT)


def test_parameters_for_an_evaluator_that_does_not_run_are_refused() -> None:
    with pytest.raises(UsageError, match="does not run"):
        choose("privacy", (), {"bleu": {"metric_threshold": 0.5}}, WITHOUT)


def test_pickled_weights_that_are_allowed_are_weights_that_are_here(tmp_path: Path) -> None:
    pickled = model_files() | {"pytorch_model.bin": b"pickle"}
    del pickled["model.safetensors"]
    folder = str(write_folder(tmp_path / "pickled", pickled))
    refused = choose(None, (), {}, Settings(embedder=folder))
    assert "its weights are pickled" in refused.left_out["groundedness"]
    assert "not on this machine" not in refused.left_out["groundedness"]
    assert "groundedness" not in choose(None, (), {}, Settings(embedder=folder, allow_pickle=True)).left_out


def test_a_job_names_folders_of_weights_by_their_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_folder(tmp_path, {f"mine/{name}": content for name, content in model_files().items()}))
    params = {"groundedness": {"embedding_model": "mine"}}
    chosen = choose(None, ("groundedness",), params, WITHOUT).evaluators
    (job,) = make_jobs(chosen, WITHOUT)
    assert job.params["embedding_model"] == str(tmp_path / "mine")
    monkeypatch.chdir("/")
    assert job.build().identity(EvalContext(WITHOUT)) == job.identity


OWN = """
import leadline

@leadline.register
class Own(leadline.RowEvaluator):
    spec = leadline.Spec.simple("own", inputs=["actual_answer"], higher_is_better=True)

    def score_row(self, row, ctx):
        return leadline.RowScore({"own": 1.0})
"""


def test_an_evaluator_of_a_file_travels_to_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry.all_evaluators()))
    file = tmp_path / "own.py"
    file.write_text(OWN)
    settings = Settings(embedder="offline", evaluator_files=(str(file),))
    jobs = make_jobs(choose(None, ("own",), {}, settings).evaluators, settings)
    assert [job.evaluator for job in jobs] == ["own"]
    write_jobs(tmp_path / "jobs.json", jobs, settings)
    assert read_jobs(tmp_path / "jobs.json") == (settings, jobs)
    script = (
        "import sys, pathlib; from leadline.tasks.plan.jobs import read_jobs;"
        "print(read_jobs(pathlib.Path(sys.argv[1]))[1][0].build().spec.name)"
    )

    def elsewhere() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "jobs.json")], capture_output=True, text=True, check=False
        )

    assert elsewhere().stdout == "Own\n"
    file.write_text(OWN.replace("1.0", "0.5"))
    assert "The file of own has changed since the run was planned" in elsewhere().stderr
