"""Logs of inspect: JSON and archives, whole and broken."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from leadline.evaluators.ground import DatasetError
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.load.faults import Faults
from leadline.tasks.load.readers.inspect_archive import read_archive
from leadline.tasks.load.source import SourceFile
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


def test_samples_that_zstandard_made_smaller_are_read(tmp_path: Path) -> None:
    path, plain = tmp_path / "log.eval", json.dumps(SAMPLES[0]).encode()
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("_journal/start.json", "{}")
        file.writestr("samples/c0_epoch_1.json", pa.compress(plain, "zstd", asbytes=True))
        member = file.infolist()[1]  # of which the archive's directory, written last, says how it is packed
        member.compress_type, member.file_size, member.CRC = 93, len(plain), zlib.crc32(plain)
    assert loaded(tmp_path / "store", path)["c0"]["actual_answer"] == "At seven."


def in_chunks(folder: Path, samples: list[dict[str, Any]], **refs: Any) -> Path:
    """Write an archive whose first sample is in one file, and whose others are in chunks of two messages."""
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("_journal/start.json", "{}")
        file.writestr(f"samples/{samples[0]['id']}_epoch_1.json", json.dumps(samples[0]))
        for one in samples[1:]:
            name = f"samples/{one['id']}_epoch_{one['epoch']}"
            shell = one | {"input": "attachment://1", "message_refs": refs.get("message_refs", [[0, 1], [2, 3]])}
            messages = [
                {"role": "user", "content": "attachment://1"},
                {"role": "user", "content": "of an event"},
                ANSWER,
            ]
            for chunk, content in {
                "sample": {key: value for key, value in shell.items() if key not in ("messages", "metadata", "events")},
                "metadata": one["metadata"],
                "skeleton": [],
                "messages/2": messages[2:],
                "messages/0": messages[:2],
                "events/0": [{"event": "big"}],
                "events/stats": {},
                "calls/0": [],
                "attachments/0": ["never used", 'When does it start? It says "attachment://0".'],
            }.items():
                file.writestr(f"{name}/{chunk}.json", json.dumps(content))
        file.writestr("header.json", "{}")
    return path


ANSWER = {"role": "assistant", "content": "At nine."}


def test_samples_in_chunks_stand_beside_those_in_one_file(tmp_path: Path) -> None:
    samples = [sample("c0", "At seven."), sample("a/b", "At nine."), sample("c2", "At ten.", epoch=2)]
    path = in_chunks(tmp_path, samples)
    lines = loaded(tmp_path / "store", path)
    assert {name: line["actual_answer"] for name, line in lines.items()} == {
        "c0": "At seven.",
        "a/b": "At nine.",
        "c2 epoch 2": "At ten.",
    }
    assert lines["a/b"]["question"] == 'When does it start? It says "attachment://0".'
    assert [chunk["content"] for chunk in lines["a/b"]["retrieved_context"]] == ["It starts at seven."]
    faults = Faults("log.eval")
    read = [item.value for block in read_archive(SourceFile.at(path), faults) for item in block.items()]
    assert [message["content"] for message in read[1]["messages"]] == [lines["a/b"]["question"], "At nine."]
    assert not faults


@pytest.mark.parametrize("refs", [[[0, 9]], [[2, 1]], [[0, 3]] * 40_000, [3], None, "ab", [["a", "b"]]])
def test_a_sample_in_chunks_whose_messages_are_not_there_is_refused(tmp_path: Path, refs: Any) -> None:
    samples = [sample("c0", "At seven."), sample("c1", "At nine.")]
    with pytest.raises(DatasetError, match=r"'samples/c1_epoch_1/sample.json' cannot be read"):
        loaded(tmp_path / "store", in_chunks(tmp_path, samples, message_refs=refs))


def test_an_attachment_that_is_repeated_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("_journal/start.json", "{}")
        file.writestr("samples/c_epoch_1/sample.json", json.dumps({"id": ["attachment://0"] * 1000}))
        file.writestr("samples/c_epoch_1/attachments/0.json", json.dumps(["x" * 100_000]))
    with pytest.raises(DatasetError, match="with its attachments it is larger than 64 MiB"):
        loaded(tmp_path / "store", path)


CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "function": "clock", "arguments": {}}]}
DIALOGUE = [
    {"role": "user", "content": "When?", "source": "input"},
    CALL,
    {"role": "tool", "content": "seven", "tool_call_id": "x", "function": "clock"},
    {"role": "assistant", "content": "At seven."},
]


def test_samples_in_which_tools_are_called_are_conversations(tmp_path: Path) -> None:
    lines = loaded(tmp_path / "store", archive(tmp_path, [sample("c0", "At seven.", messages=DIALOGUE), SAMPLES[1]]))
    assert [(line["question"], line["actual_answer"]) for line in lines.values()] == [
        ("When?", "At seven."),
        ("When?", "At eight."),
    ]
    (turns,) = (tmp_path / "store").rglob("turns.parquet")
    messages = json.loads(parquet.read_table(turns, columns=["messages"]).to_pylist()[0]["messages"])
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2] == {"role": "tool", "content": "seven", "tool_call_id": "1", "name": "clock"}
    assert lines["c0"]["expected_answers"] == ["at seven"]


def test_samples_whose_messages_are_in_no_known_form_are_single_answers(tmp_path: Path) -> None:
    messages = [*DIALOGUE, {"role": "captain", "content": "Aye."}]
    lines = loaded(tmp_path / "store", archive(tmp_path, [sample("c0", "At seven.", messages=messages)]))
    assert lines["c0"]["actual_answer"] == "At seven."


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
