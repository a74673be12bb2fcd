"""A secret is planted in every place where one is given, servers repeat it, and nothing that is left holds one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.support.judges.judge_endpoint import Fault, JudgeEndpoint, Question, serving
from tests.support.processes import fork_server
from tests.support.processes.ports import free_port
from tests.support.processes.rag_app import TARGET, RagApp
from tests.support.stores.every_text import holding

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

LEADLINE = [sys.executable, "-P", "-m", "leadline.cli.main"]
SEEN = "lantern-mole"
"""Stands in the answers, and so has to be found: what finds it would find a secret, too."""

CANARIES = {
    "judge": "canary-judge-6f1d2c83b7",
    "provider": "sk-canary-provider-91ab",
    "search": "canary-search-0c77e1a4",
    "target": "canary-target-55aa31f0",
    "prefect": "canary-prefect-7e20b9d1",
    "webhook": "canary-webhook-3b9f44c2",
    "notification": "https://hooks.example.com/T0/canary-hook-12",
    "address": "canary-address-90d1e2f3",
    "file": "canary-file-8f8f0a0b",
}


class World:
    """A project with planted secrets, and all that its commands said."""

    def __init__(self, folder: Path, judge: str, app: str, ledger: str | None) -> None:
        self.folder, self.project = folder, folder / "project"
        self.project.mkdir()
        self.said = folder / "said"
        self.said.mkdir()
        self.planted = dict(CANARIES)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "LEADLINE_"))}
        self.environment = kept | {
            fork_server.SWITCH: "0",  # command lines are looked at
            "PYTHONPATH": str(Path.cwd()),
            "PREFECT_HOME": str(folder / "prefect"),
            "XDG_STATE_HOME": str(folder / "state"),
            "LEADLINE_STORE": str(folder / "store"),
            "TMPDIR": str(folder),
            "TEAM_GATE": CANARIES["judge"],
            "APP_GATE": CANARIES["target"],
            "OPENAI_API_KEY": CANARIES["provider"],
            "LEADLINE_SEARCH_API_KEY": CANARIES["search"],
            "LEADLINE_WEBHOOK_SECRET": CANARIES["webhook"],
            "PREFECT_API_KEY": CANARIES["prefect"],
            "TEAM_NOTIFICATION_URL": CANARIES["notification"],
        }
        if ledger is not None:
            self.environment["LEADLINE_LEDGER"] = ledger
            self.planted["ledger"] = ledger.partition("://")[2].partition("@")[0].partition(":")[2]
        (self.project / "leadline.toml").write_text(
            f'[judges.own]\nmodel = "openai/own"\napi_base = "{judge}"\napi_key_env = "TEAM_GATE"\n', encoding="utf-8"
        )
        target = TARGET | {"url": f"{app}/answer", "headers": {"Authorization": "Bearer ${APP_GATE}"}}
        (self.project / "targets.yaml").write_text(json.dumps({"model": [target]}), encoding="utf-8")
        for name in ("one", "two"):
            lines = [
                {"case": f"c{number}", "question": f"{name} {number}?", "actual_answer": f"{SEEN} {name} {number}"}
                for number in range(6)
            ]
            (self.project / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,), where: Path | None = None) -> str:
        """Run a command while the command lines of all processes are watched; return what it said."""
        place = self.said / f"{len(list(self.said.iterdir())):02}.txt"
        with place.open("wb") as said:
            process = subprocess.Popen(
                [*LEADLINE, *arguments], stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=self.environment,
                cwd=where or self.project,
            )  # fmt: skip
            deadline = time.monotonic() + 240
            while process.poll() is None:
                self.watch(process.pid)
                assert time.monotonic() < deadline, place.read_text()
                time.sleep(0.05)
        text = place.read_text(encoding="utf-8", errors="replace")
        assert process.returncode in codes, text
        return text

    def watch(self, typed: int = 0) -> None:
        """Look into the command lines of all processes but the typed one, as ``ps`` shows them to everybody."""
        lines = set()
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if place.parent.name != str(typed):
                    lines.add(place.read_bytes())
        for name, canary in self.planted.items():
            assert not any(canary.encode() in line for line in lines), f"{name} in a command line"

    def found(self) -> dict[str, list[str]]:
        """Return the files that hold planted secrets, in the forms that they may have."""
        texts = {name: canary.encode() for name, canary in self.planted.items()}
        texts |= {f"{name} as base64": base64.b64encode(text) for name, text in texts.items()}
        return {name: files for name, files in holding(self.folder, texts).items() if files}


def echoing(question: Question) -> str:
    """Say yes, no, or what was sent as the key."""
    return f"I was sent {question.key}" if question.number % 2 else "no"


def refusing(question: Question) -> Fault | None:
    """Refuse the second dataset, and repeat the key in the refusal."""
    if "two" not in question.raw:
        return None
    return Fault(401, {}, json.dumps({"error": {"message": f"Incorrect API key provided: {question.key}."}}))


def failing(question: Question) -> Fault | None:
    """Fail every third question with a body that repeats the key in the middle of a long text."""
    return Fault(500, {}, f"{'x' * 180} {question.key} {'x' * 5_000}") if question.number % 3 == 2 else None


@contextmanager
def world(tmp_path: Path, ledger: str | None = None) -> Iterator[tuple[World, JudgeEndpoint, RagApp]]:
    judge, app = JudgeEndpoint(echoing, fault=refusing), RagApp(echoing, fault=failing)
    with serving(judge), serving(app):
        made = World(tmp_path, judge.url, app.url.removesuffix("/v1"), ledger)
        yield made, judge, app


@contextmanager
def on_a_server(made: World) -> Iterator[None]:
    """Keep a server for the commands of the block."""
    made.run("service", "server", "start", "--port", str(free_port()))
    try:
        yield
    finally:
        made.run("service", "server", "stop")


def everything(made: World) -> None:
    """Do what takes keys: evaluate, collect, compare, and what is refused since a key stands in the wrong place."""
    chosen = ["-e", "sexism,bleu", "--judge", "own", "--set", "results=sonar"]
    made.run("evaluate", "one.jsonl", *chosen, "-o", "results")
    made.run("evaluate", "two.jsonl", *chosen, "--debug", codes=(0, 1, 3))
    made.run("collect", "one.jsonl", "--targets", "targets.yaml", "-o", "answers.jsonl")
    made.run("compare", "latest~1", "latest", "--all-metrics", "-o", "compared", codes=(0, 1, 2))
    made.run("judges", "calls", "--json")
    base = f"http://user:{CANARIES['address']}@127.0.0.1:9/v1"
    made.run("evaluate", "one.jsonl", "-e", "sexism", "--judge", "own", "--judge-api-base", base, codes=(2,))
    made.run(
        "service",
        "check-version",
        "m",
        "1",
        "one.jsonl",
        "--set",
        f"target.api_base={base}",
        "--server",
        "none",
        codes=(2,),
    )
    other = made.project / "other"
    other.mkdir()
    key = f'[judges.own]\nmodel = "openai/own"\napi_key = "{CANARIES["file"]}"\n'
    (other / "leadline.toml").write_text(key, encoding="utf-8")
    made.run("evaluate", "../one.jsonl", "-e", "sexism", "--debug", codes=(2,), where=other)
    (other / "leadline.toml").unlink()  # the person's own file


def webhook(made: World) -> None:
    """Take signed and forged deliveries, which are sent to a server that makes runs of deployments."""
    place = made.said / "webhook.txt"
    (made.project / "webhook.yaml").write_text("models: {'*': {suite: one.jsonl}}\n", encoding="utf-8")
    with place.open("wb") as said:
        process = subprocess.Popen(
            [*LEADLINE, "service", "webhook", "serve", "--models", "webhook.yaml", "--port", str(free_port())],
            stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=made.environment, cwd=made.project,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not (listening := re.search(r"Listening on (http://[\d.:]+)/", place.read_text())):
            assert process.poll() is None, place.read_text()
            assert time.monotonic() < deadline, place.read_text()
            time.sleep(0.1)
        deliver(listening[1], CANARIES["webhook"], 202)
        deliver(listening[1], f"not {CANARIES['webhook']}", 401)
        headers = {"X-Webhook-Secret": f"{CANARIES['webhook']}?"}
        post(f"{listening[1]}/huggingface", headers, b"{}", 401)
        made.watch()
    finally:
        process.terminate()
        process.wait(60)


def deliver(url: str, secret: str, status: int) -> None:
    body = json.dumps({"entity": "model_version", "action": "created", "data": {"name": "m", "version": "1"}}).encode()
    stamp = str(int(time.time()))
    digest = hmac.new(secret.encode(), f"d-1.{stamp}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    post(
        f"{url}/mlflow",
        {"X-MLflow-Delivery-Id": "d-1", "X-MLflow-Timestamp": stamp, "X-MLflow-Signature": signature},
        body,
        status,
    )


def post(url: str, headers: dict[str, str], body: bytes, status: int) -> None:
    reply = None
    for _ in range(50):
        try:
            reply = httpx.post(url, content=body, headers=headers, trust_env=False, timeout=30)
            break
        except httpx.ConnectError:
            time.sleep(0.2)
    assert reply is not None
    assert reply.status_code == status, reply.text
    assert "canary" not in reply.text


def test_no_planted_secret_is_found_in_anything_that_is_left(tmp_path: Path) -> None:
    with world(tmp_path) as (made, judge, app):
        with on_a_server(made):
            everything(made)
            webhook(made)
        assert {line.question.key for line in judge.log} == {f"Bearer {CANARIES['judge']}"}
        assert {line.question.key for line in app.log} == {f"Bearer {CANARIES['target']}"}
        said = {"masked": b"I was sent Bearer [key]", "refused": b"Incorrect API key provided: Bearer [key]"}
        seen = holding(tmp_path, {"seen": SEEN.encode(), **said})
        kinds = {Path(file).suffix for file in seen["seen"]}
        assert kinds >= {".parquet", ".sqlite", ".html", ".json", ".csv", ".zip"}
        assert any(file.endswith("ledger.sqlite") for file in seen["masked"])
        assert "project/answers.jsonl" in seen["masked"]
        assert any(file.endswith("report.html") for file in seen["refused"])
        assert list((tmp_path / "prefect").glob("*.db"))
        assert made.found() == {}


@pytest.mark.postgres
def test_no_password_of_a_shared_ledger_is_found(tmp_path: Path, postgres_url: str) -> None:
    with world(tmp_path, postgres_url) as (made, _, _):
        chosen = ["-e", "sexism", "--judge", "own"]
        with on_a_server(made):
            made.run("evaluate", "one.jsonl", *chosen)
            made.environment["LEADLINE_LEDGER"] = f"{postgres_url}_gone"
            made.run("evaluate", "two.jsonl", *chosen, "--debug", codes=(1, 2, 3))
        assert made.found() == {}


def test_a_world_without_masks_would_be_noticed(tmp_path: Path) -> None:
    with world(tmp_path) as (made, _, _):
        (made.project / "copy.txt").write_text(f"said {CANARIES['judge']}", encoding="utf-8")
        assert made.found() == {"judge": ["project/copy.txt"]}
    shutil.rmtree(made.project)
