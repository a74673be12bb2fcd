"""Sessions in processes of their own: what the plugin costs, and several workers with one run and one ledger."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests.leadline.pytest_plugin.conftest import outcomes, plugin_options
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.sample_repository import GOOD, SampleRepository

ROOT = Path(__file__).parents[3]

TESTS = """
import pytest

@pytest.mark.leadline("../answers.jsonl", metrics=["contact_information", "text_matching"])
def test_answers(leadline_case):
    assert leadline_case.answer

@pytest.mark.parametrize("number", range(8))
def test_one(leadline, number):
    leadline.check("The desk is open.", metrics="contact_information")
"""


def test_a_session_without_answers_imports_the_plugin_and_nothing_else() -> None:
    script = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import leadline.pytest_plugin.plugin\n"
        "print(*sorted(set(sys.modules) - before - {'__future__', 'shutil', 'tempfile'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    plugin = "leadline.pytest_plugin.plugin".split(".")
    assert done.stdout.split() == [".".join(plugin[:depth]) for depth in range(1, len(plugin) + 1)]


def test_the_entry_point_names_the_plugin() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    plugin = import_module(document["project"]["entry-points"]["pytest11"]["leadline"])
    assert {"pytest_addoption", "pytest_generate_tests", "leadline", "leadline_case"} <= set(vars(plugin))


@pytest.mark.e2e
def test_workers_evaluate_once_and_pay_once(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    repository = SampleRepository(tmp_path / "repository").write(tests=TESTS).answer(GOOD)
    with serving(JudgeEndpoint(lambda question: "absent", latency=0.05)) as judge:
        (repository.root / "leadline.toml").write_text(f'[judges.here]\nmodel = "openai/j"\napi_base = "{judge.url}"\n')
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *plugin_options(), "-n", "3", "--junitxml=junit.xml"],
            cwd=repository.root,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "TMPDIR": str(tmp_path / "tmp")},
            capture_output=True,
            text=True,
            timeout=280,
        )
        asked = [line.question.text for line in judge.log]
    found = outcomes(repository.root / "junit.xml")
    failed = {name for name, outcome in found.items() if outcome != "passed"}
    assert failed == {"parking", "policy:text_matching.model_passes", "gate"}, done.stdout
    assert len(asked) == len(set(asked)) == len(GOOD) + 1  # each case, and the answer that eight tests check
    assert len(list((repository.root / ".leadline" / "runs").iterdir())) == 1
    assert done.stdout.count("\nrun 2") == 1
    assert f"{len(GOOD)} judge calls" in done.stdout
    assert "8 answers checked; 1 judge call" in done.stdout
    assert not list((tmp_path / "tmp").glob("leadline-pytest-*"))
