"""Tests against an earlier run: what failed there is known, and only what is new fails."""

from __future__ import annotations

import pytest

from tests.flows.pytest_plugin.conftest import RunPytest
from tests.support.sample_repository import GOOD, SampleRepository

pytest_plugins = ["pytester"]

AGAINST = ("-v", "-rx", "--leadline-against", "previous")


def test_what_failed_before_is_known_and_what_is_new_fails(repository: SampleRepository, run_pytest: RunPytest) -> None:
    run_pytest().assert_outcomes(passed=6, failed=3)
    repository.answer({**GOOD, "pump": "At noon, the pump.", "lock": "Mail bob.miller@acme.com", "parking": "No idea."})
    result = run_pytest(*AGAINST)
    result.stdout.fnmatch_lines_random(
        [
            "*test_answers[[]pump[]] FAILED*",
            "*test_answers[[]lock[]] FAILED*",  # a new case has no excuse
            "*test_answers[[]parking[]] XFAIL*",
            "*test_answers[[]refund[]] PASSED*",
            "*policy:text_matching.model_passes[]] FAILED*",
            "*test_answers[[]gate[]] FAILED*",
            "known      it fails in run * too",
        ]
    )


def test_where_nothing_is_new_nothing_fails(repository: SampleRepository, run_pytest: RunPytest) -> None:
    run_pytest()
    repository.answer({**GOOD, "parking": "Ask the desk."})
    result = run_pytest(*AGAINST)
    result.assert_outcomes(passed=6, xfailed=3)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*nothing is newly broken.*"])


def test_an_earlier_run_that_does_not_exist_is_refused_when_tests_are_collected(
    repository: SampleRepository, run_pytest: RunPytest
) -> None:
    result = run_pytest("--leadline-against", "tag:production")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*production*"])
