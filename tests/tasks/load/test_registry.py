"""A dataset format is one class; what users see of it comes from the registry."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from docs.build import column_table, format_table
from leadline.evaluators.ground import UsageError
from leadline.tasks.load.columns import Columns
from leadline.tasks.load.formats import registry
from leadline.tasks.load.formats.base import DatasetFormat
from leadline.tasks.load.values import filled, key, text, texts
from tests.support.datasets.loading import as_jsonl, faults, load, rows

DATASETS = Path(__file__).parents[3] / "docs" / "datasets.md"


class Quiz(DatasetFormat):
    """Reads the records of a made-up quiz."""

    name = "quiz"
    title = "Quiz"
    recognised_by = "`riddle`"
    columns: ClassVar[Columns] = {
        "number": ("case", key),
        "riddle": ("question", filled),
        "solutions": ("expected", texts),
        "guess": ("answer", text),
    }
    sections = ("riddles", "evening.riddles")
    question_column = "riddle"
    answer_column = "guess"

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are riddles."""
        return float("riddle" in names)


@pytest.fixture
def quiz(monkeypatch: pytest.MonkeyPatch) -> type[Quiz]:
    registry.all_formats()
    monkeypatch.setattr(registry.FORMATS, "_found", dict(registry.FORMATS._found))
    return registry.register(Quiz)


RIDDLES: list[dict[str, Any]] = [
    {"number": 1, "riddle": "Wet twice a day?", "solutions": ["a mudflat"], "guess": "a beach", "table": 4},
    {"number": 2, "riddle": "Blinks and never sleeps?", "solutions": ["a lighthouse"], "guess": "a lighthouse"},
]


@pytest.mark.parametrize(
    "content", [RIDDLES, as_jsonl(RIDDLES), {"riddles": RIDDLES}, {"evening": {"riddles": RIDDLES}, "name": "Quiz 1"}]
)
def test_a_registered_format_is_recognised_in_lists_lines_and_documents(
    tmp_path: Path, quiz: type[Quiz], content: Any
) -> None:
    loaded = load(tmp_path, "team.json", content)
    assert (loaded.format, loaded.models) == ("quiz", ("team",))
    first = rows(loaded)["1", "team"]
    assert (first["question"], first["expected_answers"]) == ("Wet twice a day?", ["a mudflat"])
    assert (first["actual_answer"], first["metadata"]) == ("a beach", {"table": 4})


def test_a_registered_format_is_offered_wherever_formats_are_listed(tmp_path: Path, quiz: type[Quiz]) -> None:
    from leadline.flows.evaluate.config import EvaluateConfig

    assert EvaluateConfig(dataset="d.json", format="quiz").format == "quiz"
    assert "quiz" in EvaluateConfig.model_json_schema()["properties"]["format"]["enum"]
    (fault,) = faults(tmp_path, "d.json", [{"x": 1}])
    assert "riddle and guess (Quiz)" in fault
    assert "| Quiz | `quiz` | `riddle` |" in format_table()


def test_the_command_line_offers_every_format() -> None:
    from leadline.cli.evaluate import evaluate

    shown = CliRunner().invoke(evaluate, ["--help", "--all"], terminal_width=500).output
    assert f"--format [{'|'.join(registry.format_choices())}]" in shown


def test_other_packages_bring_formats_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quizzes.py").write_text(
        "from leadline.tasks.load.formats.records import Deepeval\n"
        "from leadline.tasks.load.formats.registry import register\n"
        "@register\nclass Quizzes(Deepeval):\n    name = 'quizzes'\n"
    )
    package = tmp_path / "quizzes-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: quizzes\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[leadline.formats]\nquizzes = quizzes\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry.FORMATS, "_found", dict(registry.all_formats()))
    monkeypatch.setattr(registry.FORMATS, "_complete", False)
    assert "quizzes" in registry.format_choices()


def test_two_formats_of_one_name_are_refused(quiz: type[Quiz]) -> None:
    other = type("Other", (Quiz,), {"__doc__": "Another quiz."})
    with pytest.raises(UsageError, match="Two dataset formats are called 'quiz'"):
        registry.register(other)


def test_an_unknown_format_is_refused_with_the_choices() -> None:
    with pytest.raises(UsageError) as refused:
        registry.get_format("excel")
    assert str(refused.value).startswith("There is no dataset format called 'excel'.")
    assert "coco, databricks, deepeval, deepeval-conversations, h2o-dataset" in str(refused.value.hint)


def test_the_documentation_lists_the_registered_formats_and_the_names_of_columns() -> None:
    assert format_table() in DATASETS.read_text(encoding="utf-8")
    assert column_table() in DATASETS.read_text(encoding="utf-8")
