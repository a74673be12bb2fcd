"""Built-in evaluators that are prompts with front matter: found by their files' names, refused when broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.evaluators.core import all_evaluators, get, registry, unregister
from leadline.evaluators.data import ContextChunk, Row, RowField
from leadline.evaluators.ground import UsageError
from leadline.evaluators.judge.file_evaluators import register_built_in
from leadline.evaluators.judge.judge_file import built_in_file
from tests.support.judges.judged import ScriptedJudge, one, value

FILES = registry._prompt_files()
RELEVANT = """---
id: acme_relevant
name: Relevant
origin: leadline
description: Share of the chunks that are relevant.
source: nowhere
inputs: [question, retrieved_context]
shows: {question: question}
verdicts:
  of: contexts
  message: "{yes} of {all} in {yes.__class__}."
  noted: [relevant, beside the point]
---
Are these relevant to {{ question | data("question") }}?
{% for context in items %}
{{ context | data("context") }}
{% endfor %}
"""
ROW = Row("c", "m", "the question", (), (ContextChunk("one"), ContextChunk("two")), "the answer")


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "retrieval"
    folder.mkdir()
    yield folder
    if "acme_relevant" in registry._registered:
        unregister(registry._registered["acme_relevant"])


def written(folder: Path, text: str = RELEVANT) -> Path:
    file = folder / "acme_relevant.jinja"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("id_", FILES)
def test_a_file_is_called_as_its_evaluator_and_lives_in_its_family(id_: str) -> None:
    kind = get(id_)
    assert kind.spec.id == id_
    assert kind.spec.family == FILES[id_].parent.name
    assert all_evaluators()[id_] is kind
    assert kind.spec.origin in ("h2o", "valor", "databricks", "leadline")


@pytest.mark.parametrize("id_", FILES)
def test_a_prompt_begins_where_the_front_matter_ends(id_: str) -> None:
    text = FILES[id_].read_text(encoding="utf-8")
    assert text.endswith(f"\n---\n{built_in_file(FILES[id_]).prompt}")
    assert text.count("\n---\n") == 1


def test_nothing_but_the_file_that_is_asked_for_is_read() -> None:
    code = (
        "import sys; from leadline.evaluators.core import registry; registry.find('bleu');"
        "print('yaml' in sys.modules, 'leadline.evaluators.judge.judge_file' in sys.modules);"
        "registry.find('valor.bias'); print(sorted(registry._prompt_files().keys() & registry._registered))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False", "['valor.bias']"]


def test_verdicts_on_contexts_are_a_share_with_spans(family: Path) -> None:
    kind = register_built_in(written(family))
    assert (kind.spec.family, kind.spec.required) == ("retrieval", (RowField.QUESTION, RowField.RETRIEVED_CONTEXT))
    judge = ScriptedJudge({"": {"verdicts": [{"verdict": "yes"}, {"verdict": "no"}]}})
    score = one("acme_relevant", judge, ROW)
    assert value(score) == 0.5
    assert score.evidence.message == "1 of 2 in {yes.__class__}."
    assert [span.note for span in score.evidence.spans] == ["relevant", "beside the point"]


FAULTS = [
    ("---\nid", "id", "has no front matter between two lines of three hyphens"),
    ("---\nAre", "Are", "has no front matter between two lines of three hyphens"),
    ("shows: {question: question}", "shows: {question: weather}", "shows.question.0: 'weather' is none of"),
    ("inputs: [question, retrieved_context]\n", "", "inputs is missing"),
    ("verdicts:\n", "rating: true\nverdicts:\n", "give one of classes, scale, rating and verdicts"),
    ("shows: {question: question}", "shows: {truth: expected_answer}", "prompts that show no expected answer"),
    ("  of: contexts", "  of: claims", "contexts need noted, and nothing else does"),
    ("name: Relevant", "name: [", "line 5: this is no YAML"),
    ("verdicts:\n", "context_as: text\nverdicts:\n", "context_as is for classes"),
]


@pytest.mark.parametrize(("right", "wrong", "said"), FAULTS)
def test_a_fault_names_the_file(family: Path, right: str, wrong: str, said: str) -> None:
    assert right in RELEVANT
    with pytest.raises(UsageError) as caught:
        register_built_in(written(family, RELEVANT.replace(right, wrong)))
    assert str(family / "acme_relevant.jinja") in str(caught.value)
    assert said in str(caught.value)
