"""Each code block of the documentation does what the page says: it runs, or at least the program understands it.

Python blocks, and the commands that ask nobody else and whose files are at hand, run page by page in their order. All
other commands are parsed by the real command line. YAML, TOML and JSON are read by the product's own models. A block
that cannot run here has the comment ``<!-- not run: reason -->`` before it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import duckdb
import jinja2
import pytest
import yaml

from leadline.cli.command_tree import GROUPS
from leadline.cli.main import cli
from leadline.evaluators.judge.file_evaluators import evaluator_from
from leadline.evaluators.judge_client.budget import team_budgets
from leadline.evaluators.judge_client.choice import find_evaluator_files, find_judges
from leadline.flows.deploy.file import Schedule
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.prefect.outside_requests import allowed
from leadline.flows.prefect.server import chosen_server
from leadline.flows.shared.projects import projects
from leadline.plugins.ci.config import read_request
from leadline.plugins.ops.maintenance.retention import load_retention
from leadline.plugins.ops.notify.recipients import read_tables
from leadline.plugins.webhooks.webhook_payloads import read_choice
from leadline.pytest_plugin.sessions import session_settings
from leadline.tasks.collect.targets import read_targets
from leadline.tasks.db.csv_files import is_guarded
from leadline.tasks.judges.labels.labelling_tasks import guides
from leadline.tasks.load.columns import ColumnNames, map_columns
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.policy.policy import load_policy
from leadline.tasks.store.store import Store
from tests.support.docs.blocks import PROGRAMS, ROOT, SHELL, Block, blocks, pages, walkthroughs
from tests.support.processes.fork_server import import_also

PLACEHOLDERS = {"answers.csv", "new-answers.csv", "suite.csv"}
"""Files of the reader, for which the examples stand in."""

OF_MODELS = (
    "torch",
    "sentence_transformers",
    "transformers.trainer",
    "transformers.models.bert.modeling_bert",
    "transformers.models.bert.tokenization_bert",
)
"""What the evaluations of most pages import, and take longest to."""

NEEDS_AN_ENGINE = {"docs/operations/containers.md"}
"""Pages whose commands are for a container engine or a cluster, of which a test machine has neither."""

NEEDS_OTHER_TOOLS = {"docs/bridges.md"}
"""Pages whose blocks run beside other tools: make test-bridges."""

READS_A_FILE = {"evaluate", "collect", "data perturb"}
READS_A_RUN = {"compare", "show", "store export", "store runs", "store sql", "store tag"}
QUICK = READS_A_FILE | READS_A_RUN | {f"evaluators {name}" for name in ("check", "list", "show", "suites")}
QUICK |= {"service check-version", "--version"}
ASKS_OTHERS = re.compile(r"--judge|https?:|s3:|…|^(openai|anthropic|ollama_chat)/|^python:|^targets\.toml$|^workers$")


def of(*languages: str) -> list[Any]:
    """Return the blocks in these languages as parameters."""
    return [pytest.param(block, id=str(block)) for block in blocks() if block.language in languages]


def test_few_blocks_are_not_run() -> None:
    marked = [f"{block} ({block.reason})" for block in blocks() if block.reason and block.page not in NEEDS_AN_ENGINE]
    assert len(marked) <= 11, marked


def test_every_language_is_checked() -> None:
    assert {block.language for block in blocks()} <= {*SHELL, "python", "json", "yaml", "toml", "sql", "jinja", "csv"}


@pytest.mark.parametrize("block", of(*SHELL))
def test_shell_blocks_are_understood(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = subprocess.run(["bash", "-n"], input=block.script, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert block.script.strip(), "a console block's commands begin with $"
    if block.language == "bash":
        assert block.reason, "mark it, or make it a console block"
        return
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for program, *arguments in block.commands():
        assert program in PROGRAMS or block.reason, f"{program} is not on every machine: mark the block"
        if program == "make":
            assert arguments[0] in targets
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: Path(value))
    for arguments in block.leadline():
        parse(arguments)


def parse(arguments: list[str]) -> None:
    """Parse a command line as the program does, without running it; raise ``click.UsageError`` if it is none."""
    command: click.Command = cli
    parent = None
    words = [word for word in arguments if word != "…"]
    while True:
        try:
            context = command.make_context(command.name, words, parent=parent)
        except click.exceptions.Exit:  # --help, --version
            return
        rest = [*context._protected_args, *context.args]
        if not isinstance(command, click.Group) or (command.invoke_without_command and not rest):
            return
        name, found, words = command.resolve_command(context, rest)
        assert found is not None
        command, parent = found, context
        command.name = name


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in pages()])
def test_commands_in_the_text_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    if page.name == "CHANGELOG.md":
        text = text.partition("## [Unreleased]")[2].partition("\n## [")[0]  # a release has the commands of its day
    for line in re.findall(r"`leadline ([^`]+)`", text):
        words = line.split()
        if not re.fullmatch(r"[a-z-]+", words[0]) or words[0].startswith("-"):
            continue
        context = click.Context(cli)
        command = cli.get_command(context, words[0])
        assert command is not None, line
        while isinstance(command, click.Group) and len(words) > 1 and words[1] in command.list_commands(context):
            words = words[1:]
            command = command.get_command(context, words[0])
        assert command is not None
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line):
            assert option in known | {"--help"}, line


@pytest.mark.parametrize("block", of("json"))
def test_json_blocks_are_read(block: Block, tmp_path: Path) -> None:
    decoder, text, documents = json.JSONDecoder(), block.text.strip(), []
    while text:
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:].lstrip()
    first = documents[0]
    if isinstance(first, dict) and first.get("format") == "coco":
        return  # names files that are not at hand
    file = tmp_path / ("block.jsonl" if isinstance(first, dict) and "case" in first else "block.json")
    file.write_text("\n".join(json.dumps(document) for document in documents), encoding="utf-8")
    assert load_dataset(Store.open(str(tmp_path / "store")), file).cases


@pytest.mark.parametrize("block", of("toml"))
def test_toml_blocks_are_read(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tomllib.loads(block.text)
    file = tmp_path / "block.toml"
    file.write_text(block.text, encoding="utf-8")
    if "judges" in document:
        assert len(find_judges(None, None, file, {})) == len(document["judges"])
    elif "model" in document:
        assert len(read_targets(file)) == len(document["model"])
    elif "body" in document:
        file.write_text(f'[[model]]\nkey = "app"\nurl = "http://localhost:8080/answer"\n{block.text}', encoding="utf-8")
        assert read_targets(file)
    elif "evaluators" in document:
        assert find_evaluator_files(file) == tuple(str(tmp_path / name) for name in document["evaluators"]["files"])
    elif "policy" in document:
        monkeypatch.chdir(tmp_path)
        file.rename("leadline.toml")
        assert load_policy().rules
    elif "dataset" in document:
        names = ColumnNames(("question", *(str(name) for name in document["dataset"]["map"].values())))
        assert map_columns(names, document["dataset"]["map"]).asked
    elif "evaluate" in document:
        assert EvaluateConfig.model_validate({"dataset": "d.json"} | document["evaluate"])
    elif "ci" in document:
        monkeypatch.chdir(tmp_path)
        file.rename("leadline.toml")
        assert len(read_request({}).checks) == len(document["ci"].get("checks", ["the only one"]))
    elif "notify" in document:
        assert [one.name for one in read_tables(file)] == [one["name"] for one in document["notify"]]
    elif "projects" in document:
        assert projects(file).keys() == document["projects"].keys()
    elif "pytest" in document:
        monkeypatch.chdir(tmp_path)
        file.rename("leadline.toml")
        assert session_settings().model_dump(exclude_defaults=True) == document["pytest"]
    elif "budgets" in document:
        assert team_budgets(file).keys() == document["budgets"].keys()
    elif "server" in document:
        monkeypatch.chdir(tmp_path)
        file.rename("leadline.toml")
        assert chosen_server() == document["server"]["use"]
    elif "retention" in document:
        monkeypatch.chdir(tmp_path)
        file.rename("leadline.toml")
        assert load_retention().keep_last == document["retention"]["keep_last"]
    elif "csv" in document:
        monkeypatch.chdir(tmp_path)
        file.rename("leadline.toml")
        assert is_guarded() == (document["csv"]["text"] == "guarded")
    elif "labels" in document:
        assert guides(file).keys() == document["labels"].keys()
    elif "service" in document:
        monkeypatch.chdir(tmp_path)
        file.rename("leadline.toml")
        assert list(allowed().hosts) == document["service"]["allowed_hosts"]
    else:
        assert document.keys() == {"project"}


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_blocks_are_read(block: Block, tmp_path: Path) -> None:
    document = yaml.safe_load(block.text)
    file = tmp_path / "block.yaml"
    file.write_text(block.text, encoding="utf-8")
    if "prompt" in document:
        assert evaluator_from(file).spec.id == document["id"]
    elif "jobs" in document:
        action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
        [used] = [step["with"] for step in document["jobs"]["leadline"]["steps"] if "OWNER/" in step.get("uses", "")]
        assert used.keys() <= action["inputs"].keys()
    elif "include" in document:
        template = yaml.safe_load((ROOT / "deployments" / "ci" / "gitlab.yml").read_text(encoding="utf-8"))
        assert document["leadline"]["variables"].keys() <= template[document["leadline"]["extends"]]["variables"].keys()
    elif "repos" in document:
        hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
        assert [hook["id"] for hook in document["repos"][0]["hooks"]] == [hook["id"] for hook in hooks]
    elif "schedules" in document:
        assert [Schedule.model_validate(schedule) for schedule in document["schedules"]]
    else:
        assert read_choice(file)


@pytest.mark.parametrize("block", of("sql", "jinja"))
def test_queries_and_templates_are_read(block: Block) -> None:
    if block.language == "sql":
        assert duckdb.extract_statements(block.text)
    else:
        environment = jinja2.Environment(autoescape=False)
        environment.filters["data"] = str
        assert environment.from_string(block.text)


def steps_of(page: str) -> list[dict[str, Any]]:
    """Return what of a page runs, in its order."""
    steps: list[dict[str, Any]] = []
    for block in blocks():
        if block.page != page or block.reason:
            continue
        if block.file:
            steps.append({"where": str(block), "file": block.file, "text": block.text, "language": block.language})
        elif block.language == "python":
            steps.append({"where": str(block), "text": block.text})
        elif block.language in SHELL:
            for command in block.leadline():
                scored = any(step.get("command", [""])[0] == "evaluate" for step in steps)
                if runs(command) and (scored or split(command)[0] not in READS_A_RUN):
                    steps.append({"where": str(block), "command": command, "fails": "\nError" in block.text})
    return steps


def split(command: list[str]) -> tuple[str, list[str]]:
    """Return the name of a command, with its group, and its arguments."""
    words = 2 if command[0] in GROUPS else 1
    return " ".join(command[:words]), command[words:]


def runs(command: list[str]) -> bool:
    """Return whether a command can run here: quick, nobody else is asked, and what it reads is at hand."""
    name, arguments = split(command)
    if name not in QUICK or any(ASKS_OTHERS.search(word) for word in arguments if not word.startswith("SELECT")):
        return False
    return (
        name not in READS_A_FILE
        or "--list" in arguments
        or arguments[0] in PLACEHOLDERS
        or (ROOT / arguments[0]).is_file()
    )


def marks(page: str, steps: list[dict[str, Any]]) -> tuple[pytest.MarkDecorator, ...]:
    """Return the marks of a page that runs flows, or needs other tools."""
    if page in NEEDS_OTHER_TOOLS:
        missing = importlib.util.find_spec("langchain") is None
        return (pytest.mark.bridges, pytest.mark.skipif(missing, reason="make test-bridges has the tools"))
    flows = any(
        split(step["command"])[0] in ("evaluate", "compare", "service check-version", "collect")
        if "command" in step
        else re.search(r"flows|\b(evaluate|compare)\(", step["text"])
        for step in steps
    )
    return (pytest.mark.e2e,) if flows else ()


def runnable() -> list[Any]:
    """Return what runs of each page as a parameter."""
    found = []
    for page in (page for page in pages() if page not in walkthroughs()):
        name = page.relative_to(ROOT).as_posix()
        steps = steps_of(name)
        if any("command" in step or step.get("language", "python") == "python" for step in steps):
            found.append(pytest.param(steps, id=page.name, marks=marks(name, steps)))
    return found


@pytest.mark.parametrize("steps", runnable())
def test_the_blocks_of_a_page_run_in_their_order(
    steps: list[dict[str, Any]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    flows = request.node.get_closest_marker("e2e") is not None
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name in PLACEHOLDERS:
        shutil.copy(ROOT / "examples" / "cases.csv", tmp_path / name)
    api = request.getfixturevalue("api") if flows else {}  # the pages share a server
    if flows:
        import_also(*OF_MODELS)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.support.docs.run_page"], input=json.dumps(steps), cwd=tmp_path,
        env=os.environ | api | {"LEADLINE_STORE": str(tmp_path / ".leadline"), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:]
