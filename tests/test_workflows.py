"""The workflows of CI and of releases: nothing that can be moved under them, no right that is not needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"


def read(file: Path) -> dict[str, Any]:
    """Return a workflow; YAML 1.1 reads its key ``on`` as true."""
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("file", [*WORKFLOWS, ACTION], ids=lambda file: file.name)
def test_actions_are_named_by_commits_and_say_their_version(file: Path) -> None:
    used = re.findall(r"uses: (.*)", file.read_text(encoding="utf-8"))
    assert used
    for line in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_an_action_has_one_version() -> None:
    used = {
        line for file in (*WORKFLOWS, ACTION) for line in re.findall(r"uses: (.*)", file.read_text(encoding="utf-8"))
    }
    names = [line.partition("@")[0] for line in used]
    assert len(names) == len(set(names)), sorted(used)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_jobs_may_read_and_those_that_may_more_run_nothing_of_the_tests(file: Path) -> None:
    workflow = read(file)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 90, name
        more = {right for right, level in job.get("permissions", {}).items() if level == "write"}
        assert more <= {"id-token", "attestations"}, name
        commands = " ".join(step.get("run", "") for step in job["steps"])
        assert not (more and "make" in commands), name
        for step in job["steps"]:
            if "actions/checkout@" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False, name
            assert "${{" not in step.get("run", ""), f"{name}: an expression in a script is code; use env"


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_what_is_made_exists(file: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for job in read(file)["jobs"].values():
        for step in job["steps"]:
            for target in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
                assert target in targets
        for included in job.get("strategy", {}).get("matrix", {}).get("include", []):
            assert (ROOT / included["file"]).is_file()


def test_every_python_and_platform_that_is_stated_is_tested() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    stated = set(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project))
    matrix = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert set(matrix["python"]) == stated
    systems = set(re.findall(r'"Operating System :: ([^"]+)"', project))
    assert systems == {"POSIX :: Linux", "MacOS"}
    assert {system.partition("-")[0] for system in matrix["os"]} == {"ubuntu", "macos"}


def test_a_release_is_audited_and_signed_with_an_sbom_and_a_provenance() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    for step in ("make audit", "make dist", "attest-build-provenance@", "--sbom=true", "--provenance=mode=max"):
        assert step in text
    assert 'cosign sign --yes --recursive "$IMAGE@$digest"' in text
    assert "cosign verify" in text
    assert "cyclonedx-py" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_action_takes_its_inputs_by_the_environment_and_says_what_they_are() -> None:
    action = read(ACTION)
    for described in (*action["inputs"].values(), *action["outputs"].values()):
        assert described["description"].endswith(".")
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), "an expression in a script is code; use env"
        assert ("run" in step) == (step.get("shell") == "bash"), step
    used = set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text(encoding="utf-8")))
    assert used == set(action["inputs"])
