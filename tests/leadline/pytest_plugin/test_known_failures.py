"""Tests against an earlier run: what failed there is known, and only what is new fails."""

from __future__ import annotations

import shutil

import pytest

from tests.leadline.pytest_plugin.conftest import RunPytest
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.sample_repository import GOOD, SampleRepository

pytest_plugins = ["pytester"]

AGAINST = ("-v", "-rx", "--leadline-against", "previous")


def test_what_failed_before_is_known_and_what_is_new_fails(repository: SampleRepository, run_pytest: RunPytest) -> None:
    run_pytest().assert_outcomes(passed=6, failed=1, xfailed=2)
    repository.answer({**GOOD, "pump": "At noon, the pump.", "lock": "Mail bob.miller@acme.com", "parking": "No idea."})
    result = run_pytest(*AGAINST)
    result.stdout.fnmatch_lines_random(
        [
            "*test_answers[[]pump[]] FAILED*",
            "*test_answers[[]lock[]] FAILED*",  # a new case has no excuse
            "*test_answers[[]parking[]] XFAIL*",
            "*test_answers[[]refund[]] PASSED*",
            "*policy:text_matching.model_passes[]] XFAIL*",
            "*test_answers[[]gate[]] XFAIL*",
            "known      it fails in run * too",
        ]
    )
    result.assert_outcomes(passed=4, failed=2, xfailed=4)


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


def test_a_judge_that_changed_its_mind_about_the_same_answer_breaks_nothing(
    pytester: pytest.Pytester, run_pytest: RunPytest, monkeypatch: pytest.MonkeyPatch
) -> None:
    SampleRepository(pytester.path).answer({"desk": "Ask at the desk."})
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.leadline("answers.jsonl", metrics="contact_information")
        def test_answers():
            pass
        """
    )
    said = ["absent"]
    with serving(JudgeEndpoint(lambda question: said[-1])) as judge:
        table = f'[judges.here]\nmodel = "openai/judge"\napi_base = "{judge.url}"\n'
        (pytester.path / "leadline.toml").write_text(table)
        run_pytest("-k", "desk").assert_outcomes(passed=1)
        said.append("present")
        shutil.rmtree(pytester.path / ".leadline" / "scores")  # or the score would be used again,
        monkeypatch.setenv("LEADLINE_LEDGER", str(pytester.path / "another.sqlite"))  # or the reply
        result = run_pytest("-k", "desk", *AGAINST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INCONCLUSIVE: contact_information*", "judged     the same answer passed in run *"])
