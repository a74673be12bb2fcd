"""Webhooks of model registries: whom they come from, what they tell, and what the sender is answered."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Semaphore
from typing import Any
from uuid import UUID

import pytest
from httpx import Response
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from leadline.cli.main import run
from leadline.evaluators.ground import UsageError
from leadline.flows.model_version import ModelVersionConfig
from leadline.flows.prefect.prefect_events import EventNotSent, Sent
from leadline.plugins.webhooks import model_events
from leadline.plugins.webhooks.model_events import DeliveryQueue, Send, refusals, set_aside
from leadline.plugins.webhooks.webhook_payloads import (
    Ignored,
    ModelChoice,
    ModelVersion,
    NotUnderstood,
    of_huggingface,
    read_choice,
)
from leadline.plugins.webhooks.webhook_server import MAX_BODY, Webhook
from tests.support.processes.waiting import eventually

SECRET = "a shared secret"
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
EVENT = UUID("5fcc0143-566f-5aa6-b00a-747e786fe854")

# The shapes that MLflow's and Hugging Face's documentation of their webhooks shows.
MLFLOW: dict[str, Any] = {
    "entity": "model_version",
    "action": "created",
    "timestamp": "2026-11-21T04:00:00+00:00",
    "data": {
        "name": "harbour-rag",
        "version": "7",
        "source": "models:/123",
        "run_id": "abcd1234abcd5678",
        "tags": {"example_key": "example_value"},
        "description": "An example model version",
    },
}
COMMIT = "575db8b7a51b6f85eb06eee540738584589f131c"
HUGGINGFACE: dict[str, Any] = {
    "event": {"action": "update", "scope": "repo.content"},
    "repo": {
        "type": "model",
        "name": "some-user/some-repo",
        "id": "6366c000a2abcdf2fd69a080",
        "private": False,
        "url": {
            "web": "https://huggingface.co/some-user/some-repo",
            "api": "https://huggingface.co/api/models/some-user/some-repo",
        },
        "headSha": "c379e821c9c95d613899e8c4343e4bfee2b0c600",
        "owner": {"id": "61d2000c3c2083e1c08af22d"},
    },
    "updatedRefs": [
        {"ref": "refs/pr/5", "oldSha": None, "newSha": "227c78346870a85e5de4fff8a585db68df975406"},
        {"ref": "refs/heads/main", "oldSha": "ce9a4674fa833a68d5a73ec355f0ea95eedd60b7", "newSha": COMMIT},
        {"ref": "refs/tags/v2", "oldSha": None, "newSha": "ffff8b7a51b6f85eb06eee540738584589f1ffff"},
    ],
    "webhook": {"id": "6390e855e30d9209411de93b", "version": 3},
}


def signed(body: bytes, secret: str = SECRET, stamp: str = "") -> dict[str, str]:
    """Sign as MLflow does (mlflow/webhooks/delivery.py)."""
    at = stamp or str(int(time.time()))
    digest = hmac.new(secret.encode(), f"d-1.{at}.{body.decode()}".encode(), hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"X-MLflow-Delivery-Id": "d-1", "X-MLflow-Timestamp": at, "X-MLflow-Signature": signature}


class Sending:
    """Stands for Prefect's server."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[ModelVersionConfig] = []
        self.error = error
        self.asked = 0

    def __call__(self, config: ModelVersionConfig) -> Sent:
        self.asked += 1
        if self.error:
            raise self.error
        self.sent.append(config)
        return Sent(EVENT, len(self.sent) == 1, "2026-11-21T04:00:00+00:00", None)


CHOICE = ModelChoice(
    defaults={"suite": "suites/harbour.json"},
    models={"harbour-rag": {"model": "harbour"}, "some-user/*": None, "unfit": {"suite": 7}},
)


SHAPES = {"mlflow": MLFLOW, "huggingface": HUGGINGFACE}


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with TestClient(Webhook(SECRET, CHOICE, tmp_path_factory.mktemp("queue"), send=Sending()).app()) as web:
        yield web


OPENED: list[TestClient] = []


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A queue of this test's own, which nobody works on afterwards."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield
    while OPENED:
        OPENED.pop().__exit__()


def client(sending: Send, choice: ModelChoice = CHOICE) -> TestClient:
    OPENED.append(TestClient(Webhook(SECRET, choice, send=sending).app()))
    return OPENED[-1].__enter__()


def deliver(web: TestClient, **change: Any) -> Response:
    """Let MLflow tell of a version."""
    body = json.dumps(MLFLOW | change).encode()
    return web.post("/mlflow", content=body, headers=signed(body))


def version(number: str, name: str = "harbour-rag") -> dict[str, str]:
    return {"name": name, "version": number}


def test_a_delivery_of_mlflow_becomes_the_event() -> None:
    sending = Sending()
    reply = deliver(client(sending))
    assert (reply.status_code, reply.json()) == (202, {"stored": "harbour 7"})
    [config] = eventually(lambda: sending.sent, 20, "it is sent")
    assert (config.model, config.version, config.suite) == ("harbour", "7", "suites/harbour.json")


def test_a_delivery_of_hugging_face_becomes_the_event() -> None:
    sending = Sending()
    reply = client(sending).post("/huggingface", json=HUGGINGFACE, headers={"X-Webhook-Secret": SECRET})
    assert reply.status_code == 202
    [config] = eventually(lambda: sending.sent, 20, "it is sent")
    assert (config.model, config.version) == ("some-user/some-repo", COMMIT)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed(b"another body"),
        signed(json.dumps(MLFLOW).encode(), secret="another secret"),
        signed(json.dumps(MLFLOW).encode(), stamp=str(int(time.time()) - 3600)),
        signed(json.dumps(MLFLOW).encode(), stamp=str(int(time.time()) + 1_000_000)),
        signed(json.dumps(MLFLOW).encode(), stamp="now"),
        signed(json.dumps(MLFLOW).encode(), stamp="9" * 5000),
        signed(json.dumps(MLFLOW).encode()) | {"X-MLflow-Delivery-Id": "d-2"},
        signed(json.dumps(MLFLOW).encode()) | {"X-MLflow-Signature": "v1,é".encode("latin-1").decode("latin-1")},
        {"X-Webhook-Secret": SECRET},
    ],
)
def test_what_mlflow_did_not_sign_is_refused(headers: dict[str, str]) -> None:
    sending = Sending()
    coded = {name: value.encode("latin-1") for name, value in headers.items()}
    reply = client(sending).post("/mlflow", content=json.dumps(MLFLOW).encode(), headers=coded)  # type: ignore[arg-type]
    assert reply.status_code == 401
    assert sending.sent == []
    assert SECRET not in reply.text


@pytest.mark.parametrize("headers", [{}, {"X-Webhook-Secret": SECRET[:-1]}, {"X-Webhook-Secret": ""}])
def test_what_hugging_face_did_not_send_is_refused(headers: dict[str, str]) -> None:
    sending = Sending()
    assert client(sending).post("/huggingface", json=HUGGINGFACE, headers=headers).status_code == 401
    assert sending.sent == []


def bent(shape: Any) -> st.SearchStrategy[Any]:
    """Return documents like one of a registry's, with anything in the place of some of its values."""
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.just("\ud800\x00"),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    )
    if isinstance(shape, dict):
        kept = st.fixed_dictionaries({}, optional={key: bent(value) for key, value in shape.items()})
        return kept | anything
    return st.just(shape) | anything


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    given_=st.sampled_from(["mlflow", "huggingface"]).flatmap(lambda kind: st.tuples(st.just(kind), bent(SHAPES[kind])))
)
def test_whatever_is_delivered_is_answered_and_never_by_an_error_of_the_servers_own(
    answering: TestClient, given_: tuple[str, Any]
) -> None:
    registry, document = given_
    body = json.dumps(document).encode()
    headers = signed(body) if registry == "mlflow" else {"X-Webhook-Secret": SECRET}
    reply = answering.post(f"/{registry}", content=body, headers=headers)
    assert reply.status_code in (200, 202, 400, 422)
    reply.json()


@pytest.mark.parametrize(
    "body",
    [
        b'{"entity": "\\ud800", "action": "created"}',
        b"",
        b"no json",
        b"[]",
        b"1",
        b"[" * 30_000,
        b'{"entity": "model_version"',
    ],
)
def test_what_is_no_json_object_is_refused_with_a_reason(body: bytes) -> None:
    reply = client(Sending()).post("/mlflow", content=body, headers=signed(body))
    assert reply.status_code == 400
    assert "JSON" in reply.json()["error"]


@pytest.mark.parametrize(
    "change",
    [{"data": None}, {"data": {}}, {"data": {"name": "n"}}, {"data": {"name": "n", "version": 7}}, {"data": ["n"]}],
)
def test_a_delivery_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    assert deliver(client(Sending()), **change).status_code == 400


def test_a_body_without_end_is_cut_off() -> None:
    reply = client(Sending()).post("/huggingface", content=b" " * (MAX_BODY + 1), headers={"X-Webhook-Secret": SECRET})
    assert reply.status_code == 413


@pytest.mark.parametrize(
    ("entity", "action"), [("registered_model", "created"), ("model_version_tag", "set"), ("prompt_version", "created")]
)
def test_other_events_of_mlflow_are_taken_and_ignored(entity: str, action: str) -> None:
    sending = Sending()
    reply = deliver(client(sending), entity=entity, action=action)
    assert reply.status_code == 200
    assert "no new model version" in reply.json()["ignored"]
    assert sending.sent == []


def test_a_model_that_nobody_asked_for_is_ignored() -> None:
    reply = deliver(client(Sending()), data=version("1", "example_model"))
    assert (reply.status_code, reply.json()) == (200, {"ignored": "nobody asked for this model"})


def test_an_event_that_does_not_arrive_is_stored_and_sent_by_the_next_process() -> None:
    reply = deliver(client(Sending(EventNotSent("Prefect's server does not answer."))))
    assert (reply.status_code, reply.json()) == (202, {"stored": "harbour 7"})
    sending = Sending()
    later = client(sending)
    eventually(lambda: sending.sent and later.get("/health").json() == {"ok": True, "queued": 0}, 20, "it is sent")
    assert [(config.model, config.version) for config in sending.sent] == [("harbour", "7")]


@pytest.mark.parametrize(
    "error", [EventNotSent("Prefect's server does not answer."), ValueError("no JSON, but a gateway's page")]
)
def test_what_could_not_be_sent_is_tried_again(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(model_events, "RETRY_S", 0.05)
    sending = Sending(error)
    web = client(sending)
    assert deliver(web).status_code == 202
    eventually(lambda: sending.asked, 20, "it was tried")
    sending.error = None
    eventually(lambda: web.get("/health").json()["queued"] == 0, 20, "it is sent")
    assert len(sending.sent) == 1


def test_a_burst_of_deliveries_is_taken_while_events_are_slow() -> None:
    entered, go = Semaphore(0), Event()

    def slowly(config: ModelVersionConfig) -> Sent:
        entered.release()
        go.wait(60)
        return Sent(EVENT, True, config.version, None)

    web = client(slowly)
    try:
        with ThreadPoolExecutor(40) as pool:
            began = [pool.submit(deliver, web, data=version(str(number))) for number in range(40)]
            assert entered.acquire(timeout=60)
            replies = [one.result(60) for one in began]
        assert {reply.status_code for reply in replies} == {202}
        assert web.get("/health").json()["queued"] == 40
    finally:
        go.set()
    eventually(lambda: web.get("/health").json()["queued"] == 0, 20, "all are sent")


def test_equal_deliveries_that_wait_are_one_and_too_many_others_are_asked_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_events, "MOST_WAITING", 2)
    web = client(Sending(EventNotSent("Prefect's server does not answer.")))

    def answer(number: str) -> int:
        reply = deliver(web, data=version(number))
        assert reply.headers.get("retry-after") == ("10" if reply.status_code == 503 else None)
        return int(reply.status_code)

    assert [answer(number) for number in ("1", "1", "2", "3", "2")] == [202, 202, 202, 503, 202]
    assert web.get("/health").json() == {"ok": True, "queued": 2}


def test_a_stored_delivery_that_cannot_be_read_is_set_aside(tmp_path: Path) -> None:
    folder = tmp_path / "queue"
    folder.mkdir()
    (folder / "cut-off.json").write_text('{"model": "m", "ver')
    (folder / "unfit.json").write_text('{"model": "m"}')
    queue = DeliveryQueue(folder, Sending())
    eventually(lambda: len(queue) == 0, 20, "both are set aside")
    queue.close()
    found = {one.about: one for one in refusals(folder, LONG_AGO)}
    assert {path.suffix for path in folder.iterdir()} == {".refused"}
    assert found.keys() == {"?", "m"}
    assert "version is missing" in found["m"].reason
    assert json.loads(found["?"].path.read_text())["payload"] == '{"model": "m", "ver'


def test_what_cannot_be_sent_for_days_is_set_aside_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_events, "RETRY_S", 0.05)
    monkeypatch.setattr(model_events, "GIVE_UP_S", 0.1)
    queue = DeliveryQueue(tmp_path, Sending(EventNotSent("50 events like this one have failed.")))
    queue.put(ModelVersionConfig(model="m", version="1", suite="s.json"))
    eventually(lambda: len(queue) == 0, 20, "it is set aside")
    queue.close()
    [one] = refusals(tmp_path, LONG_AGO)
    assert "50 events like this one have failed" in one.reason
    assert json.loads(one.path.read_text())["payload"] == {"model": "m", "version": "1", "suite": "s.json"}


def test_a_payload_that_does_not_fit_is_answered_with_the_fault_and_kept_for_events(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reply = deliver(client(Sending()), data=version("1", "unfit"))
    assert reply.status_code == 422
    assert "suite" in reply.json()["error"]
    assert reply.json()["error"].startswith("[LL-EVENT-02] ")
    monkeypatch.setattr("leadline.plugins.webhooks.events_command.lasting_api", nullcontext)
    monkeypatch.setattr("leadline.flows.prefect.prefect_events.recent", lambda *_, **__: [])
    assert run(["service", "events", "--failed"]) == 0
    shown = capsys.readouterr().out
    assert "unfit 1" in shown
    assert "not sent: The payload does not fit" in shown
    assert run(["service", "events", "--failed", "--hours", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_the_oldest_of_many_that_are_set_aside_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.plugins.webhooks.model_events.MOST_REFUSED", 3)
    for number in range(5):
        set_aside(tmp_path, {"model": "m", "version": str(number)}, "No.")
        [path] = [one.path for one in refusals(tmp_path, LONG_AGO) if one.about == f"m {number}"]
        os.utime(path, (number, number))
    assert [one.about for one in refusals(tmp_path, LONG_AGO)] == ["m 4", "m 3", "m 2"]


def test_only_post_is_taken_and_health_is_told() -> None:
    web = client(Sending())
    assert web.get("/mlflow").status_code == 405
    assert web.get("/health").json() == {"ok": True, "queued": 0}
    assert web.post("/other").status_code == 404


def test_the_branch_or_tag_that_counts_can_be_chosen() -> None:
    assert of_huggingface(HUGGINGFACE) == ModelVersion("some-user/some-repo", COMMIT)
    assert of_huggingface(HUGGINGFACE, ["refs/tags/*"]) == ModelVersion(
        "some-user/some-repo", "ffff8b7a51b6f85eb06eee540738584589f1ffff"
    )
    assert isinstance(of_huggingface(HUGGINGFACE, ["refs/heads/release"]), Ignored)


def test_a_deleted_branch_is_no_version() -> None:
    gone = [{"ref": "refs/heads/main", "oldSha": COMMIT, "newSha": None}]
    assert isinstance(of_huggingface(HUGGINGFACE | {"updatedRefs": gone}), Ignored)


@pytest.mark.parametrize(
    "change",
    [
        {"event": {"action": "create", "scope": "discussion.comment"}},
        {"repo": HUGGINGFACE["repo"] | {"type": "dataset"}},
        {"event": {"action": "update", "scope": "repo.config"}, "updatedRefs": None},
    ],
)
def test_other_events_of_hugging_face_are_no_version(change: dict[str, Any]) -> None:
    assert isinstance(of_huggingface(HUGGINGFACE | change), Ignored)


def test_a_new_repository_is_a_version() -> None:
    new = HUGGINGFACE | {"event": {"action": "create", "scope": "repo"}, "updatedRefs": None}
    assert of_huggingface(new) == ModelVersion("some-user/some-repo", HUGGINGFACE["repo"]["headSha"])


@pytest.mark.parametrize("refs", ["main", [1], [{"ref": 1}], [None]])
def test_refs_of_another_shape_are_refused(refs: object) -> None:
    with pytest.raises(NotUnderstood):
        of_huggingface(HUGGINGFACE | {"updatedRefs": refs})


def test_the_file_with_the_models_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("models:\n  harbour-rag: {suite: s.json}\n  'team/*':\n")
    choice = read_choice(file)
    assert choice.payload(ModelVersion("team/x", "1")) == {"model": "team/x", "version": "1"}
    assert choice.payload(ModelVersion("other", "1")) is None
    for text in ("models: 7", "model: {}", "[", "7"):
        file.write_text(text)
        with pytest.raises(UsageError):
            read_choice(file)
    with pytest.raises(UsageError):
        read_choice(tmp_path / "none.yaml")


def test_deliveries_are_counted_for_prometheus_by_registry_and_answer() -> None:
    web, body = client(Sending()), json.dumps(MLFLOW).encode()
    deliver(web)
    web.post("/mlflow", content=body, headers=signed(body, "another secret"))
    text = web.get("/metrics").text
    assert 'leadline_webhook_deliveries_total{registry="mlflow",status="202"} 1.0' in text
    assert 'leadline_webhook_deliveries_total{registry="mlflow",status="401"} 1.0' in text
    assert "leadline_webhook_queued 0.0" in text
    assert SECRET not in text
