"""``leadline ui`` as a process: its address, its token, its end; and what a browser makes of it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import click
import httpx
import pytest
import yaml

from leadline import evaluate
from leadline.cli.main import run
from leadline.flows.command.session import Session
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.sample_labels import SampleLabels, SampleLabelsConfig
from leadline.plugins.ui.command import ui
from leadline.tasks.store.store import Store
from tests.support.judges.berths import passing, write_berths
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.browser import browse
from tests.support.stores.runs import make_run
from tests.support.stores.s3 import S3, environment

DEADLINE_S = 60.0
WIDE = """[...document.querySelectorAll('main *')]
  .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll'))
  .map(one => one.outerHTML.slice(0, 90)).slice(0, 3).join(' ')"""


@contextmanager
def running(
    store: Path | str, *options: str, folder: Path | None = None, **variables: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the command, in a folder if one is named; yields the address that it prints, and the process."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")} | variables
    process = subprocess.Popen(
        [sys.executable, "-m", "leadline.cli.main", "ui", "--store", str(store), *options],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def get(url: str, cookies: Mapping[str, str] | None = None) -> httpx.Response:
    """Ask as soon as the server answers."""
    end = time.monotonic() + DEADLINE_S
    while True:
        with suppress(httpx.TransportError):
            return httpx.get(url, cookies=dict(cookies or {}), trust_env=False, timeout=30)
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = Store.open(tmp_path / "store")
    results = make_run(made, "20260101-a").results
    results.mkdir()
    (results / "report.html").write_text("<h1>The report</h1>")
    return made.root


@pytest.mark.slow
def test_it_prints_an_address_that_opens_the_list_and_ends_by_ctrl_c(store: Path) -> None:
    with running(store) as (address, process):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", address)
        answer = get(address)
        assert answer.status_code == 303
        assert "20260101-a" in get(address.partition("?")[0], answer.cookies).text
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=DEADLINE_S)[1]
        assert process.returncode == 0, said
        assert "Traceback" not in said


@pytest.mark.slow
def test_a_given_token_is_not_printed_and_a_taken_port_is_said(store: Path) -> None:
    token = "a-secret-of-the-service"
    with running(store, LEADLINE_UI_TOKEN=token) as (address, process):
        assert address.endswith("?token=$LEADLINE_UI_TOKEN")
        bare = address.partition("?")[0]
        assert get(f"{bare}?token={token}").status_code == 303
        with running(store, "--port", bare.rpartition(":")[2].strip("/")) as (_, second):
            said = second.communicate(timeout=DEADLINE_S)[1]
            assert (second.returncode, "LL-SERVER-04" in said) == (3, True), said
        process.send_signal(signal.SIGINT)
        assert token not in process.communicate(timeout=DEADLINE_S)[1]


def test_a_short_token_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEADLINE_UI_TOKEN", "short")
    assert run(["ui", "--store", str(tmp_path / "store")]) == 2
    assert "at least 12 characters" in capsys.readouterr().err


def test_the_containers_tell_it_who_signs_in_by_variables_that_may_be_empty() -> None:
    compose = Path(__file__).parents[3] / "deployments" / "compose.yaml"
    service = yaml.safe_load(compose.read_text())["services"]["reports"]
    given, command = service["environment"], service["command"]
    assert command[:2] == ["leadline", "ui"]
    options = {str(one.envvar): one.name for one in ui.params if isinstance(one, click.Option) and one.envvar}
    assert {name: given[name] for name in options} == {name: f"${{{name}:-}}" for name in options}
    assert set(options.values()) == {"users", "oidc_issuer", "oidc_client", "oidc_role_claim", "oidc_name_claim"}

    def read(**variables: str) -> dict[str, object]:
        with patch.dict(os.environ, dict.fromkeys(options, "") | variables):
            found = ui.make_context("ui", command[2:]).params
        return {name: found[name] for name in options.values()}

    nobody = dict.fromkeys(options.values()) | {"oidc_name_claim": "email"}
    assert read() == nobody
    assert read(LEADLINE_UI_USERS="/data/people.toml", LEADLINE_OIDC_ISSUER="https://idp.example.org") == nobody | {
        "users": Path("/data/people.toml"), "oidc_issuer": "https://idp.example.org",
    }  # fmt: skip


@pytest.mark.slow
def test_half_sent_requests_keep_nobody_out(store: Path) -> None:
    with running(store, LEADLINE_UI_TOKEN="a-secret-of-the-service") as (address, _):
        port = int(address.partition("/?")[0].rpartition(":")[2])
        get(f"http://127.0.0.1:{port}/health")
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
        for connection in held:
            with suppress(OSError):
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-a: ")
        try:
            assert get(f"http://127.0.0.1:{port}/health").status_code == 200
        finally:
            for connection in held:
                connection.close()


TOKEN = "a-secret-of-the-service"


@dataclass
class Visitor:
    """Somebody with the token, at one of several servers of a store."""

    address: str

    def __post_init__(self) -> None:
        self.web = httpx.Client(base_url=self.address.partition("?")[0], trust_env=False, timeout=DEADLINE_S)
        cookie = get(f"{self.web.base_url}?token={TOKEN}").cookies
        self.web.cookies.update(cookie)

    def page(self, path: str) -> str:
        answer = self.web.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def send(self, path: str, **form: str) -> str:
        csrf = re.search(r'name="csrf" value="(\w+)"', self.page("/work"))
        assert csrf
        answer = self.web.post(path, data={"csrf": csrf[1], **form})
        assert answer.status_code in (200, 303), answer.text
        return answer.text


@pytest.mark.slow
@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_what_one_of_two_servers_writes_the_other_shows_and_both_follow_a_run_of_a_third_process(
    place: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket: S3 | None = request.getfixturevalue("s3") if place == "bucket" else None
    where = bucket.url if bucket else str(tmp_path / "store")
    around = environment(bucket.endpoint, tmp_path / "cache") if bucket else {}
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    (project := tmp_path / "project").mkdir()
    first = evaluate(write_berths(tmp_path / "rows.jsonl", 6), evaluators=["bleu"], store=where).run
    with ExitStack() as servers:
        one, two = (
            Visitor(servers.enter_context(running(
                where, folder=project, LEADLINE_UI_TOKEN=TOKEN, PYTHONPATH=str(Path.cwd()),
                **around | {"LEADLINE_CACHE": str(tmp_path / name)},
            ))[0])
            for name in ("one", "two")
        )  # fmt: skip
        drawing = {"run": first, "metric": "bleu.bleu_1", "rows": 4, "store": where}
        SampleLabels()(SampleLabelsConfig.model_validate(drawing))
        for visitor, person, value in ((one, "anna", "1"), (two, "ben", "0"), (one, "anna", "1"), (two, "ben", "0")):
            visitor.send("/labels/name", name=person)
            queue = visitor.page("/labels/labels/queue?metric=bleu.bleu_1")
            row = re.search(r'name="row" value="(\w{32})"', queue)
            assert row
            visitor.send("/labels/labels/label", metric="bleu.bleu_1", row=row[1], value=value)
        progress = [re.findall(r'value="(\d)" aria-label="Labelled"', who.page("/labels")) for who in (one, two)]
        assert progress == [["2"], ["2"]], "both labelled the same two rows"
        one.send("/suites", run=first, case="c0001", suite="suite.jsonl")
        assert '<option value="suite.jsonl">' in two.page(f"/runs/{first}/case?case=c0001")
        for visitor in (one, two):
            assert visitor.page("/audit").count("<bdi>labelled</bdi>") == 4
        with serving(JudgeEndpoint(passing(0.5), latency=4.0)) as judge, ThreadPoolExecutor(1) as third:
            known = set(Store.open(where).runs())
            config = {
                "dataset": str(tmp_path / "rows.jsonl"), "evaluators": ("databricks.correctness",), "store": where,
                "judges": {"model": "openai/judge", "api_base": judge.url}, "dispatch": "inline",
            }  # fmt: skip
            work = third.submit(Evaluate(), EvaluateConfig.model_validate(config))
            while not judge.log:
                assert not work.done(), work.result()
                time.sleep(0.1)
            [run] = [run for run in Store.open(where).runs() if run not in known]
            assert ["running" in visitor.page(f"/runs/{run.id}") for visitor in (one, two)] == [True, True]
            assert work.result(DEADLINE_S).run == run.id
            for visitor in (one, two):
                assert "Correctness" in visitor.page(f"/runs/{run.id}")


@pytest.mark.browser
@pytest.mark.parametrize("width", [1300, 420])
def test_a_browser_shows_list_run_and_report_without_a_complaint(tmp_path: Path, width: int) -> None:
    """A real report, whose script runs although its page is in an origin of its own."""
    sample = Path(__file__).parents[3] / "examples" / "harbour.json"
    result = evaluate(sample, evaluators=["bleu", "pii_leakage"], store=str(tmp_path / "store"))
    with running(tmp_path / "store") as (address, _), browse() as page:
        get(address)
        page.resize(width, 900)
        page.send("Page.navigate", url=address)
        page.wait(
            "document.readyState === 'complete' && document.querySelector('.runs .name')"
        )  # with its style sheets
        assert page.js("location.search") == ""
        assert "Fails" in page.text(".runs")
        assert page.js("document.documentElement.scrollWidth") <= width
        page.press(".runs .name")
        page.wait("document.readyState === 'complete' && document.querySelector('.files')")
        assert page.js("document.documentElement.scrollWidth") <= width
        (run,) = (store_run.id for store_run in Store.open(tmp_path / "store").runs())
        base = address.partition("/?")[0]
        for path in (
            f"/cases?run={run}", f"/cases?run={run}&metric=bleu.bleu_1&outcome=fails",
            f"/runs/{run}/case?case=tide-springs",
            f"/compare?run={run}:aldermouth-rag-v1&run={run}:gullwing-mini", "/work", "/trends", "/costs", "/labels",
            "/trends/datasets",
        ):  # fmt: skip
            page.send("Page.navigate", url=f"{base}{path}")
            page.wait(f"document.readyState === 'complete' && location.pathname === '{path.partition('?')[0]}'")
            assert page.js("document.documentElement.scrollWidth") <= width, (path, page.js(WIDE))
            assert page.js("document.querySelectorAll('[data-theme-button]:not([hidden])').length") == 1, (
                "the script ran"
            )
        page.send("Page.navigate", url=f"{base}/runs/{run}")
        page.wait("document.readyState === 'complete' && document.querySelector('.files')")
        page.press(".files a")
        page.wait("document.body && document.body.dataset.ready === 'true'")
        assert page.js("window.origin") == "null"
        assert result.run in page.text("header")
        page.press("#theme")
        page.wait("document.documentElement.dataset.theme")
        assert page.complaints == []
        assert {url.split("/")[2] for url in page.requests if url.startswith("http")} == {address.split("/")[2]}


def test_the_container_passes_on_what_the_command_reads_and_an_empty_variable_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """People of a container sign in at a provider by lines of ``.env`` alone."""
    folder = Path(__file__).parents[3] / "deployments"
    passed = yaml.safe_load((folder / "compose.yaml").read_text())["services"]["reports"]["environment"]
    read = {str(option.envvar) for option in ui.params if option.envvar}
    assert len(read) > 4
    for variable in (*read, *(str(option.default) for option in ui.params if str(option.name).endswith("secret_env"))):
        assert passed[variable] == f"${{{variable}:-}}"
        assert f"\n{variable}=\n" in (folder / "env.example").read_text()
        monkeypatch.setenv(variable, "")
    given = ui.make_context("ui", [], obj=Session()).params
    assert (given["users"], given["oidc_issuer"], given["oidc_name_claim"]) == (None, None, "email")
