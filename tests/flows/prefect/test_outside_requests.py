"""Requests from outside name only what the deployment's own files name, or what is allowed: nothing else is asked."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import UsageError
from leadline.flows.check_judges import CheckJudges, CheckJudgesConfig
from leadline.flows.check_version import CheckVersion
from leadline.flows.collect import Collect, CollectConfig
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.generate import Generate, GenerateConfig
from leadline.flows.model_version import ModelVersionConfig
from leadline.flows.perturb import Perturb, PerturbConfig
from leadline.flows.prefect.outside_requests import (
    Allowed,
    allowed,
    check_request,
    check_store,
    is_public,
)
from leadline.flows.prefect.prefect_steps import is_from_outside

INTERNAL = (
    "169.254.169.254", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "10.0.0.1", "192.168.1.1",
    "172.16.3.4", "100.64.0.1", "0.0.0.0", "[::1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
    "[2002:7f00:1::]", "[fe80::1]", "[fd00:ec2::254]", "localhost",
)  # fmt: skip
OWN = """
[judges.own]
model = "openai/own"
api_base = "http://10.1.2.3:8000/v1"
api_key_env = "OWN_KEY"

[evaluators]
files = ["listed.py"]
"""
TARGETS = """
[[model]]
key = "ours"
url = "http://10.1.2.3:8080/{{ version }}"
headers = {Authorization = "Bearer ${OURS_TOKEN}"}

[[model]]
key = "function"
function = "apps:answer"

[[model]]
key = "moving"
url = "http://{{ version }}.example.com/answer"
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The worker's folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("LEADLINE_JUDGE", "LEADLINE_JUDGE_API_BASE", "LEADLINE_TARGETS", "LEADLINE_STORE"):
        monkeypatch.delenv(name, raising=False)
    Path("leadline.toml").write_text(OWN, encoding="utf-8")
    Path("targets.toml").write_text(TARGETS, encoding="utf-8")
    return folder


def allow(**lists: Any) -> None:
    lines = "".join(f"{name} = {value!r}\n".replace("True", "true") for name, value in lists.items())
    Path("leadline.toml").write_text(f"{OWN}\n[service]\n{lines}", encoding="utf-8")


def evaluation(**settings: Any) -> EvaluateConfig:
    return EvaluateConfig(dataset="d.jsonl", **settings)


def version(model: str = "ours", **settings: Any) -> ModelVersionConfig:
    return ModelVersionConfig(**{"model": model, "version": "1.0", "suite": "s.jsonl"} | settings)


@pytest.mark.parametrize("host", INTERNAL)
def test_internal_hosts_are_refused_in_every_form(host: str) -> None:
    for rules in (Allowed(), Allowed(hosts=("*",))):
        with pytest.raises(UsageError, match=r"names the host .* which requests from outside may not"):
            rules.check_address("The judge", f"http://{host}:80/v1")
    Allowed(hosts=(host.strip("[]"),)).check_address("The judge", f"http://{host}/v1")


def test_names_that_resolve_to_internal_addresses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"rebound.example.com": ["93.184.215.14", "169.254.169.254"], "good.example.com": ["93.184.215.14"]}

    def resolve(host: str, *_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in found[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    rules = Allowed(hosts=("*.example.com",))
    rules.check_address("The target", "https://good.example.com/v1")
    with pytest.raises(UsageError, match=r"it is 169\.254\.169\.254, an internal address"):
        rules.check_address("The target", "https://rebound.example.com/v1")
    with pytest.raises(UsageError, match=r"names the host evil\.com"):
        rules.check_address("The target", "https://evil.com#.example.com")


def test_public_addresses_are_public() -> None:
    assert [is_public(address) for address in ("8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "224.0.0.1")] == [
        True, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"judges": {"model": "openai/m", "api_base": "http://169.254.169.254"}}, "host 169.254.169.254"),
        ({"judges": {"model": "own", "api_base": "http://127.0.0.1:1"}}, "host 127.0.0.1"),
        ({"judges": {"model": "openai/gpt-9"}}, "openai/gpt-9"),
        ({"judges": {"model": "ollama_chat/llama3"}}, "ollama_chat/llama3"),
        ({"judges": {"model": "local:/etc/model"}}, "local:/etc/model"),
        ({"judges": {"config": "/etc/judges.toml"}}, "the file of judges /etc/judges.toml"),
        ({"judges": {"canaries": "../c.jsonl"}}, "the file of canaries ../c.jsonl"),
        ({"evaluator_files": ["mine.py"]}, "the evaluators file mine.py"),
        ({"output": "/srv/www"}, "the folder for results /srv/www"),
        ({"evaluators_dir": ".leadline/judges"}, "the folder of evaluators .leadline/judges"),
        ({"params": {"fact_check": {"search_tool": "os.path:join"}}}, "os.path:join"),
        ({"params": {"fact_check": {"search_tool": "mcp+stdio:sh -c id"}}}, "mcp+stdio:sh -c id"),
        ({"params": {"fact_check": {"search_tool": "mcp+http://10.9.9.9/mcp"}}}, "host 10.9.9.9"),
        ({"dispatch": "dask://10.9.9.9:8786"}, "host 10.9.9.9"),
        ({"models": {"allow_pickle": True}}, "pickled weights"),
        ({"models": {"allow_download": True, "embedder": "evil/huge"}}, "evil/huge"),
        (
            {"models": {"allow_download": True}, "params": {"groundedness": {"embedding_model": "evil/huge@main"}}},
            "evil/huge@main",
        ),
    ],
)
def test_an_evaluation_from_outside_names_nothing_unlisted(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_request(Evaluate(), evaluation(**settings))
    assert said in str(refused.value)
    assert "write in [service] of leadline.toml where the worker runs: allow" in refused.value.hint


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (version("m", target={"model": "http://169.254.169.254/latest"}), "host 169.254.169.254"),
        (version("m", target={"model": "python:os:system"}), "os:system"),
        (version("m", target={"model": "openai/m", "api_base": "http://127.1:9"}), "host 127.1"),
        (version("m", target={"file": "/tmp/t.toml"}), "the targets file /tmp/t.toml"),
        (version("moving", version="169.254.169.254:80@x"), "names"),
        (version("moving", version="internal"), "host internal.example.com"),
    ],
)
def test_a_version_from_outside_names_nothing_unlisted(request_: ModelVersionConfig, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_request(CheckVersion(), request_)


def test_keys_of_others_are_not_sent_to_allowed_hosts() -> None:
    target = {"model": "openai/m", "api_base": "http://10.1.2.3:9", "api_key_env": "AWS_SECRET_ACCESS_KEY"}
    allow(allowed_hosts=["10.1.2.3:9"])
    with pytest.raises(UsageError, match=r"names AWS_SECRET_ACCESS_KEY.*allowed_key_variables"):
        check_request(CheckVersion(), version("m", target=target))
    allow(allowed_hosts=["10.1.2.3:9"], allowed_key_variables=["AWS_*"])
    check_request(CheckVersion(), version("m", target=target))


def test_what_the_deployments_own_files_name_needs_no_list() -> None:
    check_request(Evaluate(), evaluation())
    check_request(Evaluate(), evaluation(judges={"model": "own"}))
    check_request(Evaluate(), evaluation(models={"allow_download": True, "embedder": "BAAI/bge-small-en"}))
    check_request(Evaluate(), evaluation(models={"embedder": "some/weights-that-are-here"}))
    check_request(Evaluate(), evaluation(judges={"model": "openai/other", "api_base": "http://10.1.2.3:8000/v1"}))
    for model in ("ours", "function"):
        check_request(CheckVersion(), version(model))
    check_request(CheckVersion(), version(target={"file": "targets.toml"}))
    check_request(CheckVersion(), version("m", answers="answers.jsonl"))


def test_what_is_listed_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_ALLOWED_MODELS", "openai/*, local:*")
    allow(allowed_callables=["tools:*", "apps:answer"], allowed_files=["mine.py"], allow_pickle=True)
    check_request(Evaluate(), evaluation(judges={"model": "openai/gpt-9"}, evaluator_files=["mine.py"]))
    check_request(
        Evaluate(), evaluation(params={"fact_check": {"search_tool": "tools:find"}}, models={"allow_pickle": True})
    )
    check_request(CheckVersion(), version("m", target={"model": "python:apps:answer"}))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"models": ("openai/other",)}, "The target names openai/other"),
        ({"models": ("python:os:system",)}, "The target names os:system"),
        ({"models": ("http://127.0.0.1:9/answer",)}, r"The target names the host 127\.0\.0\.1"),
        ({"models": ("openai/x",), "api_base": "http://10.9.9.9/v1"}, r"The target names the host 10\.9\.9\.9"),
        ({"targets": ("/etc/targets.toml",)}, "names the targets file /etc/targets.toml"),
        ({"targets": ("targets.toml",), "output": "/etc/answers.jsonl"}, "folder for results /etc/answers.jsonl"),
        ({"targets": ("targets.toml",), "store": "/elsewhere"}, "names the store /elsewhere"),
    ],
)
def test_a_collection_from_outside_names_nothing_unlisted(
    settings: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_STORE", "store")
    with pytest.raises(UsageError, match=said):
        check_request(Collect(), CollectConfig(suite="s.jsonl", **settings))


def test_a_collection_may_ask_the_targets_of_the_worker_s_folder_and_those_that_are_allowed() -> None:
    check_request(
        Collect(), CollectConfig(suite="s.jsonl", targets=("targets.toml",), models=("ours", "function"), version="1")
    )
    allow(allowed_models=["openai/*"])
    check_request(Collect(), CollectConfig(suite="s.jsonl", models=("openai/other",)))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"judges": {"model": "openai/other"}}, "The judge names openai/other"),
        ({"output": "/etc/made.jsonl"}, "folder for results /etc/made.jsonl"),
        ({"store": "/elsewhere"}, "names the store /elsewhere"),
    ],
)
def test_what_makes_a_dataset_from_outside_names_nothing_unlisted(
    settings: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_STORE", "store")
    with pytest.raises(UsageError, match=said):
        check_request(Generate(), GenerateConfig(documents=("docs",), **settings))
    with pytest.raises(UsageError, match=said):
        check_request(Perturb(), PerturbConfig(suite="s.jsonl", recipes=("typo",), **settings))


def test_weights_for_a_generated_dataset_are_those_that_are_allowed() -> None:
    models = {"embedder": "somebody/else", "allow_download": True}
    with pytest.raises(UsageError, match="names somebody/else"):
        check_request(Generate(), GenerateConfig(documents=("docs",), models=models))
    with pytest.raises(UsageError, match="pickled weights"):
        check_request(Generate(), GenerateConfig(documents=("docs",), models={"allow_pickle": True}))
    allow(allowed_models=["somebody/*"])
    check_request(Generate(), GenerateConfig(documents=("docs",), models=models))
    check_request(Perturb(), PerturbConfig(suite="s.jsonl", recipes=("typo",)))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"evaluator_files": ("mine.py",)}, "the evaluators file mine.py"),
        ({"config": "/etc/judges.toml"}, "the file of judges /etc/judges.toml"),
        ({"judges": ("own", "openai/other")}, "The judge names openai/other"),
    ],
)
def test_a_check_of_judges_from_outside_names_nothing_unlisted(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_request(CheckJudges(), CheckJudgesConfig(**settings))
    check_request(CheckJudges(), CheckJudgesConfig(judges=("own",)))


@pytest.mark.parametrize("place", ["s3://own/team", "s3://listed"])
def test_files_in_buckets_are_below_stores_that_are_known(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """The address of a bucket may name a server, which requests signed with the worker's keys would go to."""
    monkeypatch.setenv("LEADLINE_STORE", "s3://own/team")
    monkeypatch.setenv("LEADLINE_ALLOWED_STORES", "s3://listed/")
    check_request(Evaluate(), EvaluateConfig(dataset=f"{place}/answers.csv"))
    for other in (f"{place}-2/a.csv", "s3://own/other.csv", "gs://listed/a.csv", f"{place}/../x.csv",
                  f"{place}/a.csv?endpoint_override=http://169.254.169.254"):  # fmt: skip
        with pytest.raises(UsageError, match="The request names"):
            check_request(Evaluate(), EvaluateConfig(dataset=other))


def test_stores_are_the_workers_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    check_store(allowed(), None)
    check_store(allowed(), str(tmp_path / "project" / ".." / "store"))
    with pytest.raises(UsageError, match=r"names the store s3://other/place"):
        check_store(allowed(), "s3://other/place")


@pytest.mark.parametrize(
    ("line", "said"), [("allowed_hosts = 'x'", "a list of texts"), ("hosts = []", "no such field")]
)
def test_a_broken_list_is_said(line: str, said: str) -> None:
    Path("leadline.toml").write_text(f"[service]\n{line}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        allowed()


def test_what_a_person_runs_is_not_from_outside() -> None:
    assert not is_from_outside()


def test_a_file_of_judges_from_outside_loads_no_code_that_the_worker_s_own_file_does_not_load() -> None:
    Path("listed.py").write_text("", encoding="utf-8")
    check_request(Evaluate(), evaluation(judges={"config": "leadline.toml"}))
    Path("other").mkdir()
    Path("other/judges.toml").write_text(OWN, encoding="utf-8")
    for config in ("other/judges.toml", "./other/../other/judges.toml"):
        with pytest.raises(UsageError, match=r"the evaluators file other/.*listed\.py"):
            check_request(Evaluate(), evaluation(judges={"config": config}))
        with pytest.raises(UsageError, match="the evaluators file"):
            check_request(CheckVersion(), version(judges={"config": config}))
    allow(allowed_files=["other"])
    check_request(Evaluate(), evaluation(judges={"config": "other/judges.toml"}))
    Path("other/judges.toml").write_text('[judges.own]\nmodel = "openai/own"\n', encoding="utf-8")
    allow()
    check_request(Evaluate(), evaluation(judges={"config": "other/judges.toml"}))
