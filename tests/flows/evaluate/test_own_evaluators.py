"""The Python files with a user's own evaluators: where they are named, and what a change of one costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.evaluators.core import registry
from leadline.evaluators.ground import UsageError
from leadline.flows.evaluate.config import EvaluateConfig, Judges
from leadline.flows.evaluate.prepare import preview, settings_of

OWN = """
import leadline

@leadline.register
class Own(leadline.RowEvaluator):
    spec = leadline.Spec.simple("own", inputs=["actual_answer"], higher_is_better=True)

    def score_row(self, row, ctx):
        return leadline.RowScore({"own": 1.0})
"""


def test_the_options_and_the_configuration_file_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert settings_of(EvaluateConfig(dataset="d.csv")).evaluator_files == ()
    named = EvaluateConfig(dataset="d.csv", evaluator_files=("mine.py", "ours/theirs.py"))
    assert settings_of(named).evaluator_files == (str(tmp_path / "mine.py"), str(tmp_path / "ours/theirs.py"))
    (tmp_path / "ours").mkdir()
    toml = tmp_path / "ours" / "leadline.toml"
    toml.write_text("[evaluators]\nfiles = ['theirs.py']\n")
    both = named.model_copy(update={"judges": Judges(config=str(toml))})
    assert settings_of(both).evaluator_files == (str(tmp_path / "mine.py"), str(tmp_path / "ours/theirs.py"))


@pytest.mark.parametrize("text", ["evaluators = 3", "[evaluators]\nfiles = 'mine.py'", "[evaluators]\nfiles = [3]"])
def test_a_broken_configuration_file_is_refused(text: str, tmp_path: Path) -> None:
    toml = tmp_path / "leadline.toml"
    toml.write_text(text)
    with pytest.raises(UsageError, match=r"leadline.toml: the files of \[evaluators\] are a list of names"):
        settings_of(EvaluateConfig(dataset="d.csv", judges=Judges(config=str(toml))))


def test_a_plan_counts_what_they_would_compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry.all_evaluators()))
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "d.csv").write_text("question,actual_answer\nWho?,Ada\nWhere?,Rome\n")
    config = EvaluateConfig(
        dataset=str(tmp_path / "d.csv"), evaluators=("own",), evaluator_files=(str(tmp_path / "own.py"),),
        store=str(tmp_path / "store"),
    )  # fmt: skip
    (entry,) = preview(config).entries
    assert (entry.evaluator, entry.to_compute) == ("own", 2)
