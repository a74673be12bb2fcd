"""What is typed: the first level, the groups, commands of other packages, and what is meant by another word."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import walk_packages

import click
import pytest

from leadline import cli as cli_package
from leadline.cli import command_tree
from leadline.cli.command_tree import GROUPS, commands, help_lines, own_commands, typed
from leadline.cli.main import cli, run
from leadline.evaluators.ground import packages
from leadline.flows.command.grouped_help import GroupedOption
from tests.support.docs.commands import all_commands

FIRST = "init evaluate show compare rescore ci ui collect doctor"
WITHIN = {
    "data": "generate perturb rgb",
    "labels": "export import list report sample",
    "judges": "accept budget calls certify check compare enrol improve reparse status train",
    "store": "backup export gc info migrate restore runs sql tag verify",
    "service": "check-version dask-worker deploy emit events mcp notify server telemetry versions webhook worker",
    "evaluators": "check list models policy show suites trust",
}
OF_PLUG_INS = set(
    "ci ui rgb backup gc info migrate restore verify dask-worker emit events mcp notify telemetry webhook".split()
)
HAS_PLUG_INS = packages._PLUGINS.is_dir()
"""A checkout may lack them."""


def of_core(names: str) -> list[str]:
    return [name for name in names.split() if name not in OF_PLUG_INS]


def expected(names: str) -> list[str]:
    return names.split() if HAS_PLUG_INS else of_core(names)


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    yield
    commands.cache_clear()


@pytest.fixture
def no_plug_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packages, "_PLUGINS", tmp_path / "plugins")
    commands.cache_clear()


def listed(*group: str) -> list[str]:
    command = all_commands()[group] if group else cli
    assert isinstance(command, click.Group)
    return command.list_commands(click.Context(command))


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 0
    return capsys.readouterr().out


def test_the_first_level_has_what_most_people_need_and_the_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed() == [*expected(FIRST), *GROUPS]
    lines = help_of(capsys, "--help").partition("Commands:")[2].splitlines()
    assert [line.split()[0] for line in lines if line[2:3].isalpha() and line[:2] == "  "][: len(listed())] == listed()
    assert not any(line.startswith("  store runs") for line in lines)


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_has_its_commands(group: str) -> None:
    assert listed(group) == expected(WITHIN[group])


@pytest.mark.usefixtures("no_plug_ins")
def test_a_checkout_without_plug_ins_has_the_commands_of_the_core(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed() == [*of_core(FIRST), *GROUPS]
    for group in GROUPS:
        assert listed(group) == of_core(WITHIN[group])
    assert "store runs" in help_of(capsys, "--help", "--all")
    assert run(["ui"]) == 2
    assert run(["store", "gc"]) == 2


def test_every_command_of_the_modules_is_in_the_tree() -> None:
    modules = [each.name for each in walk_packages(cli_package.__path__, f"{cli_package.__name__}.")]
    found = {
        each
        for module in modules
        for each in vars(importlib.import_module(module)).values()
        if isinstance(each, click.Command)
    }
    assert found - {cli} <= set(all_commands().values())


def test_what_the_help_says_is_the_first_sentence_of_the_docstring() -> None:
    for name, entry in commands().items():
        if name not in own_commands() and not packages.is_own(entry):
            continue
        lines = help_lines(entry)
        assert next(iter(lines)) == typed(name)
        for words, line in lines.items():
            said = " ".join((all_commands()[tuple(words.split())].help or "").split())
            assert said.startswith(line), words
            assert len(line) <= 70, words


@pytest.mark.parametrize("path", list(all_commands()), ids=" ".join)
def test_the_help_of_every_command_names_its_options(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(capsys, *path, "--help")
    assert f"Usage: leadline {' '.join(path)}" in shown
    assert "--store" in shown


@pytest.mark.parametrize("asked", [["--help", "--all"], ["--all", "--help"], ["--all"]])
def test_with_all_the_help_names_every_command(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(capsys, *asked)
    for path in all_commands():
        if path not in {(group,) for group in GROUPS}:
            assert f"\n  {' '.join(path)} " in shown, path


def test_with_all_no_command_is_imported() -> None:
    script = (
        "import sys\n"
        "from leadline.cli.main import run\n"
        "run(['--help', '--all'])\n"
        "ours = [name for name in sys.modules if name.startswith(('leadline.cli.', 'leadline.plugins'))]\n"
        "print(*ours, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) == {"leadline.cli.command_tree", "leadline.cli.main"}


def test_with_all_the_help_of_a_group_names_what_its_commands_have_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\n  server start " not in help_of(capsys, "service", "--help")
    assert "\n  server start " in help_of(capsys, "service", "--help", "--all")


@pytest.mark.parametrize("path", [path for path in all_commands() if len(path) == 2], ids=" ".join)
def test_a_command_typed_without_its_group_is_suggested_with_it(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    if path[1:] in all_commands():
        return  # is a command of the first level, too
    assert run([path[1]]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert f"leadline {' '.join(path)}" in said


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["evaluat"], "evaluate"),
        (["run"], "evaluate"),
        (["runs"], "store runs"),
        (["rns"], "store runs"),
        (["plan"], "evaluate --plan"),
        (["metrics"], "evaluators list or leadline service telemetry"),
        (["version"], "--version"),
        (["list"], "store runs or leadline evaluators list or leadline labels list"),
        (["pull"], "evaluators models pull"),
        (["store", "generate"], "data generate"),
        (["store", "rns"], "store runs"),
        (["store", "store"], "store"),
        (["labels", "lst"], "labels list"),
        (["evaluators", "byop"], "evaluators show byop"),
    ],
)
def test_a_word_that_is_no_command_leads_to_what_was_meant(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert f"There is no command {arguments[-1]!r}. Did you mean leadline {meant}?" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("words", [".evaluate", "store.runs", "data store.runs", "store store.runs"])
def test_a_command_of_a_group_is_not_typed_with_a_dot(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words.split()) == 2
    assert f"There is no command {words.split()[-1]!r}." in capsys.readouterr().err


def test_a_word_like_no_other_suggests_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["zzzzzz"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


def shown_options(capsys: pytest.CaptureFixture[str], path: tuple[str, ...], *more: str) -> set[str]:
    """Return the names of a command's own options that its help shows."""
    shown = help_of(capsys, *path, "--help", *more)
    lines = shown.partition("Of every command:")[0].splitlines()
    return {line.split()[0].rstrip(",") for line in lines if line.startswith("  -")}


@pytest.mark.parametrize("path", [("evaluate",), ("compare",), ("service", "check-version")], ids=" ".join)
def test_the_help_shows_fifteen_options_at_most_and_all_of_them_with_all(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    few, every = shown_options(capsys, path), shown_options(capsys, path, "--all")
    own = [option for option in all_commands()[path].params if isinstance(option, click.Option)]
    left_out = {option.opts[0] for option in own if isinstance(option, GroupedOption) and option.advanced}
    assert 0 < len(few) <= 15
    assert every - few == left_out
    assert len(every) == len([option for option in own if option.expose_value]) + ("--server" in every)
    end = " ".join(help_of(capsys, *path, "--help").split("\n\n")[-1].split())
    assert end.startswith(f"{len(left_out)} more options: leadline {' '.join(path)} --help --all.")
    assert "more options" not in help_of(capsys, *path, "--all")


def test_the_help_of_evaluate_shows_what_most_runs_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown_options(capsys, ("evaluate",)) == set(
        "-e --suite --param --model --judge --max-cost --fail-on --policy --against --name -o --json --plan --set "
        "--dispatch".split()
    )


def test_an_option_that_the_help_leaves_out_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = tmp_path / "answers.csv"
    answers.write_text("question,expected_answer,actual_answer\nq,a,a\n")
    assert run(["evaluate", str(answers), "--plan", "-e", "bleu", "--model-name", "mine", "--format", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err
    assert run(["evaluate", str(answers), "--plan", "-e", "bleu", "--model-name", "mine"]) == 0
    assert "model mine" in capsys.readouterr().out


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_audit.py").write_text(
        "import click\n"
        "@click.command()\n"
        "def audit():\n    'Audit a run.'\n    click.echo('audited')\n"
        "@click.command()\n"
        "def show():\n    'Show nothing.'\n"
    )
    package = tmp_path / "acme-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    replacing = ["show", "store", "store.runs", "labels.import"]
    replacing += ["ui", "store.gc", "service.telemetry"] if HAS_PLUG_INS else []
    (package / "entry_points.txt").write_text(
        "[leadline.commands]\naudit = acme_audit:audit\nstore.audit = acme_audit:audit\nacme.audit = acme_audit:audit\n"
        "broken = acme_missing:it\nstore.broken = acme_missing:it\n"
        + "".join(f"{name} = acme_audit:show\n" for name in replacing)
    )
    monkeypatch.syspath_prepend(tmp_path)
    commands.cache_clear()


@pytest.mark.usefixtures("acme")
def test_another_package_brings_a_command_of_the_first_level(capsys: pytest.CaptureFixture[str]) -> None:
    ours, _, others = help_of(capsys, "--help").partition("From other packages:\n")
    assert re.search("  audit +Audit a run.\n", others)
    assert "audit" not in ours
    assert help_of(capsys, "audit") == "audited\n"
    assert run(["audi"]) == 2
    assert "Did you mean leadline audit?" in capsys.readouterr().err


@pytest.mark.usefixtures("acme")
def test_another_package_brings_a_command_of_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search("\n  audit +Audit a run.\n", help_of(capsys, "store", "--help"))
    assert re.search("\n  store audit +Audit a run.\n", help_of(capsys, "--help", "--all"))
    assert help_of(capsys, "store", "audit") == "audited\n"


@pytest.mark.usefixtures("acme")
def test_a_group_that_leadline_does_not_have_is_part_of_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search("\n  acme.audit +Audit a run.\n", help_of(capsys, "--help"))
    assert help_of(capsys, "acme.audit") == "audited\n"


@pytest.mark.usefixtures("acme")
def test_another_package_replaces_no_command_and_no_group_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(capsys, "--help", "--all")
    assert "Show what a run found." in shown
    assert "Show nothing." not in shown
    assert listed("store") == sorted(["audit", "broken", *expected(WITHIN["store"])])
    for words in ("show", "store", "store runs", "labels import", *(["ui", "store gc"] if HAS_PLUG_INS else [])):
        assert "Show nothing." not in help_of(capsys, *words.split(), "--help")


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("path", [["broken"], ["store", "broken"]], ids=" ".join)
def test_a_command_that_cannot_be_imported_leaves_the_others_in_place(
    path: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = help_of(capsys, *path[:-1], "--help", "--all")
    assert "No module named 'acme_missing'" in shown
    assert "audit" in shown
    assert run(path) == 2
    assert "Repair or uninstall the package with acme_missing:it." in capsys.readouterr().err
    assert run(["runs"]) == 2
    assert "Did you mean leadline store runs?" in capsys.readouterr().err


def test_the_commands_of_other_packages_are_read_when_one_of_them_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_tree, "commands", lambda: pytest.fail("reads what is installed"))
    assert "Usage" in help_of(capsys, "store", "runs", "--help")


def test_a_shell_completes_groups_and_their_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leadline.cli.main"],
        env={**os.environ, "_LEADLINE_COMPLETE": "bash_complete", "COMP_WORDS": "leadline service server st",
             "COMP_CWORD": "3"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "plain,start" in done.stdout.splitlines()


def test_a_shell_is_told_what_the_help_says_and_no_command_is_imported() -> None:
    groups = ["", *GROUPS]
    script = (
        "import sys\n"
        "from leadline.cli.main import cli\n"
        "with cli.make_context('leadline', [], resilient_parsing=True) as context:\n"
        f"    for group in {groups}:\n"
        "        command = cli.get_command(context, group) if group else cli\n"
        "        for item in command.shell_complete(context, ''):\n"
        "            print(f'{group} {item.value}'.strip(), item.help, sep='|')\n"
        "ours = [name for name in sys.modules if name.startswith(('leadline.cli.', 'leadline.plugins'))]\n"
        "print(*ours, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) == {"leadline.cli.command_tree", "leadline.cli.main"}
    told = dict(line.split("|") for line in done.stdout.splitlines())
    assert told.keys() == {f"{group} {name}".strip() for group in groups for name in listed(*group.split())}
    for words, line in told.items():
        assert line
        assert " ".join((all_commands()[tuple(words.split())].help or "").split()).startswith(line)
