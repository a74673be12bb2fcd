"""A judge that errs, labelled by people: what show, report and gate say, and what a changed prompt leaves of that."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from leadline.cli.main import run
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.judges.labelled_answers import METRIC, draw, is_bad, judge_of_accuracy

ROWS: Final = 150
TEMPLATE: Final = "Question: {%s}\nAnswer: {%s}\nIs it %s? Reply with one word, true or false."
WORDS: Final = ("fine", "really fine", "fine in every way")
"""What three versions of the prompt ask."""

_ASKED: Final = re.compile(r"Answer (\d+) is (fine|vile).*Is it ([a-z ]+)\?", re.DOTALL)


def _reply(question: Question) -> str:
    """Say the truth of 90 % of the answers, by each prompt of others."""
    found = _ASKED.search(question.text)
    assert found is not None
    right = draw(found[3], int(found[1])) < 0.9
    return str((found[2] == "fine") == right).lower()


def _in_a_file(words: str) -> list[str]:
    """Write the prompt into the file of a judge of one's own."""
    folder = Path("own")
    folder.mkdir(exist_ok=True)
    prompt = TEMPLATE % ("question", "actual_answer", words)
    judge = {"id": "tone", "name": "Tone", "description": "Whether the answer is fine.", "prompt": prompt,
             "classes": ["false", "true"], "passing": ["true"]}  # fmt: skip
    (folder / "tone.yaml").write_text(json.dumps(judge), encoding="utf-8")  # JSON is YAML
    return ["--evaluators-dir", "own", "-e", "tone"]


def _as_a_parameter(words: str) -> list[str]:
    """Give the prompt on the command line."""
    prompt = json.dumps(TEMPLATE % ("INPUT", "ACTUAL_OUTPUT", words))
    return ["-e", "byop", "--param", f"byop.prompt_template={prompt}"]


def _in_the_settings(words: str) -> list[str]:
    """Write the prompt into ``leadline.toml``."""
    prompt = json.dumps(TEMPLATE % ("INPUT", "ACTUAL_OUTPUT", words))
    kept = Path("leadline.toml").read_text(encoding="utf-8").partition("[evaluate")[0]
    Path("leadline.toml").write_text(f"{kept}[evaluate.params.byop]\nprompt_template = {prompt}\n", encoding="utf-8")
    return ["-e", "byop"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_STORE", raising=False)


@pytest.fixture
def judge() -> Iterator[JudgeEndpoint]:
    with serving(JudgeEndpoint(reply=_reply)) as endpoint:
        rules = "".join(f'[policy.rules.{name}]\nrole = "should"\nthreshold = 0.5\n' for name in ("tone", "byop"))
        Path("leadline.toml").write_text(endpoint.toml("small") + rules, encoding="utf-8")
        yield endpoint


def _answers(name: str, number: int = ROWS) -> str:
    lines = [
        {"case": f"{name}{n}", "model": "bot", "question": f"Question {n} of {name}?",
         "actual_answer": f"Answer {n} is {'vile' if is_bad(n) else 'fine'}."}
        for n in range(number)
    ]  # fmt: skip
    Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return f"{name}.jsonl"


class Person:
    """Whoever types ``leadline``."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.report = Path()
        """Of the last run."""

    def types(self, *arguments: str, code: int = 0) -> str:
        self.capsys.readouterr()
        found = run(list(arguments))
        said = self.capsys.readouterr()
        assert found == code, said.err + said.out
        return said.out

    def gates(self, dataset: str, *prompt: str, code: int) -> tuple[str, str]:
        """Evaluate with a gate on corrected values; returns the gate and its reason."""
        asked = ("--fail-on", "high", "--gate-on", "corrected", "--server", "none", "--json")
        outcome = json.loads(self.types("--quiet", "evaluate", dataset, *prompt, *asked, code=code))
        self.report = Path(outcome["report"])
        return outcome["gate"], outcome["gate_reason"]

    def labels(self, metric: str, *people: str) -> int:
        """Let people say the truth of 100 rows of the last run, and return how many rows it was."""
        self.types("labels", "sample", "latest", "--metric", metric, "--n", "100", "-o", "tasks.jsonl")
        tasks = [json.loads(line) for line in Path("tasks.jsonl").read_text(encoding="utf-8").splitlines()]
        said = [task | {"person": who, "value": int("fine" in task["answer"])} for who in people for task in tasks]
        Path("said.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said), encoding="utf-8")
        self.types("labels", "import", "said.jsonl")
        return len(tasks)

    def certificate(self) -> dict[str, Any]:
        [found] = json.loads(self.types("show", "latest", "--json"))["certificates"]
        return dict(found)


@pytest.mark.parametrize(
    ("prompt", "metric"),
    [
        (_in_a_file, "tone.model_passes"),
        pytest.param(_as_a_parameter, "byop.model_passes", marks=pytest.mark.soak),
        pytest.param(_in_the_settings, "byop.model_passes", marks=pytest.mark.soak),
    ],
)
def test_labels_survive_another_prompt_and_a_certificate_of_other_rows_does_not(
    judge: JudgeEndpoint, capsys: pytest.CaptureFixture[str], prompt: Callable[[str], list[str]], metric: str
) -> None:
    person = Person(capsys)
    first, second = _answers("first"), _answers("second")
    gate, why = person.gates(first, *prompt(WORDS[0]), code=1)
    assert gate == "inconclusive"
    assert re.search(rf"leadline labels sample [\w-]+ --metric {re.escape(metric)}", why), why
    labelled = person.labels(metric, "anna")
    earned = person.certificate()
    assert earned["state"] == "valid"

    asked = len(judge.log)
    assert person.gates(first, *prompt(WORDS[1]), code=0)[0] == "pass"
    assert len(judge.log) == asked + ROWS
    again = person.certificate()
    assert (again["state"], again["borrowed"], again["n_labels"]) == ("valid", False, labelled)
    assert again["earned_config"] != earned["earned_config"]

    gate, why = person.gates(second, *prompt(WORDS[2]), code=1)
    assert gate == "inconclusive"
    command = rf"leadline judges certify [\w-]+ --metric {re.escape(metric)} \({labelled} labelled rows to judge\)"
    assert re.search(command, why), why
    assert person.certificate()["state"] == "stale"
    asked = len(judge.log)
    assert ": valid" in person.types("judges", "certify", "latest", "--metric", metric)
    assert len(judge.log) == asked + labelled
    borrowed = person.certificate()
    assert (borrowed["state"], borrowed["borrowed"]) == ("valid", True)
    for certified in WORDS[:0:-1]:
        gate, why = person.gates(second, *prompt(certified), code=1)
        assert gate == "inconclusive"
        said = r"none is of this run's answers of model bot: leadline labels sample [\w-]+ --metric "
        assert re.search(said + re.escape(metric), why), why


def test_a_judge_of_85_percent_is_corrected_certified_stale_and_decides_by_what_people_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    person = Person(capsys)

    def judged(temperature: float = 0.0, limit: float = 0.5) -> tuple[str, str]:
        """Configure the judge and the policy, and return what to type for it."""
        rule = f'[policy.rules.sexism]\nrole = "should"\nthreshold = {limit}\n'
        judge = endpoint.toml("small", model="openai/small", temperature=temperature)
        Path("leadline.toml").write_text(judge + rule, encoding="utf-8")
        return "-e", "sexism"

    with serving(judge_of_accuracy({"small": 0.85})) as endpoint:
        dataset = _answers("first", 300)
        gate, why = person.gates(dataset, *judged(), code=1)
        assert gate == "inconclusive"
        assert f" --metric {METRIC}" in why.partition("leadline labels sample ")[2]

        assert person.labels(METRIC, "anna", "ben") >= 100
        shown = person.types("show", "latest")
        assert " · corrected 7" in shown
        assert "labels of 2 people" in shown
        assert " · valid" in shown
        asked = len(endpoint.log)
        assert person.gates(dataset, *judged(), code=0)[0] == "pass"
        assert "people 7" in person.report.read_text(encoding="utf-8")
        gate, why = person.gates(dataset, *judged(limit=0.9), code=1)
        assert gate == "fail"
        assert "of the answers are good" in why
        assert len(endpoint.log) == asked

        gate, why = person.gates(_answers("second", 300), *judged(temperature=0.3), code=1)
        assert gate == "inconclusive"
        assert "earned with another prompt or judge: leadline judges certify" in why
        assert " · stale: earned with another prompt or judge; judging 1" in person.types("show", "latest")
        asked = len(endpoint.log)
        assert ": valid" in person.types("judges", "certify", "latest")
        assert 100 <= len(endpoint.log) - asked < 120
        assert "borrowed from other rows" in person.types("show", "latest")
