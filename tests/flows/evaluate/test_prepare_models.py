"""What a plan says of local models, and how it names them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.evaluators.ground import ModelUnavailable
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.prepare import preview, settings_of
from leadline.flows.shared.settings import Judges, Models
from tests.support.models.fake_hub import model_files, write_folder


def missing(folder: Path, **models: object) -> str:
    """Return what a plan with the evaluator ``groundedness`` says is missing."""
    rows = folder / "rows.jsonl"
    line = {"case": "c", "model": "m", "actual_answer": "It is 5 m.", "retrieved_context": ["The quay is 5 m deep."]}
    rows.write_text(json.dumps(line), encoding="utf-8")
    config = EvaluateConfig(
        dataset=str(rows), evaluators=("groundedness",), models=Models.model_validate(models), store=str(folder / "s")
    )
    (entry,) = preview(config).entries
    return entry.missing


def test_a_model_that_is_not_here_is_said_with_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    commit = "a" * 40
    said = missing(tmp_path, embedder=f"tiny/model@{commit}")
    assert said == f"tiny/model@aaaaaaaa is not on this machine: leadline evaluators models pull tiny/model@{commit}"


def test_pickled_weights_are_missing_only_where_they_are_not_allowed(tmp_path: Path) -> None:
    pickled = model_files() | {"pytorch_model.bin": b"pickle"}
    del pickled["model.safetensors"]
    write_folder(tmp_path / "pickled", pickled)
    with pytest.raises(ModelUnavailable, match="its weights are pickled"):
        missing(tmp_path, embedder=str(tmp_path / "pickled"))
    assert missing(tmp_path, embedder=str(tmp_path / "pickled"), allow_pickle=True) == ""


def test_folders_of_models_are_planned_by_their_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_folder(tmp_path, {"mine/config.json": b"{}"}))
    (tmp_path / "judges.toml").write_text('[judges.near]\nmodel = "mine"\nkind = "local"\n', encoding="utf-8")
    settings = settings_of(
        EvaluateConfig(
            dataset="rows.jsonl", models=Models(embedder="./mine"), judges=Judges(model="near", config="judges.toml")
        )
    )
    assert settings.embedder == str(tmp_path / "mine")
    assert settings.judges[0].model == str(tmp_path / "mine")


def test_other_names_of_models_are_planned_as_they_were_given() -> None:
    for name in ("offline", "BAAI/bge-small-en", "tiny/model@main"):
        assert settings_of(EvaluateConfig(dataset="rows.jsonl", models=Models(embedder=name))).embedder == name
