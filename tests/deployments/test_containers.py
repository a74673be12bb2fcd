"""The container files, as far as they can be checked without a container engine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from leadline.deployments.service import server_environment
from leadline.flows.cli.main import cli

FOLDER = Path(__file__).parents[2] / "deployments"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if str(service["image"]).startswith("leadline")}
VARIABLE = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")


def test_there_is_all_that_the_service_consists_of() -> None:
    assert {"postgres", "redis", "storage", "server", "deploy", "webhook"} <= set(SERVICES)
    assert {f"worker-{pool}" for pool in ("flows", "cpu", "gpu", "judge")} <= set(SERVICES)


@pytest.mark.parametrize("name", OURS)
def test_commands_exist_with_their_options(name: str) -> None:
    program, *arguments = OURS[name]["command"]
    if program == "prefect":
        assert arguments[:2] == ["server", "start"]
        return
    assert program == "leadline"
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, arguments.pop(0))
        assert found is not None
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    assert {argument for argument in arguments if argument.startswith("--")} <= known


@pytest.mark.parametrize("name", SERVICES)
def test_what_keeps_running_tells_its_health_and_what_it_waits_for_exists(name: str) -> None:
    service = SERVICES[name]
    if "restart" in service and service["restart"] != "no":
        assert service["healthcheck"]["test"]
    for other, condition in service.get("depends_on", {}).items():
        healthy = condition["condition"] == "service_healthy"
        assert "healthcheck" in SERVICES[other] if healthy else SERVICES[other].get("restart", "no") == "no"


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_that_serves_runs_as_root(name: str) -> None:
    if name in OURS:
        files = [FOLDER / Path(OURS[name]["build"]["dockerfile"]).name]
        assert all(re.search(r"^USER leadline$", file.read_text(), re.MULTILINE) for file in files)
        assert OURS[name]["cap_drop"] == ["ALL"]
    elif name == "storage-owner":
        assert SERVICES[name]["network_mode"] == "none"
    else:
        assert SERVICES[name]["user"] not in ("root", "0")


def test_no_secret_stands_in_the_files() -> None:
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|AUTH|KEY", key):
                assert VARIABLE.fullmatch(str(value)) or "${" in str(value), (name, key)
    for file in FOLDER.glob("Dockerfile*"):
        assert not re.search(r"^(ARG|ENV).*(PASSWORD|SECRET|TOKEN|KEY)", file.read_text(), re.MULTILINE)


def test_the_example_names_every_variable_that_must_be_set_and_sets_no_secret() -> None:
    text = (FOLDER / "env.example").read_text()
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    required = {
        name for name, rest in VARIABLE.findall((FOLDER / "compose.yaml").read_text()) if rest.startswith("set ")
    }
    assert required <= set(values)
    assert {name: value for name, value in values.items() if value} == {"LEADLINE_PROJECT": "../examples"}


def test_volumes_are_declared() -> None:
    used = {
        volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
    }
    assert {name for name in used if re.fullmatch(r"\w+", name)} == set(COMPOSE["volumes"])


def test_what_people_have_deployed_outlives_a_restart() -> None:
    assert SERVICES["deploy"]["command"] == ["leadline", "deploy", "--keep"]


def test_only_the_loopback_interface_is_published() -> None:
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_server_has_the_settings_of_the_service_as_processes() -> None:
    settings = server_environment("database", "redis")
    there = SERVICES["server"]["environment"]
    assert set(settings) <= set(there)
    assert {name: value for name, value in settings.items() if value not in ("database", "redis")} == {
        name: there[name] for name, value in settings.items() if value not in ("database", "redis")
    }


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_images_hold_the_whole_package_and_its_extras(name: str) -> None:
    text = (FOLDER / name).read_text()
    root = FOLDER.parent
    copied = {word for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for word in line.split()}
    assert {"pyproject.toml", "leadline", "evaluators", "tasks", "flows", "deployments"} <= copied
    assert all((root / word).exists() for word in copied if not word.startswith(("-", "/")))
    [extras] = re.findall(r'"\.\[(.+)\]"', text)
    assert set(extras.split(",")) <= set(
        re.findall(r"^(\w+) = \[", (root / "pyproject.toml").read_text(), re.MULTILINE)
    )


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_what_an_image_copies_builds_a_wheel_with_all_rooms(name: str, tmp_path: Path) -> None:
    source, root = tmp_path / "src", FOLDER.parent
    source.mkdir()
    for line in re.findall(r"^COPY (?!--from)(.+)$", (FOLDER / name).read_text(), re.MULTILINE):
        *words, target = line.split()
        for word in words:
            place = source / target / (Path(word).name if target == "./" else "")
            if (root / word).is_dir():
                shutil.copytree(root / word, place, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(root / word, place)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    rooms = {"evaluators", "tasks", "flows", "deployments"}
    assert rooms <= {entry.split("/")[1] for entry in names if entry.startswith("leadline/")}
    assert {entry.split("/")[0] for entry in names} == {"leadline", "leadline-0.1.0.dist-info"}
    assert {"leadline/flows/cli/main.py", "leadline/deployments/prefect.yaml"} <= set(names)
    assert any(entry.endswith("/LICENSE") for entry in names)


def test_the_context_of_images_holds_what_they_copy() -> None:
    allowed = {line[1:] for line in (FOLDER.parent / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name in ("Dockerfile", "Dockerfile.cuda"):
        copies = re.findall(r"^COPY (?!--from)(.+) \S+$", (FOLDER / name).read_text(), re.MULTILINE)
        assert {word for line in copies for word in line.split()} == allowed
