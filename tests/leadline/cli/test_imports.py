"""A run imports what it needs: the packages of real processes, counted where they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SCRIPT = """
import json, sys
from leadline.cli.main import run
assert run(sys.argv[1:]) == 0
print(json.dumps(sorted(sys.modules)))
"""

TRACED = """
import os, sys, threading
from leadline.cli.main import run
root, ran = os.path.realpath(sys.argv[1]) + os.sep, set()
def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and "site-packages" not in code.co_filename:
        ran.add(os.path.realpath(code.co_filename))
threading.setprofile(note)
sys.setprofile(note)
code = run(sys.argv[2:])
sys.setprofile(None)
print(*sorted(file.removeprefix(root) for file in ran if file.startswith(root)), sep="\\n")
sys.exit(code)
"""

MOST_FILES = 208
"""Files of the product in which a function runs while two rows are scored, as counted when this was last set.

What imports run is counted, too (some 70 files that make a setting, a column or a command and then do nothing), since
a file that takes no part in a run should not be imported by it either. A change that needs another file says so here.
"""

BASE = set(
    "leadline annotated_types cachetools click duckdb _duckdb jinja2 markupsafe orjson pydantic pydantic_core "
    "rich typing_extensions typing_inspection".split()
)
"""Packages for settings, tables and texts."""

RESULTS = {"filelock", "numpy", "scipy", "charset_normalizer"}
"""Packages for statistics and locks; the last one comes with SciPy."""

HEAVY = set(
    "torch transformers sentence_transformers litellm openai prefect nltk sklearn rouge_score matplotlib httpx fastapi "
    "sqlalchemy pandas scipy.stats scipy.optimize scipy.linalg leadline.evaluators.privacy.leakage "
    "leadline.evaluators.vision leadline.evaluators.generation".split()
)
"""Packages and parts of packages that no run of an n-gram metric needs, its first one included."""

ALWAYS_THERE = {"__main__", "__mp_main__", "_distutils_hack", "cython_runtime", "sitecustomize", "usercustomize"}


def modules_of(folder: Path, *options: str) -> set[str]:
    """Evaluate n-grams, and return the modules that the process has imported."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, "evaluate", "answers.csv", "-e", "bleu", "--store", "store", *options],
        cwd=folder,
        env=os.environ | {"LEADLINE_JUDGE": ""},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def packages(modules: set[str]) -> set[str]:
    """Return the packages that are not Python's own, nor parts of Cython's that compiled packages bring."""
    found = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - ALWAYS_THERE
    return {name for name in found if not name.startswith(("_cython", "_cyutility", "_sysconfigdata", "__editable__"))}


@pytest.mark.slow
def test_a_run_of_rules_imports_what_it_needs(tmp_path: Path) -> None:
    lines = [f"q{n},Question {n}?,The answer is {n},The answer is {n % 7}," for n in range(20)]
    copy = """q20,Question 0,The answer is 0,42,"{""type"": ""perturbation_source"", ""target"": ""q0""}\""""
    header = "key,question,expected_answer,actual_answer,relationships"
    (tmp_path / "answers.csv").write_text("\n".join([header, *lines, copy]))
    assert modules_of(tmp_path, "--server", "none") & HEAVY == set()
    again = modules_of(tmp_path, "--server", "none")
    assert again & HEAVY == set()
    assert packages(again) - BASE - RESULTS == set()
    planned = modules_of(tmp_path, "--plan")
    assert planned & HEAVY == set()
    assert packages(planned) - BASE == set()


@pytest.mark.slow
def test_few_files_take_part_in_a_run_of_two_rows(tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("question,expected_answer,actual_answer\nWho?,Ada,Ada\nWhere?,London,Paris\n")
    options = ["evaluate", "two.csv", "-e", "bleu", "--server", "none", "--store", "store"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", TRACED, str(ROOT), *options],
        cwd=tmp_path,
        env=os.environ | {"LEADLINE_JUDGE": ""},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    ran = [line for line in done.stdout.splitlines() if line.endswith((".py", ".html")) and (ROOT / line).exists()]
    assert "evaluators/summarization/bleu.py" in ran
    assert len(ran) <= MOST_FILES, ran
