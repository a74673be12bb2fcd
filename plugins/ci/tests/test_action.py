"""The action's own scripts in a job like GitHub's: a push to main, then a bad change in a fresh checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.support.forges.change_repository import SETTINGS, ChangeRepository
from tests.support.forges.scripted_forge import TOKEN, ScriptedForge, scripted_forge

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[3]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INPUTS = {name: str(each["default"]) for name, each in ACTION["inputs"].items()} | {"install": "false", "token": TOKEN}


@dataclass
class ActionJob:
    """A job on a runner of its own.

    Attributes:
        folder: Its checkout.
        scratch: The runner's own files.
        variables: Variables that the runner sets.
        outputs: Outputs of the steps with an id.
        log: What the steps printed.
    """

    folder: Path
    scratch: Path
    variables: Mapping[str, str]
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""

    def run(self) -> int:
        """Run the action's scripts as a runner does, but for those that install; returns the job's exit code."""
        for step in ACTION["runs"]["steps"]:
            if "run" in step and "inputs.install" not in step.get("if", ""):
                code = self._step(step)
                if code:
                    return code
        return 0

    def _step(self, step: Mapping[str, Any]) -> int:
        file = self.scratch / "outputs"
        file.write_text("", encoding="utf-8")
        asked = {name: self._filled(value) for name, value in step.get("env", {}).items()}
        programs = f"{self.scratch / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder / self._filled(step.get("working-directory", ".")),
            env={**self.variables, **asked, "GITHUB_OUTPUT": str(file), "PATH": programs},
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        self.log += done.stdout + done.stderr
        lines = (line.partition("=") for line in file.read_text(encoding="utf-8").splitlines())
        self.outputs |= {f"{step.get('id')}.{name}": value for name, _, value in lines}
        return done.returncode

    def _filled(self, text: str) -> str:
        """Fill in the expressions of a step."""
        text = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: INPUTS[found[1]], text)
        for name, value in {"github.job": "check", "strategy.job-index": "0"}.items():
            text = text.replace(f"${{{{ {name} }}}}", value)
        pattern = r"\$\{\{ steps\.(\w+)\.outputs\.([\w-]+) \}\}"
        return re.sub(pattern, lambda found: self.outputs.get(f"{found[1]}.{found[2]}", ""), text)


def runner(tmp_path: Path, name: str, forge: ScriptedForge) -> tuple[Path, dict[str, str]]:
    """Return a runner's own folder, with the command ``leadline``, and the variables that it sets."""
    scratch = tmp_path / name
    (scratch / "bin").mkdir(parents=True)
    program = scratch / "bin" / "leadline"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m leadline.cli.main "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return scratch, {
        "CI": "true",
        "HOME": str(scratch),
        "XDG_STATE_HOME": str(scratch / "state"),
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": forge.url,
        "GITHUB_REPOSITORY": "harbour/bot",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_RUN_ID": "99",
        "GITHUB_REF_TYPE": "branch",
        "GITHUB_STEP_SUMMARY": str(scratch / "summary.md"),
    }


def test_a_bad_change_is_caught_in_a_job_like_githubs(tmp_path: Path) -> None:
    origin = ChangeRepository(tmp_path / "origin")
    origin.make(f'{SETTINGS}only_changes = true\nfail_on = "medium"\n')
    base = origin.git("rev-parse", "HEAD")
    with scripted_forge() as forge:
        scratch, variables = runner(tmp_path, "first", forge)
        push = ActionJob(origin.folder, scratch, variables | {"GITHUB_REF_NAME": "main", "GITHUB_SHA": base})
        assert push.run() == 0, push.log
        assert forge.requests == [], "a push has no pull request"

        origin.git("checkout", "--quiet", "-b", "fix/tides")
        origin.answer({"tides": "It is 6 metres, @everyone.", "berths": "Eight berths.", "dues": "On arrival."})
        commit = origin.commit("Answer shorter")
        origin.git("clone", "--quiet", "--branch", "fix/tides", ".", str(tmp_path / "checkout"))
        shutil.copytree(origin.folder / INPUTS["store"], tmp_path / "checkout" / INPUTS["store"])  # the cache
        scratch, variables = runner(tmp_path, "second", forge)
        head = {"sha": commit, "repo": {"full_name": "harbour/bot"}}
        event = scratch / "event.json"
        event.write_text(json.dumps({"pull_request": {"number": 7, "head": head, "base": {"sha": base}}}))
        variables |= {
            "GITHUB_REF_NAME": "7/merge",
            "GITHUB_HEAD_REF": "fix/tides",
            "GITHUB_BASE_REF": "main",
            "GITHUB_EVENT_PATH": str(event),
        }
        change = ActionJob(tmp_path / "checkout", scratch, variables)
        assert change.run() == 1, change.log
        [comment] = forge.own()
        assert change.run() == 1, change.log
        assert len(forge.own()) == 1, "the second attempt brings it up to date"

    assert "Newly broken: 2 answers" in comment
    assert f"of the branch main at commit {base[:9]}" in comment
    assert "- `harbour-bot`: `dues`" in comment
    results = tmp_path / "checkout" / change.outputs["check.folder"]
    assert change.outputs["check.verdict"] == "fail"
    assert change.outputs["names.artifact"] == "leadline-ci-check-0"
    assert change.outputs["check.newly-broken"] == "2"
    assert comment.partition("\n")[2] in (scratch / "summary.md").read_text(encoding="utf-8")
    sarif = json.loads((results / "leadline.sarif").read_text(encoding="utf-8"))
    places = [found["locations"][0]["physicalLocation"] for found in sarif["runs"][0]["results"]]
    assert [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places] == [
        ("eval/answers.csv", 2),
        ("eval/answers.csv", 3),
    ]
    assert int(ElementTree.parse(results / "junit.xml").getroot().get("failures", "0")) >= 1
    assert TOKEN not in change.log + comment
