"""Tests that are made of a dataset: what fails, how it is said, and what is no failure of an answer."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.leadline.pytest_plugin.conftest import RunPytest, outcomes
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.sample_repository import GOOD, SampleRepository

pytest_plugins = ["pytester"]


def suite(arguments: str, body: str = "pass", parameters: str = "", head: str = "") -> str:
    """Return a module with one marked function."""
    return f"import pytest\n{head}\n\n@pytest.mark.leadline({arguments})\ndef test_answers({parameters}):\n    {body}\n"


def test_each_case_line_of_the_policy_and_gate_is_a_test_and_says_what_is_wrong(
    repository: SampleRepository, run_pytest: RunPytest
) -> None:
    repository.break_answers()
    result = run_pytest("--junitxml=junit.xml")
    found = outcomes(repository.root / "junit.xml")
    assert found == {case: "failure" if case in ("refund", "pump", "parking") else "passed" for case in GOOD} | {
        "policy:pii_leakage.pii_generation_leakages": "skipped",
        "policy:text_matching.model_passes": "skipped",
        "gate": "skipped",
    }
    result.stdout.fnmatch_lines(
        [
            "*test_answers[[]refund[]]*",
            "pii_leakage.pii_generation_leakages is 1, at most 0 is good  [[]must[]]",
            '    answer[[]*[]] "bob.miller@acme.com*: email',
            "question   About: refund?",
            "answer     Refunds take five days. Write to bob.miller@acme.com.",
            "see        leadline show * --case refund",
            "*test_answers[[]pump[]]*",
            '    The answer did not satisfy the condition: "seven".',
            "*= leadline =*",
            "run *: FAIL.",
            "  0 row scores reused, 12 computed; no judge calls",
            "  report: file:///*report.html",
            "FAILED *[[]refund[]] - Failed: pii_leakage.pii_generation_leakages is 1, at most 0 is good  [[]must[]]",
            "FAILED *[[]pump[]] - Failed: text_matching.model_passes is 0, at least 1 is good  [[]must[]]",
        ]
    )
    text = result.stdout.str()
    assert not [name for name in ("outcomes.py", "plugin.py", "Traceback", "hidden") if name in text]
    root = ElementTree.parse(repository.root / "junit.xml").getroot()
    properties = {
        case.attrib["name"].partition("[")[2][:-1]: {
            prop.attrib["name"]: prop.attrib["value"] for prop in case.iter("property")
        }
        for case in root.iter("testcase")
    }
    (run,) = (repository.root / ".leadline" / "runs").iterdir()
    case, gate = properties["refund"], properties["gate"]
    assert case["leadline.run"] == gate["leadline.run"] == run.name
    assert case["leadline.report"].startswith("file:///")
    assert (case["leadline.case"], case["leadline.model"]) == ("refund", "answers")
    assert case["leadline.pii_leakage.pii_generation_leakages"] == "1.0"
    assert "bob.miller@acme.com" in case["leadline.pii_leakage.pii_generation_leakages.evidence"]
    assert (gate["leadline.gate"], gate["leadline.judge_calls"]) == ("fail", "0")


def test_a_line_or_gate_that_failing_cases_explain_is_no_failure_of_its_own_unless_it_is_alone(
    repository: SampleRepository, run_pytest: RunPytest
) -> None:
    repository.break_answers()
    result = run_pytest("-rx")
    result.assert_outcomes(passed=3, failed=3, xfailed=3)
    line = "XFAIL *policy:pii_leakage*PII generation leakages: 1 of 6 rows of answers fail what must hold*refund."
    result.stdout.fnmatch_lines([line, "The test of its case fails."])
    run_pytest("-k", "gate or refund").assert_outcomes(failed=2)  # two other cases fail the gate too
    run_pytest("-k", "policy:pii or refund").assert_outcomes(failed=1, xfailed=1)
    run_pytest("-k", "policy:pii").assert_outcomes(failed=1)
    never = run_pytest("-k", "policy:text or refund or pump or parking", "--leadline-fail-cases", "never")
    never.assert_outcomes(passed=3, failed=1)


def test_a_good_state_passes_and_the_functions_body_is_run_for_cases_alone(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    good = {case: text for case, text in GOOD.items() if case != "parking"}
    SampleRepository(pytester.path).answer({**good, "no condition": "Yes."})
    pytester.makepyfile(
        suite(
            'dataset="answers.jsonl", metrics="text_matching"',
            "print('seen', leadline_case.case); assert leadline_case.case != 'pump' or words > 100",
            "leadline_case, words",
            "@pytest.fixture\ndef words(leadline_case):\n    return len(leadline_case.answer.split())\n",
        )
    )
    result = run_pytest("-s", "-rs")
    result.assert_outcomes(passed=6, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["E  *assert*pump*"])  # its own assertion
    result.stdout.fnmatch_lines(["SKIPPED *No metric * applies to this case.*"])
    assert result.stdout.str().count("seen ") == 5


def test_options_say_what_fails_and_what_becomes_of_the_undecided(
    pytester: pytest.Pytester, run_pytest: RunPytest, evaluated_once: None
) -> None:
    rows = "a,At seven.,At seven.\nb,At nine.,No.\nc,At ten.,At ten. Mail bob.miller@acme.com\n"
    pytester.makefile(".csv", answers=f"case,expected_answer,actual_answer\n{rows}")
    pytester.makepyfile(suite('"answers.csv", metrics=["rouge", "pii_leakage"], limits={"rouge": 0.6}'))
    cases = ("-k", "[a] or [b] or [c]")
    for least, failed in (("should", 2), ("must", 1), ("never", 0)):
        result = run_pytest(*cases, "--leadline-fail-cases", least)
        result.assert_outcomes(passed=3 - failed, failed=failed)
    result = run_pytest("-k", "policy:rouge")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INCONCLUSIVE: the interval contains the threshold. ROUGE-L*"])
    (pytester.path / "leadline.toml").write_text('[pytest]\ninconclusive = "xfail"\n')
    run_pytest("-k", "policy:rouge").assert_outcomes(xfailed=1)
    pytester.makeini("[pytest]\nleadline_inconclusive = skip\n")  # comes before leadline.toml
    run_pytest("-k", "policy:rouge").assert_outcomes(skipped=1)
    run_pytest("-k", "policy:rouge", "--leadline-inconclusive", "fail").assert_outcomes(failed=1)
    result = run_pytest("--leadline-inconclusive", "maybe")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*The options of pytest: inconclusive: *'fail', 'skip' or 'xfail'*"])


def test_an_instrument_that_fails_is_an_error_and_the_summary_says_what_judges_cost(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    SampleRepository(pytester.path).answer({"pump": "The pump starts at seven.", "leak": "Mail bob.miller@acme.com."})
    metrics = 'metrics=["contact_information", "pii_leakage"], limits={"contact_information": 0}'
    alone = "\ndef test_one(leadline):\n    leadline.check('At noon.', metrics='contact_information')\n"
    pytester.makepyfile(suite(f'"answers.jsonl", {metrics}') + alone)

    def reply(question: Question) -> str:
        return "hm" if "pump" in question.text else "absent"

    with serving(JudgeEndpoint(reply)) as judge:
        prices = "input_cost_per_token = 0.001\noutput_cost_per_token = 0.001\n"
        table = f'[judges.here]\nmodel = "openai/judge"\napi_base = "{judge.url}"\n{prices}'
        (pytester.path / "leadline.toml").write_text(table)
        result = run_pytest("--junitxml=junit.xml")
    assert outcomes(pytester.path / "junit.xml") == {
        "pump": "error",
        "leak": "failure",
        "policy:contact_information.contact_information_generation_failures": "error",
        "policy:pii_leakage.pii_generation_leakages": "skipped",
        "gate": "skipped",
        "": "passed",
    }
    result.stdout.fnmatch_lines(["contact_information.* could not be measured: judge_unparseable*"])
    result.stdout.fnmatch_lines(
        ["  0 row scores reused, 4 computed; 3 judge calls, $*", "1 answer checked; 1 judge call, $*"]
    )


def test_what_cannot_be_evaluated_is_refused_in_a_line_when_tests_are_collected(
    repository: SampleRepository, run_pytest: RunPytest
) -> None:
    refused = {
        '"absent.csv"': "*  absent.csv: there is no such file*",
        '"../answers.jsonl", metrics=["no_such"]': "*There is no evaluator called 'no_such'*",
        '"../answers.jsonl", colour="red"': "*colour: there is no such field*",
        '"../answers.jsonl", metrics="rouge", limits={"not_one": 1}': "*There is no evaluator called 'not_one'*",
    }
    for number, arguments in enumerate(refused):
        (repository.root / "tests" / f"test_refused_{number}.py").write_text(suite(arguments))
    result = run_pytest("--continue-on-collection-errors", "--collect-only", "-q")
    result.assert_outcomes(errors=len(refused))
    result.stdout.fnmatch_lines(list(refused.values()))
    result.stdout.fnmatch_lines(["tests/test_answers.py::test_answers[[]opening hours[]]", "*[[]gate[]]"])
    assert "Traceback" not in result.stdout.str()
    assert "collect_suite" not in result.stdout.str()
    assert not (repository.root / ".leadline" / "runs").exists()  # collecting evaluates nothing


def test_functions_that_ask_for_the_same_share_a_run_and_data_may_be_in_memory(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        """
        import pytest

        ROWS = [{"case": "a\\n" + "b" * 200, "actual_answer": "One."}, {"case": "c[d]::e", "actual_answer": "Two."}]

        @pytest.mark.leadline(ROWS, metrics="pii_leakage")
        class TestAnswers:
            def test_short(self, leadline_case):
                assert len(leadline_case.answer) < 5

            def test_told(self, leadline_case):
                assert leadline_case.scores["pii_leakage.pii_generation_leakages"] == 0
        """
    )
    run_pytest().assert_outcomes(passed=8)
    assert len(list((pytester.path / ".leadline" / "runs").iterdir())) == 1


def test_a_function_is_asked_for_the_answers_of_its_cases(pytester: pytest.Pytester, run_pytest: RunPytest) -> None:
    pytester.makefile(".csv", questions='case,question,condition\na,Who?,"""Ada"""\nb,Where?,"""London"""\n')
    pytester.makepyfile(
        """
        import pytest

        def app(case):
            return {"Who?": "Ada.", "Where?": "In Paris."}[case.question]

        @pytest.mark.leadline("questions.csv", target=app, metrics="text_matching")
        def test_app(leadline_case):
            assert leadline_case.model == "app"
        """
    )
    result = run_pytest("--junitxml=junit.xml")
    assert outcomes(pytester.path / "junit.xml") == {
        "a": "passed",
        "b": "failure",
        "policy:text_matching.model_passes": "skipped",
        "gate": "skipped",
    }
    result.stdout.fnmatch_lines(["answer     In Paris."])


def test_the_answer_is_there_for_marked_tests_only(pytester: pytest.Pytester, run_pytest: RunPytest) -> None:
    pytester.makepyfile("def test_alone(leadline_case):\n    pass\n")
    result = run_pytest("-q")
    result.stdout.fnmatch_lines(["leadline_case is for tests that are marked: @pytest.mark.leadline(DATASET, …)."])
