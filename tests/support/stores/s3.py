"""An S3 server of moto's on loopback, with real HTTP, and stores in its buckets."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from leadline.tasks.store.store import Store

SECRET: Final = "planted-s3-secret-0123456789"


Host = Callable[[str], Store]


@dataclass(frozen=True)
class S3:
    """A bucket of its own for a test.

    Attributes:
        endpoint: The server.
        bucket: The bucket.
    """

    endpoint: str
    bucket: str = field(default_factory=lambda: f"leadline-{secrets.token_hex(6)}")

    @property
    def url(self) -> str:
        """A store in it."""
        return f"s3://{self.bucket}/a/store"

    def client(self) -> Any:
        """Return Amazon's own client."""
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1")

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of all objects that are no folder marks, below the store."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"a/store/{prefix}")
        names = [item["Key"].removeprefix("a/store/") for page in pages for item in page.get("Contents", ())]
        return [name for name in names if not name.endswith("/")]


def environment(endpoint: str, cache: Path) -> dict[str, str]:
    """Return the variables that a host needs: where the server is, its credentials, where the working copy goes."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_EC2_METADATA_DISABLED": "true",
        "LEADLINE_CACHE": str(cache),
    }


@contextmanager
def serving_s3() -> Iterator[str]:
    """Run a server until the block ends; yields its address."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """One server for all tests of this process."""
    with serving_s3() as endpoint:
        yield endpoint


@pytest.fixture
def s3(s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3:
    """An empty bucket, and this process as a host that uses it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    use(monkeypatch, environment(s3_server, tmp_path / "cache"))
    made = S3(s3_server)
    made.client().create_bucket(Bucket=made.bucket)
    return made


@pytest.fixture
def host(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Become another host, with a working copy of its own, and open the store there."""

    def become(name: str) -> Store:
        monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / name))
        return Store.open(s3.url)

    return become


def use(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    """Set variables of the environment."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
