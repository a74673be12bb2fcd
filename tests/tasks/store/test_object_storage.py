"""Objects arrive as they were, versions keep writers apart, and what fails is said in one line without secrets.

S3 is moto's server; Google's and Azure's protocols are answered by a server of the tests.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.evaluators.ground import StoreError, UsageError
from leadline.tasks.store import object_storage
from leadline.tasks.store.object_storage import Bucket
from leadline.tasks.store.store import Store
from tests.support.stores import object_server
from tests.support.stores.object_server import ObjectServer, serving_objects
from tests.support.stores.s3 import S3, SECRET, use

pytestmark = pytest.mark.slow

SECRETS = (SECRET, *object_server.SECRET.values(), "hunter2")


@pytest.fixture(params=["gs", "az"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectServer]:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    with serving_objects(request.param) as started:
        use(monkeypatch, started.environment)
        yield started


@pytest.fixture(params=["s3", "gs", "az"])
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    if request.param == "s3":
        yield Bucket.at(request.getfixturevalue("s3").url)
        return
    with serving_objects(request.param) as started:
        use(monkeypatch, started.environment)
        yield Bucket.at(started.url)


@pytest.mark.parametrize("size", [0, 1, 11_000_000])
def test_files_of_any_size_arrive_as_they_were(bucket: Bucket, tmp_path: Path, size: int) -> None:
    path, back = tmp_path / "file.gz", tmp_path / "back"
    path.write_bytes(os.urandom(size))
    bucket.put(path, "some/file.gz")
    assert bucket.get("some/file.gz", back) == bucket.version("some/file.gz")
    assert back.read_bytes() == path.read_bytes()
    assert bucket.objects("some") == {"some/file.gz": size}
    bucket.delete("some/file.gz")
    bucket.delete("some/file.gz")
    back.unlink()
    assert bucket.get("some/file.gz", back) is None
    assert not back.exists()


def test_names_are_listed_as_they_were_written(bucket: Bucket, tmp_path: Path) -> None:
    names = {f"models/{name}" for name in ("é ü.json", "a%b~c#d*e[f]{g}", "q?r&s+t=u", 'x:y|z"<w>', "1", "2/3")}
    (tmp_path / "file").write_text("x")
    for name in names:
        bucket.put(tmp_path / "file", name)
    assert set(bucket.objects("models")) == set(bucket.objects("")) == names
    assert (bucket.folders(""), bucket.folders("models")) == (["models"], ["2"])


def test_only_one_of_two_writers_makes_an_object_or_replaces_a_version(bucket: Bucket, tmp_path: Path) -> None:
    path, back = tmp_path / "file", tmp_path / "back"
    path.write_text("first")
    assert [bucket.put_if(path, "record", None), bucket.put_if(path, "record", None)] == [True, False]
    seen = bucket.version("record")
    path.write_text("second")
    assert [bucket.put_if(path, "record", seen), bucket.put_if(path, "record", seen)] == [True, False]
    assert bucket.get("record", back) == bucket.version("record") != seen
    assert back.read_text() == "second"


def test_hidden_names_and_marks_of_folders_are_not_taken(s3: S3) -> None:
    for key, body in (
        ("scores/ok", b"x"),
        ("scores/.hidden", b"x"),
        ("scores/", b""),
        ("scores/e/", b""),
        ("scores/e/f", b""),
    ):
        s3.client().put_object(Bucket=s3.bucket, Key=f"a/store/{key}", Body=body)
    assert set(Bucket.at(s3.url).objects("scores")) == {"scores/ok", "scores/e/f"}
    assert Bucket.at(s3.url).folders("scores") == ["e"]


def test_a_folder_with_a_name_that_would_leave_it_is_not_taken(s3: S3) -> None:
    s3.client().put_object(Bucket=s3.bucket, Key="a/store/scores/../../evil", Body=b"x")
    with pytest.raises(StoreError, match="invalid path"):
        Bucket.at(s3.url).objects("scores")


def failing(url: str) -> str:
    with pytest.raises((StoreError, UsageError)) as error:
        Store.open(url)
    said = str(error.value)
    assert "\n" not in said
    assert not any(secret in said for secret in SECRETS)
    return said


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("s3://key:hunter2@bucket/store", "credentials"),
        ("s3://bucket/store?secret_key=hunter2", "secret_key"),
        ("s3://bucket/store?endpoint_override=http://key:hunter2@host:1", "AWS_ENDPOINT_URL"),
        ("s3://bucket/a/../b", "s3://BUCKET/PREFIX"),
        ("s3:///store", "s3://BUCKET/PREFIX"),
        ("gs://key:hunter2@bucket/store", "GOOGLE_"),
        ("gs://bucket/store?region=hunter2", "region"),
        ("az://bucket/store?sig=hunter2", "AZURE_STORAGE_"),
        ("az://container/store", "AZURE_STORAGE_ACCOUNT_NAME"),
        ("ftp://bucket/store", "gs://BUCKET/PREFIX"),
        ("https://user:hunter2@host/store", "https://"),
    ],
)
def test_an_address_that_is_none_is_refused_without_repeating_secrets(s3: S3, url: str, what: str) -> None:
    assert what in failing(url)


def test_a_bucket_that_does_not_exist_is_said_at_once(s3: S3) -> None:
    assert "no bucket 'not-there'" in failing("s3://not-there/store")


def test_a_bucket_of_google_or_azure_that_does_not_exist_is_said_at_once(server: ObjectServer) -> None:
    assert "no bucket 'not-there'" in failing(f"{server.scheme}://not-there/store")


def test_the_working_copy_of_a_bucket_stays_where_it_was(s3: S3) -> None:
    assert Bucket.at(s3.url).identity == [s3.endpoint, s3.bucket, "a/store"]


def test_abfs_is_another_name_of_az(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "teama")
    assert Bucket.at("abfs://container/store").identity == Bucket.at("az://container/store").identity


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("s3://bucket/store", "https://bucket.s3.eu-central-1.amazonaws.com/store/a%20b.html"),
        ("gs://bucket/store", "https://storage.googleapis.com/bucket/store/a%20b.html"),
        ("az://bucket/store", "https://teama.blob.core.windows.net/bucket/store/a%20b.html"),
    ],
)
def test_a_page_has_its_providers_address(url: str, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "teama")
    assert Bucket.at(url).page("a b.html") == page


def test_a_server_that_does_not_answer_is_given_up(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "TRY_S", 1.0)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        began = time.monotonic()
        said = failing(f"s3://{s3.bucket}/store?endpoint_override={address}&scheme=http")
    assert f"s3://{s3.bucket}" in said
    assert address in said
    assert time.monotonic() - began < 20


def test_a_server_that_falls_silent_is_given_up(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "TRY_S", 0.1)
    monkeypatch.setattr(object_storage, "STALL_S", 1.0)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        began = time.monotonic()
        failing(f"s3://{s3.bucket}/store?endpoint_override=http://127.0.0.1:{listening.getsockname()[1]}")
    assert time.monotonic() - began < 15


def test_a_request_that_fails_at_first_is_made_again(server: ObjectServer, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    server.failures = [503, 500, 429]
    Bucket.at(server.url).put(path, "file")
    assert server.log == ["PUT " + server.log[-1].partition(" ")[2]] * 4
    assert Bucket.at(server.url).objects("") == {"file": 1}


@pytest.mark.parametrize("status", [400, 401, 403, 405])
def test_a_store_that_may_not_be_read_is_not_asked_again(server: ObjectServer, status: int) -> None:
    server.failures = [status] * 9
    assert str(status) in failing(server.url)
    assert len(server.log) == 1


def test_a_download_that_breaks_off_is_resumed(server: ObjectServer, tmp_path: Path) -> None:
    body = os.urandom(1_000_000)
    server.write("a/store/file", body, "application/octet-stream")
    server.cut_off = 2
    assert Bucket.at(server.url).get("file", tmp_path / "file") is not None
    assert (tmp_path / "file").read_bytes() == body
    assert (server.cut_off, len(server.log)) == (0, 3)


WAITING = """
import os, signal, sys, threading, time
from leadline.tasks.store.object_storage import Bucket

bucket = Bucket.at(sys.argv[1])

def interrupt():  # again and again: on a busy machine the first may come while the call is still being made
    while True:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
bucket.version("file")
"""


def test_a_silent_server_does_not_hold_up_an_interrupt(s3: S3) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"s3://{s3.bucket}/store?endpoint_override=http://127.0.0.1:{listening.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", WAITING, url], check=False, timeout=30, capture_output=True, text=True
        )
    assert "KeyboardInterrupt" in done.stderr
