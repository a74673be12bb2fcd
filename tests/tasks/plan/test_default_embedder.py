"""The embedder of a run, and why it is that one."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.evaluators.core import EvalContext
from leadline.evaluators.ground import OFFLINE
from leadline.evaluators.models import weights
from leadline.evaluators.models.weights import BGE_SMALL_EN, BGE_SMALL_EN_V15
from leadline.evaluators.settings import Settings
from leadline.tasks.plan.jobs import make_jobs, read_jobs, write_jobs
from leadline.tasks.plan.selection import Choice, choose, embedder_in_words, with_default_embedder
from tests.support.models.fake_hub import model_files, write_cache

NAMED = ("groundedness", "answer_semantic_similarity")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def chosen(settings: Settings, *named: str) -> Choice:
    return choose(None, named or NAMED, {}, settings)


def embedders(choice: Choice, settings: Settings) -> dict[str, str]:
    ctx = EvalContext(settings)
    return {evaluator.spec.id: evaluator.models(ctx)[0].source for evaluator in choice.evaluators}


def test_the_one_that_the_run_names_comes_first(hub: Path) -> None:
    settings = with_default_embedder(Settings(embedder="BAAI/bge-small-en"))
    choice = chosen(settings)
    assert set(embedders(choice, settings).values()) == {"BAAI/bge-small-en"}
    assert embedder_in_words(choice, settings) == "BAAI/bge-small-en, named by --embedder or leadline.toml"


def test_an_evaluators_own_default_is_used_where_it_is_here_else_the_offline_one(hub: Path) -> None:
    write_cache(hub, BGE_SMALL_EN.source, model_files(), str(BGE_SMALL_EN.revision))
    settings = with_default_embedder(Settings())
    choice = chosen(settings)
    assert embedders(choice, settings) == {"groundedness": BGE_SMALL_EN.source, "answer_semantic_similarity": OFFLINE}
    assert embedder_in_words(choice, settings) == (
        "BAAI/bge-small-en, as the evaluators name them; "
        "offline (all-MiniLM-L6-v2), since BAAI/bge-small-en-v1.5 is not on this machine"
    )
    assert embedder_in_words(chosen(settings, "bleu"), settings) == ""


def test_nothing_replaces_weights_that_may_be_fetched(hub: Path) -> None:
    settings = Settings(allow_download=True)
    assert with_default_embedder(settings) == settings


def test_where_the_offline_one_is_not_installed_it_is_said_with_the_command(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "OFFLINE_PACKAGE", "no_such_package")
    settings = with_default_embedder(Settings())
    choice = choose("default", (), {}, settings)
    assert "groundedness" in choice.left_out
    said = embedder_in_words(choice, settings)
    assert said.startswith("none, since BAAI/bge-small-en and BAAI/bge-small-en-v1.5 are not on this machine")
    assert "pip install" in said


def test_what_was_decided_travels_to_workers_and_into_keys(hub: Path, tmp_path: Path) -> None:
    settings = with_default_embedder(Settings())
    jobs = make_jobs(chosen(settings).evaluators, settings)
    write_jobs(tmp_path / "jobs.json", jobs, settings)
    write_cache(hub, BGE_SMALL_EN.source, model_files(), str(BGE_SMALL_EN.revision))  # a worker that has it
    read, there = read_jobs(tmp_path / "jobs.json")
    assert read == settings
    explicit = make_jobs(chosen(Settings(embedder="offline")).evaluators, Settings(embedder="offline"))
    assert [job.config for job in there] == [job.config for job in explicit]
    assert there[1].build().models(EvalContext(read))[0].source == OFFLINE
    assert BGE_SMALL_EN_V15.source in read.offline_for
