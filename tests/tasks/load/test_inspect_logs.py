"""Logs of inspect: JSON and archives, whole and broken."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import DatasetError
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import tables


def sample(id_: object, said: str, *, epoch: int = 1, **more: Any) -> dict[str, Any]:
    output = {
        "model": "openai/m", "completion": said, "usage": {"input_tokens": 6, "output_tokens": 5}, "time": 0.5,
        "choices": [{"message": {"role": "assistant", "content": said}}],
    }  # fmt: skip
    return {
        "id": id_, "epoch": epoch, "input": "When?", "target": "at seven", "output": output, "messages": [],
        "metadata": {"lang": "en", "retrieved_context": ["It starts at seven."]}, "events": [{"event": "big"}],
        "scores": {"includes": {"value": "C"}},
    } | more  # fmt: skip


CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Where?"}]}]
SAMPLES = [
    sample("c0", "At seven."),
    sample("c0", "At eight.", epoch=2),
    sample(3, "", input=CHAT, target=["harbour", "port"], error={"message": "time is up"}),
]


def json_log(folder: Path, samples: list[dict[str, Any]]) -> Path:
    path = folder / "log.json"
    path.write_text(json.dumps({"version": 2, "eval": {"model": "openai/m"}, "samples": samples, "reductions": []}))
    return path


def archive(folder: Path, samples: list[dict[str, Any]], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("_journal/start.json", "{}")
        for one in samples:
            file.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        file.writestr("header.json", "{}")
    return path


def loaded(store: Path, path: Path) -> dict[str, dict[str, Any]]:
    dataset = load_dataset(Store.open(store), path)
    assert (dataset.format, dataset.models) == ("inspect", ("openai/m",))
    found = tables(dataset)
    cases = {line["case_id"]: line for line in found["cases"]}
    return {
        cases[row["case_id"]]["case_key"]: row | cases[row["case_id"]] | {"row_metadata": row["metadata"]}
        for row in found["rows"]
    }


@pytest.mark.parametrize("form", ["json", "deflated", "stored"])
def test_samples_are_cases_with_their_answers(tmp_path: Path, form: str) -> None:
    if form == "json":
        path = json_log(tmp_path, SAMPLES)
    else:
        path = archive(tmp_path, SAMPLES, zipfile.ZIP_STORED if form == "stored" else zipfile.ZIP_DEFLATED)
    lines = loaded(tmp_path / "store", path)
    assert set(lines) == {"c0", "c0 epoch 2", "3"}
    first = lines["c0"]
    assert (first["question"], first["expected_answers"], first["actual_answer"]) == (
        "When?",
        ["at seven"],
        "At seven.",
    )
    assert [chunk["content"] for chunk in first["retrieved_context"]] == ["It starts at seven."]
    assert (first["input_tokens"], first["output_tokens"], first["duration_s"]) == (6, 5, 0.5)
    metadata = json.loads(first["metadata"]) | json.loads(first["row_metadata"])
    assert metadata == {"metadata.lang": "en", "inspect.includes": "C"}
    assert lines["c0 epoch 2"]["actual_answer"] == "At eight."
    failed = lines["3"]
    assert (failed["question"], failed["expected_answers"]) == ("Where?", ["harbour", "port"])
    assert (failed["actual_answer"], failed["error"]) == (None, "time is up")


def test_a_broken_archive_is_refused_with_the_sample_that_is_broken(tmp_path: Path) -> None:
    path = archive(tmp_path, SAMPLES, zipfile.ZIP_STORED)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"At eight.", b"At ninee.", 1))
    with pytest.raises(DatasetError, match="its checksum is wrong"):
        loaded(tmp_path / "store", path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DatasetError, match="the archive cannot be read"):
        loaded(tmp_path / "store", path)


def test_another_archive_is_still_none(tmp_path: Path) -> None:
    path = tmp_path / "answers.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("answers.csv", "question,answer\n")
    with pytest.raises(DatasetError, match="a ZIP archive"):
        load_dataset(Store.open(tmp_path / "store"), path)
