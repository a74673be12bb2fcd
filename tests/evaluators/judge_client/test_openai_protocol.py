"""The direct wire: what it sends, what it makes of replies, and what it finds out about a server by asking once."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from leadline.evaluators.judge_client import http_client, openai_protocol
from leadline.evaluators.judge_client.calls import Reply
from leadline.evaluators.judge_client.event_loop import run
from leadline.evaluators.judge_client.openai_protocol import OpenAITransport
from leadline.evaluators.judge_client.providers import openai_name, remote_transport
from leadline.evaluators.judge_client.transport import AttemptError, Refused, Throttled, Transient, Unusable
from leadline.evaluators.settings import JudgeConfig
from tests.support.judges.judge_endpoint import GIBBERISH, Fault, JudgeEndpoint, broken, serving, throttled
from tests.support.judges.raw_endpoint import RawEndpoint, answering, http

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}]


class Verdict(BaseModel):
    verdict: str


SCHEMA = Verdict.model_json_schema()


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_protocol, "_servers", {})
    for name in (*http_client._PROXIES, "LEADLINE_JUDGE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def said(content: Any = "yes", **choice: Any) -> bytes:
    return orjson.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop", **choice}]})


def send(
    endpoint: RawEndpoint, schema: dict[str, Any] | None = None, *, model: str = "judge", **config: Any
) -> Awaitable[Reply]:
    judge = JudgeConfig(**({"model": f"openai/{model}", "api_base": endpoint.url} | config))
    return OpenAITransport(model).send(judge, MESSAGES, schema, 64)


async def read(reply: bytes) -> Reply:
    """Return what is made of all that a server says."""
    async with answering(lambda head, body: reply) as endpoint:
        return await send(endpoint)


async def test_a_request_is_that_of_the_protocol_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_JUDGE_API_KEY", "my-key")
    async with answering(lambda head, body: http(said("It is.", finish_reason="length"))) as endpoint:
        reply = await send(endpoint, seed=7, top_p=0.5)
    assert json.loads(endpoint.bodies[0]) == {
        "model": "judge", "messages": MESSAGES, "max_tokens": 64, "stream": False,
        "temperature": 0.0, "top_p": 0.5, "seed": 7,
    }  # fmt: skip
    head = endpoint.heads[0].lower()
    assert head.startswith("post /v1/chat/completions http/1.1")
    assert "authorization: bearer my-key" in head
    assert "cookie" not in head
    assert (reply.text, reply.finish_reason, reply.input_tokens) == ("It is.", "length", None)


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({"model": "small-2026-11-01", "system_fingerprint": "fp_a1"}, ("small-2026-11-01", "fp_a1")),
        ({"model": ["small"], "system_fingerprint": None}, ("", "")),
        ({"model": "a\x1b[2Jb"}, ("a␛[2Jb", "")),
    ],
)
async def test_what_the_provider_tells_of_the_model_that_answered_is_kept(told: dict[str, Any], kept: object) -> None:
    answer = orjson.dumps({**orjson.loads(said()), **told})
    reply = await read(http(answer))
    assert (reply.served_model, reply.fingerprint) == kept


async def test_connections_are_kept_and_used_again() -> None:
    ports = set()

    async with answering(lambda head, body: http(said())) as endpoint:
        for _ in range(5):
            await send(endpoint)
        ports.update(connection for connection in http_client._session().connector._conns)  # type: ignore[union-attr]
    assert len(ports) == 1


@pytest.mark.parametrize("content", [["yes"], 5, None, {"verdict": "yes"}, True, [{"type": "image"}]])
async def test_content_that_is_no_text_is_a_reply_that_cannot_be_read(content: Any) -> None:
    reply = await read(http(said(content)))
    assert (reply.text, reply.finish_reason) == ("", "no_text")


async def test_an_empty_text_is_one_and_a_reply_that_was_cut_off_says_so_first() -> None:
    assert (await read(http(said("")))).finish_reason == "stop"
    assert (await read(http(said(None, finish_reason="length")))).finish_reason == "length"


async def test_content_in_parts_is_their_text() -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "y"}, {"type": "text", "text": "es"}]
    reply = await read(http(said(parts), status=201))
    assert reply.text == "yes"


async def test_thoughts_that_a_server_leaves_in_an_answer_are_no_part_of_it() -> None:
    reply = await read(http(said("<think>Is it {no}?\n</think>yes <think> no </think>")))
    assert reply.text == "yes <think> no </think>"


@pytest.mark.parametrize(
    "body", [said("yes \ufffd").replace("\ufffd".encode(), rb"\ud83d"), said(logprobs=0).replace(b":0", b":NaN")]
)
async def test_json_that_only_a_lenient_parser_takes_is_read(body: bytes) -> None:
    reply = await read(http(body))
    assert reply.text.startswith("yes")


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("MAX_TOKENS", "length"),
        ("refusal", "content_filter"),
        ("eos", "eos"),
        ("", "stop"),
        (None, "stop"),
        (7, "stop"),
    ],
)
async def test_a_reply_that_was_cut_off_or_withheld_is_known_by_any_server_s_word_for_it(
    reason: Any, meaning: str
) -> None:
    reply = await read(http(said(finish_reason=reason)))
    assert reply.finish_reason == meaning


@pytest.mark.parametrize(
    ("reply", "meaning"),
    [
        (http(b"<html>it works</html>"), "no answer by OpenAI's protocol: <html>"),
        (http(b"[]"), "no answer by OpenAI's protocol"),
        (http(b'{"choices": []}'), "no message"),
        (http(b'{"choices": 5}'), "no message"),
        (http(b'{"choices": [{"message": null}]}'), "no message"),
        (http(b'{"error": {"message": "no capacity", "code": "x"}}'), "no capacity"),
        (http(b"", 500), "HTTP 500"),
    ],
)
async def test_a_reply_that_is_none_may_come_right_by_another_attempt(reply: bytes, meaning: str) -> None:
    async with answering(lambda head, body: reply) as endpoint:
        with pytest.raises(Transient, match=meaning):
            await send(endpoint)


async def test_an_error_in_a_reply_of_status_200_counts_as_its_code() -> None:
    async with answering(lambda head, body: http(b'{"error": {"message": "slow down", "code": 429}}')) as endpoint:
        with pytest.raises(Throttled, match="slow down"):
            await send(endpoint)


async def test_a_compressed_reply_with_a_long_header_is_read() -> None:
    long = "yes " * 50_000
    headers = {"content_encoding": "gzip", "content_security_policy": "x" * 20_000}
    reply = await read(http(gzip.compress(said(long)), **headers))
    assert reply.text == long


async def test_a_redirect_takes_the_key_nowhere() -> None:
    async with answering(lambda head, body: http(b"", 307, location="http://elsewhere/v1")) as endpoint:
        with pytest.raises(Unusable, match="redirects to http://elsewhere"):
            await send(endpoint)
    assert len(endpoint.heads) == 1


async def test_silence_ends_at_the_deadline() -> None:
    async with answering(lambda head, body: None) as endpoint:
        with pytest.raises(Transient, match="no reply within") as silence:
            await send(endpoint, timeout_s=0.2)
        assert silence.value.overloaded


async def test_a_proxy_of_the_environment_is_used_and_those_it_excepts_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(lambda head, body: http(said())) as endpoint:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{endpoint.port}")
        await send(endpoint, api_base="http://judge.example/v1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        await send(endpoint)
    assert [head.split()[1] for head in endpoint.heads] == [
        "http://judge.example/v1/chat/completions", "/v1/chat/completions",
    ]  # fmt: skip


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
async def test_a_proxy_that_speaks_no_http_is_refused_in_words(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    async with answering(lambda head, body: http(said())) as endpoint:
        monkeypatch.setenv(variable, f"socks5://user:proxy-password@127.0.0.1:{endpoint.port}")
        with pytest.raises(Refused, match="'socks5', and only http and https") as refused:
            await send(endpoint, api_base="https://judge.example/v1")
        assert refused.value.every
        assert "proxy-password" not in refused.value.message
    assert endpoint.heads == []


async def test_what_a_model_says_when_it_refuses_is_its_reply() -> None:
    refusing = orjson.dumps({"choices": [{"message": {"content": None, "refusal": "I can't."}}]})
    reply = await read(http(refusing))
    assert reply.text == "I can't."


@pytest.mark.parametrize("scheme", ["", "http://"])
async def test_a_proxy_s_password_is_not_shown(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    async with answering(lambda head, body: http(b"", 407)) as endpoint:
        monkeypatch.setenv("HTTPS_PROXY", f"{scheme}proxy-password@127.0.0.1:{endpoint.port}")
        with pytest.raises(AttemptError, match="407") as refused:
            await send(endpoint, api_base="https://judge.example/v1")
        assert "proxy-password" not in refused.value.message
    assert endpoint.heads[0].startswith("CONNECT judge.example:443")


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    tls = self_signed(tmp_path)

    async with answering(lambda head, body: http(said()), tls=tls) as endpoint:
        with pytest.raises(Transient, match="CERTIFICATE_VERIFY_FAILED"):
            await send(endpoint, api_base=endpoint.url.replace("http:", "https:"))
    assert endpoint.heads == []


@pytest.mark.parametrize("key", ["a\nb", "schlüssel"])
async def test_a_key_that_no_header_can_hold_stops_all_calls_and_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("LEADLINE_JUDGE_API_KEY", key)

    async with answering(lambda head, body: http(said())) as endpoint:
        with pytest.raises(Refused) as refused:
            await send(endpoint)
        assert refused.value.every
        assert key not in refused.value.message


async def test_a_key_that_a_server_repeats_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_JUDGE_API_KEY", "a-secret-key\n")

    async with answering(lambda head, body: http(b'{"error": "No such key: a-secret-key"}', 401)) as endpoint:
        with pytest.raises(Refused, match=r"No such key: \[key\]"):
            await send(endpoint)
    assert "Bearer a-secret-key\r\n" in endpoint.heads[0]


async def test_openai_itself_is_asked_with_its_own_key_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(lambda head, body: http(said())) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        monkeypatch.setenv("OPENAI_ORGANIZATION", "acme")
        monkeypatch.setenv("OPENAI_API_KEY", "openai-key")
        await send(endpoint, api_base=None)
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(Refused, match="OPENAI_API_KEY") as refused:
            await send(endpoint, api_base=None)
        assert refused.value.every
        monkeypatch.setenv("OPENAI_API_KEY", "openai-key")
        await send(endpoint)
    assert "Bearer openai-key" in endpoint.heads[0]
    assert "OpenAI-Organization: acme" in endpoint.heads[0]
    assert "Bearer none" in endpoint.heads[1], "a server of the user's own gets no provider's key"


def by_schema(body: bytes) -> bool:
    return "response_format" in json.loads(body)


async def test_what_a_server_refuses_is_asked_for_by_the_calls_of_the_first_round_trip_and_no_others() -> None:
    def answer(head: bytes, body: bytes) -> bytes:
        return http(b'{"error": {"message": "no such field"}}', 400) if by_schema(body) else http(said())

    async with answering(answer) as endpoint:
        await asyncio.gather(*(send(endpoint, SCHEMA) for _ in range(20)))
        refused = sum(map(by_schema, endpoint.bodies))
        await asyncio.gather(*(send(endpoint, SCHEMA) for _ in range(20)))
        assert sum(map(by_schema, endpoint.bodies)) == refused <= 20
        with pytest.raises(Refused):
            await send(endpoint, SCHEMA, structured="json_schema")
    assert len(endpoint.bodies) == refused + 40 + 1


async def test_first_calls_to_a_server_do_not_wait_for_one_another() -> None:
    async with answering(lambda head, body: None) as endpoint:
        calls = [asyncio.ensure_future(send(endpoint, SCHEMA)) for _ in range(8)]
        async with asyncio.timeout(10):  # while none of them is answered
            while len(endpoint.bodies) < len(calls):
                await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_a_server_that_takes_schemas_gets_them() -> None:
    async with answering(lambda head, body: http(said())) as endpoint:
        await asyncio.gather(*(send(endpoint, SCHEMA) for _ in range(5)))
        await send(endpoint)
        await send(endpoint, SCHEMA, structured="off")
        await send(endpoint, SCHEMA, structured="json_object")
    formats = [json.loads(body).get("response_format") for body in endpoint.bodies]
    assert [form and form["type"] for form in formats] == ["json_schema"] * 5 + [None, None, "json_object"]
    assert formats[0]["json_schema"]["strict"]


async def test_a_failure_that_says_nothing_of_schemas_decides_nothing() -> None:
    failures = [
        http(b'{"error": "oops"}', 500),
        http(b'{"error": "too long"}', 400),
        http(b'{"error": "too long"}', 400),
    ]

    def answer(head: bytes, body: bytes) -> bytes:
        return failures.pop(0) if failures else http(said())

    async with answering(answer) as endpoint:
        with pytest.raises(Transient):
            await send(endpoint, SCHEMA)
        with pytest.raises(Refused, match="too long"):
            await send(endpoint, SCHEMA)
        await send(endpoint, SCHEMA)
        await send(endpoint, SCHEMA)
    assert [by_schema(body) for body in endpoint.bodies] == [True, True, False, True, True]


async def test_a_server_that_breaks_at_every_schema_and_does_not_say_so_is_asked_without() -> None:
    async with answering(lambda head, body: http(b"oops", 500) if by_schema(body) else http(said())) as endpoint:
        for _ in range(2):
            with pytest.raises(Transient):
                await send(endpoint, SCHEMA)
        assert (await send(endpoint, SCHEMA)).text == "yes"
        await send(endpoint, SCHEMA)
    assert [by_schema(body) for body in endpoint.bodies] == [True, True, True, False, False]


@pytest.mark.parametrize("hasty", ["failures", "retries"])
async def test_first_calls_that_fail_for_other_reasons_cost_a_server_that_takes_schemas_nothing(hasty: str) -> None:
    failing = iter([http(b"oops", 500)] * 4)

    def answer(head: bytes, body: bytes) -> bytes | list[bytes]:
        slow = [http(said())[:5], http(said())[5:]]
        if not by_schema(body):
            return http(said()) if hasty == "retries" else slow
        return next(failing, slow)

    async with answering(answer) as endpoint:
        await asyncio.gather(*(send(endpoint, SCHEMA) for _ in range(12)), return_exceptions=True)
        begun = len(endpoint.bodies)
        await asyncio.gather(*(send(endpoint, SCHEMA) for _ in range(4)))
    assert begun > 12  # some were asked again without a schema
    assert all(by_schema(body) for body in endpoint.bodies[begun:])


async def test_one_schema_that_a_server_cannot_take_costs_the_others_nothing() -> None:
    class Odd(BaseModel):
        odd: str

    def answer(head: bytes, body: bytes) -> bytes:
        return http(b'{"error": "Invalid grammar"}', 500) if b'"Odd"' in body else http(said())

    async with answering(answer) as endpoint:
        for schema in (SCHEMA, Odd.model_json_schema(), SCHEMA, Odd.model_json_schema()):
            await send(endpoint, schema)
    assert [by_schema(body) for body in endpoint.bodies] == [True, True, False, True, False]


async def test_parameters_that_a_model_does_not_take_are_left_out_from_then_on() -> None:
    def answer(head: bytes, body: bytes) -> bytes:
        sent = json.loads(body)
        if "max_tokens" in sent:
            said_so = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
        elif "temperature" in sent:
            said_so = "Unsupported value: 'temperature' does not support 0 with this model."
        else:
            return http(said())
        return http(orjson.dumps({"error": {"message": said_so}}), 400)

    async with answering(answer) as endpoint:
        await asyncio.gather(*(send(endpoint) for _ in range(5)))  # none of them fails for what another found out
        await send(endpoint)
    assert len(endpoint.bodies) <= 5 * 3 + 1
    sent = json.loads(endpoint.bodies[-1])
    assert sent["max_completion_tokens"] == 64
    assert not {"max_tokens", "temperature"} & set(sent)


@pytest.mark.parametrize(
    ("model", "api_base", "name"),
    [
        ("openai/gpt-4o-mini", None, "gpt-4o-mini"),
        ("gpt-4o-mini", None, "gpt-4o-mini"),
        ("openai/org/mine", "http://localhost:8000/v1", "org/mine"),
        ("hosted_vllm/mine", "http://localhost:8000/v1", "mine"),
        ("hosted_vllm/mine", None, None),
        ("mine", "http://localhost:8000/v1", "mine"),
        ("mine", None, None),
        ("ollama_chat/llama3.1", "http://localhost:11434/v1", "llama3.1"),
        ("ollama_chat/llama3.1", "http://localhost:11434", None),
        ("anthropic/claude-sonnet-4-5", None, None),
        ("anthropic/claude-sonnet-4-5", "https://gateway.example", None),
        ("claude-sonnet-4-5", "https://gateway.example", None),
        ("azure/gpt-4o-mini", "https://acme.openai.azure.com", None),
        ("gpt-3.5-turbo-instruct", None, None),
        ("openai/o1-pro", None, None),
        ("openai/responses/mine", "http://localhost:8000/v1", None),
    ],
)
def test_which_models_are_asked_directly(model: str, api_base: str | None, name: str | None) -> None:
    assert openai_name(JudgeConfig(model=model, api_base=api_base)) == name


def test_a_judge_of_the_protocol_needs_no_litellm() -> None:
    program = (
        "import sys\n"
        "for name in ('litellm', 'openai', 'prefect', 'torch'): sys.modules[name] = None\n"
        "import asyncio\n"
        "from leadline.evaluators.settings import Settings\n"
        "from leadline.evaluators.judge_client.client import client_for\n"
        "from leadline.evaluators.settings import JudgeConfig\n"
        "from leadline.evaluators.judge_client.event_loop import run\n"
        "from leadline.evaluators.judge_client.providers import check_provider\n"
        "from tests.support.judges.scripted_judge import question\n"
        "config = JudgeConfig(model='openai/judge', api_base=sys.argv[1])\n"
        "check_provider(config)\n"
        "client = client_for(config, settings=Settings(judges=(config,)), ledger=None, budget=None)\n"
        "print(run(client.ask(question())).text)\n"
    )
    with serving(JudgeEndpoint()) as endpoint:
        done = subprocess.run([sys.executable, "-c", program, endpoint.url], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("yes\n", "")


@pytest.mark.slow
def test_failures_mean_what_they_mean_by_litellm() -> None:
    from leadline.evaluators.judge_client.litellm_transport import LiteLLMTransport

    faults = [
        *(broken(status) for status in (400, 401, 403, 404, 408, 500, 502, 503)),
        throttled(), throttled(2.5), GIBBERISH, Fault(body='{"choices": []}'), Fault(finish_reason="length"),
        Fault(text=""), Fault(finish_reason="content_filter", text=""),
    ]  # fmt: skip

    async def outcomes(transport: Any, url: str) -> list[Any]:
        config, found = JudgeConfig(model="openai/judge", api_base=url), []
        for _ in faults:
            try:
                reply = await transport.send(config, MESSAGES, None, 8)
                found.append((reply.text, reply.finish_reason))
            except AttemptError as error:
                kept = ("retry_after", "overloaded", "every")
                found.append((type(error), *(getattr(error, name, None) for name in kept)))
        return found

    with serving(JudgeEndpoint(fault=lambda question: faults[question.number % len(faults)])) as endpoint:
        config = JudgeConfig(model="openai/judge", api_base=endpoint.url)
        ours = run(outcomes(remote_transport(config), endpoint.url))
        theirs = run(outcomes(LiteLLMTransport(), endpoint.url))
    assert ours == theirs


def self_signed(folder: Path) -> Any:
    """Return a server's side of TLS with a certificate that it signed itself."""
    import ssl
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    file = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
