"""The example of ``docs/pytest.md`` does what the page says."""

from __future__ import annotations

import pytest

from tests.leadline.pytest_plugin.conftest import RunPytest
from tests.support.docs.blocks import ROOT, blocks_of

pytest_plugins = ["pytester"]


def test_the_example_runs_and_fails_in_the_words_of_the_page(pytester: pytest.Pytester, run_pytest: RunPytest) -> None:
    page = list(blocks_of(ROOT / "docs" / "pytest.md"))
    (example,) = [block for block in page if block.file == "test_answers.py"]
    (shown,) = [block for block in page if "pytest test_answers.py" in block.script]
    pytester.makepyfile(test_answers=example.text)
    result = run_pytest()
    result.assert_outcomes(passed=2, failed=1, xfailed=3)
    said = result.stdout.str()
    failure = shown.text.partition("test_answers[desk]")[2].splitlines()[1:-1]
    assert len(failure) == 8
    assert not [line for line in failure if line not in said]
