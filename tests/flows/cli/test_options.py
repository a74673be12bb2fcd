"""From options to the flow's parameters."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from leadline.evaluators.core.errors import UsageError
from leadline.flows.cli.evaluate import make_config
from leadline.flows.cli.main import run
from leadline.flows.cli.options import form_options, parse_params
from leadline.flows.cli.session import Session, session_options
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.shared.settings import FailOn, Models


def config_of(*arguments: str) -> EvaluateConfig:
    made: list[EvaluateConfig] = []

    @click.command()
    @form_options(EvaluateConfig)
    @session_options
    @click.pass_obj
    def command(session: Session, /, **options: Any) -> None:
        made.append(make_config(session, options))

    outcome = CliRunner().invoke(command, list(arguments), obj=Session(), catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return made[0]


def test_a_dataset_alone_gives_the_flows_own_defaults() -> None:
    assert config_of("data.json") == EvaluateConfig(dataset="data.json")


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:0", "cuda:12", "mps"])
def test_devices_are_spelt_as_torch_spells_them(device: str) -> None:
    assert config_of("data.json", "--device", device).models.device == device


@pytest.mark.parametrize(
    "device", ["tpu", "cpu:1", "cuda:", "cuda:x", "cuda:-1", "CUDA", "mps:0", "", "cpu\n", "cuda:\u0663"]
)
def test_other_spellings_of_a_device_are_refused_before_anything_runs(
    device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["evaluate", "data.json"], ["generate", "docs", "--judge", "m"]):
        assert run([*command, "--device", device]) == 2
        said = capsys.readouterr().err
        assert f"{device!r} is no device; there are auto, cpu, cuda, cuda:N" in said


def test_every_option_arrives() -> None:
    config = config_of(
        "d.json", "-e", "bleu", "-e", "rouge,text_matching", "--suite", "rules", "--param", "bleu.min_test_cases=3",
        "--model", "a,b", "--model", "c", "--format", "ragas", "--embedder", "offline", "--language", "de",
        "--splitter", "rules", "--device", "cpu", "--precision", "float16", "--allow-download", "--allow-pickle",
        "--fail-on", "medium",
        "--min-coverage", "0.5", "--processes", "3", "--name", "N", "-o", "out", "--store", "S",
    )  # fmt: skip
    assert config == EvaluateConfig(
        dataset="d.json",
        evaluators=("bleu", "rouge", "text_matching"),
        suite="rules",
        params={"bleu": {"min_test_cases": 3}},
        model_keys=("a,b", "c"),
        format="ragas",
        models=Models(
            embedder="offline",
            language="de",
            splitter="rules",
            device="cpu",
            precision="float16",
            allow_download=True,
            allow_pickle=True,
        ),
        fail_on=FailOn.MEDIUM,
        min_coverage=0.5,
        processes=3,
        name="N",
        output="out",
        store="S",
    )


def test_a_value_that_the_flow_refuses_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="language"):
        config_of("d.json", "--language", "x")


@pytest.mark.parametrize(
    ("texts", "params"),
    [
        (["bleu.min_test_cases=3"], {"bleu": {"min_test_cases": 3}}),
        (["bleu.a=0.5", "bleu.b=true", "bleu.c=null"], {"bleu": {"a": 0.5, "b": True, "c": None}}),
        (["bleu.a=plain text"], {"bleu": {"a": "plain text"}}),
        (["bleu.a="], {"bleu": {"a": ""}}),
        (["bleu.a=x=y"], {"bleu": {"a": "x=y"}}),
        (['bleu.a="3"'], {"bleu": {"a": "3"}}),
        (['bleu.a=["x", 1]'], {"bleu": {"a": ["x", 1]}}),
        (["bleu.a=NaN"], {"bleu": {"a": "NaN"}}),
        (["bleu.a=" + "[" * 100_000], {"bleu": {"a": "[" * 100_000}}),
        (["bleu.metric_threshold.bleu_1=0.3", "bleu.metric_threshold.bleu_2=0.2"],
         {"bleu": {"metric_threshold": {"bleu_1": 0.3, "bleu_2": 0.2}}}),
        (["bleu.metric_threshold.a.b=1"], {"bleu": {"metric_threshold": {"a.b": 1}}}),
        (["valor.rouge.use_stemmer=true"], {"valor.rouge": {"use_stemmer": True}}),
        (["bleu.a=1", "bleu.a=2"], {"bleu": {"a": 2}}),
    ],
)  # fmt: skip
def test_parameters_are_read(texts: list[str], params: dict[str, Any]) -> None:
    assert parse_params(texts) == params


@pytest.mark.parametrize(
    "texts",
    [["bleu"], ["bleu.a"], ["=3"], ["bleau.a=3"], ["bleu.=3"], ["a=3"], [".=3"], ["bleu.a=1", "bleu.a.b=2"]],
)
def test_parameters_that_make_no_sense_are_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_params(texts)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_any_json_value_survives(value: Any) -> None:
    assert parse_params([f"bleu.a={json.dumps(value)}"]) == {"bleu": {"a": value}}


def test_parameters_of_evaluators_under_names_of_their_own_are_kept_apart() -> None:
    assert parse_params(["byop#tone.min_test_cases=1", "byop#length.min_test_cases=2", "byop.min_test_cases=3"]) == {
        "byop#tone": {"min_test_cases": 1},
        "byop#length": {"min_test_cases": 2},
        "byop": {"min_test_cases": 3},
    }
    for text in ("byop#.x=1", "no_such#tone.x=1", "byop#tone=1"):
        with pytest.raises(UsageError):
            parse_params([text])
