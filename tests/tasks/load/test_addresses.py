"""Datasets by a pattern of names and in buckets: what is read, and how it is said where nothing is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import DatasetError, StoreError, UsageError
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.load.source import source_at
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import rows
from tests.support.stores.s3 import S3

ANSWER = {"question": "How high?", "actual_answer": "5.4 m"}


def trace(number: int) -> dict[str, Any]:
    """Return the attributes of a call of a model."""
    asked, said = ([{"role": role, "content": f"{role} {number}"}] for role in ("user", "assistant"))
    return {"gen_ai.operation.name": "chat", "gen_ai.input.messages": asked, "gen_ai.output.messages": said}


def opened(tmp_path: Path, address: str | Path) -> LoadedDataset:
    return load_dataset(Store.open(tmp_path / "store"), address)


def asked(loaded: LoadedDataset) -> set[str]:
    return {row["question"] for row in rows(loaded).values()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of traces, with another in it and files of other kinds."""
    (tmp_path / "in" / "later").mkdir(parents=True)
    for number, name in enumerate(("a.json", "b.json", "later/c.json"), start=1):
        (tmp_path / "in" / name).write_text(json.dumps(trace(number)))
    (tmp_path / "in" / "answers.jsonl").write_text(json.dumps(ANSWER))
    (tmp_path / "in" / "empty.json").write_text("")
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("pattern", "found"), [("*.json", {1, 2}), ("**/*.json", {1, 2, 3}), ("[bc].json", {2}), ("?.json", {1, 2})]
)
def test_a_pattern_is_all_files_that_are_called_so(tmp_path: Path, folder: Path, pattern: str, found: set[int]) -> None:
    assert asked(opened(tmp_path, folder / pattern)) == {f"user {number}" for number in found}


def test_a_pattern_of_one_file_is_that_file_whatever_it_holds(tmp_path: Path, folder: Path) -> None:
    assert opened(tmp_path, folder / "*.jsonl").digest == opened(tmp_path, folder / "answers.jsonl").digest
    (folder / "really*[1].jsonl").write_text(json.dumps(ANSWER))
    assert opened(tmp_path, folder / "really*[1].jsonl").rows == 1


@pytest.mark.parametrize(
    ("pattern", "said"), [("*.csv", "no file is called so"), ("*.jsonl", "several files are read together if they are")]
)
def test_a_pattern_of_no_use_is_refused_in_one_line(tmp_path: Path, folder: Path, pattern: str, said: str) -> None:
    (folder / "more.jsonl").write_text(json.dumps(ANSWER))
    with pytest.raises(DatasetError, match=said) as refused:
        opened(tmp_path, folder / pattern)
    assert refused.value.faults[0].file == str(folder / pattern)


def test_a_pattern_of_too_many_files_is_refused(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.tasks.load.source._MOST_FILES", 1)
    with pytest.raises(DatasetError, match="more than 1 files"):
        opened(tmp_path, folder / "*.json")


@pytest.fixture
def bucket(s3: S3, folder: Path) -> str:
    """Return the address of the same folder in a bucket."""
    for path in folder.rglob("*.json*"):
        s3.client().put_object(Bucket=s3.bucket, Key=f"of/{path.relative_to(folder)}", Body=path.read_bytes())
    return f"s3://{s3.bucket}/of"


@pytest.mark.slow
def test_a_bucket_is_read_like_a_folder(tmp_path: Path, folder: Path, bucket: str) -> None:
    for name in ("a.json", "answers.jsonl", "*.json", "**/*.json", "later", "later/"):
        there = opened(tmp_path, f"{bucket}/{name}")
        assert there.source == f"{bucket}/{name}"
        assert there.digest == opened(tmp_path, folder / name).digest
    with pytest.raises(DatasetError, match=r"/of/empty\.json: the file is empty"):
        opened(tmp_path, bucket)


@pytest.mark.slow
def test_all_that_lies_below_a_name_in_a_bucket_is_a_folder(tmp_path: Path, folder: Path, bucket: str, s3: S3) -> None:
    s3.client().delete_object(Bucket=s3.bucket, Key="of/empty.json")
    (folder / "empty.json").unlink()
    assert asked(opened(tmp_path, bucket)) == asked(opened(tmp_path, folder))


@pytest.mark.slow
def test_what_was_copied_from_a_bucket_goes_with_what_was_read(bucket: str) -> None:
    source = source_at(f"{bucket}/a.json")
    assert source.copied is not None
    place = Path(source.copied.name)
    assert place.is_dir()
    del source
    assert not place.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"), [("/gone.json", "no such object"), ("/*.csv", "no such object"), ("/gone/", "no such object")]
)
def test_what_is_in_no_bucket_is_refused_in_one_line(tmp_path: Path, bucket: str, name: str, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        opened(tmp_path, f"{bucket}{name}")
    with pytest.raises(StoreError, match="There is no bucket"):
        opened(tmp_path, "s3://leadline-there-is-none/a.json")


@pytest.mark.parametrize("address", ["s3://", "s3://bucket", "s3://bucket/"])
def test_a_bucket_alone_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(DatasetError, match="name a file, a folder or a pattern in it"):
        opened(tmp_path, address)
    with pytest.raises(UsageError, match="credentials"):
        opened(tmp_path, "s3://user:secret@bucket/a.json")
