"""From options to the flow's parameters."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from leadline.cli.evaluate import make_config
from leadline.cli.main import run
from leadline.evaluators.ground import UsageError
from leadline.evaluators.settings import Settings
from leadline.flows.collect import CollectConfig
from leadline.flows.command.options import form_options, parse_params
from leadline.flows.command.session import Session, session_options
from leadline.flows.compare import CompareConfig
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.generate import GenerateConfig
from leadline.flows.model_version import ModelVersionConfig
from leadline.flows.perturb import PerturbConfig
from leadline.flows.shared.form import FormModel, settings_in
from leadline.flows.shared.option_group import OptionGroup
from leadline.flows.shared.settings import FailOn, Judges, Models


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
    for command in (["evaluate", "data.json"], ["data", "generate", "docs", "--judge", "m"]):
        assert run([*command, "--device", device]) == 2
        said = capsys.readouterr().err
        assert f"{device!r} is not a device; there are auto, cpu, cuda, cuda:N" in said


def test_every_option_arrives() -> None:
    config = config_of(
        "d.json", "-e", "bleu", "-e", "rouge,text_matching", "--suite", "rules", "--param", "bleu.min_test_cases=3",
        "--model", "a,b", "--model", "c", "--format", "ragas", "--embedder", "offline", "--language", "de",
        "--set", "models.splitter=rules", "--device", "cpu", "--set", "models.precision=float16", "--allow-download",
        "--set", "models.allow_pickle=true",
        "--fail-on", "medium",
        "--set", "min_coverage=0.5", "--processes", "3", "--name", "N", "-o", "out", "--store", "S",
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


@pytest.fixture
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "leadline.toml"


def test_leadline_toml_gives_defaults_and_the_command_line_wins(settings_file: Path) -> None:
    settings_file.write_text(
        '[evaluate]\nsuite = "rules"\nevaluators = ["bleu"]\nfail_on = "high"\nparams.bleu = {a = 1, b = 2}\n'
        "[evaluate.judges]\nmax_cost = 2\ntrials = 3\n[evaluate.models]\nallow_download = true\n"
    )
    in_file = EvaluateConfig(
        dataset="d.json",
        suite="rules",
        evaluators=("bleu",),
        fail_on=FailOn.HIGH,
        params={"bleu": {"a": 1, "b": 2}},
        judges=Judges(max_cost=2, trials=3),
        models=Models(allow_download=True),
    )
    assert config_of("d.json") == in_file
    given = ("-e", "rouge", "--fail-on", "never", "--param", "bleu.a=5", "--trials", "1", "--no-allow-download")
    assert config_of("d.json", *given) == in_file.model_copy(
        update={
            "evaluators": ("rouge",),
            "fail_on": FailOn.NEVER,
            "params": {"bleu": {"a": 5, "b": 2}},
            "judges": Judges(max_cost=2),
            "models": Models(),
        }
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[evaluate]\nfail_onn = "high"',
            "leadline.toml, [evaluate] fail_onn: there is no such field; did you mean fail_on?",
        ),
        ("[evaluate.judges]\ntrial = 2", "[evaluate] judges.trial: there is no such field; did you mean trials?"),
        ("[evaluate]\nmin_coverage = 2", "[evaluate] min_coverage: 2 is not allowed; it must be at most 1."),
        ("[evaluate]\njudges = 2", "[evaluate] judges: 2 is not a mapping"),
        ("evaluate = 3", "leadline.toml: evaluate is a table."),
        ("[evaluate", "leadline.toml cannot be read"),
    ],
)
def test_what_leadline_toml_has_wrong_is_refused_with_its_place(
    settings_file: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings_file.write_text(text)
    for option in ([], ["--plan"]):
        assert run(["evaluate", "d.json", *option]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "form", [EvaluateConfig, CollectConfig, ModelVersionConfig, CompareConfig, GenerateConfig, PerturbConfig]
)
def test_the_order_of_a_form_is_that_of_its_fields(form: type[FormModel]) -> None:
    properties = form.model_json_schema()["properties"]
    assert {name: field["position"] for name, field in properties.items()} == {
        name: position for position, name in enumerate(form.model_fields)
    }
    assert all(len(field.description or "") > 8 for field in form.model_fields.values())


def test_every_setting_of_models_is_one_that_evaluators_see() -> None:
    assert set(Models.model_fields) <= {field.name for field in fields(Settings)}


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
    ]
)  # fmt: skip
def test_parameters_are_read(texts: list[str], params: dict[str, Any]) -> None:
    assert parse_params(texts) == params


@pytest.mark.parametrize(
    "texts", [["bleu"], ["bleu.a"], ["=3"], ["bleau.a=3"], ["bleu.=3"], ["a=3"], [".=3"], ["bleu.a=1", "bleu.a.b=2"]]
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


def test_the_help_lists_options_under_headings_and_says_where_the_rare_settings_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["evaluate", "--help", "--all"]) == 0
    text = capsys.readouterr().out
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == [f"{group}:" for group in OptionGroup]
    last = " ".join(text[text.index("Few runs need") :].split())
    assert "models.precision" in last
    assert "leadline.toml" in last
    assert "--precision" not in text


def test_every_setting_is_an_option_or_given_by_its_name() -> None:
    for setting in settings_in(EvaluateConfig):
        assert (
            setting.option.rare
            or setting.group is not OptionGroup.OTHER
            or not setting.flags
            or setting.path == "store"
        )


def test_an_option_wins_over_set_and_set_over_the_file(settings_file: Path) -> None:
    settings_file.write_text("[evaluate]\nmin_coverage = 0.1\n[evaluate.judges]\ntrials = 2\nmax_calls = 7\n")
    config = config_of("d.json", "--set", "judges.trials=3", "--set", "min_coverage=0.2", "--trials", "4")
    assert config.min_coverage == 0.2
    assert config.judges == Judges(trials=4, max_calls=7)
