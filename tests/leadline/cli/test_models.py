"""``leadline evaluators models``: what is listed, what names stand for, and what is fetched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.cli.evaluators.models import _size
from leadline.cli.main import run
from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.ground import LeadlineError, ModelRef, ModelUnavailable
from leadline.evaluators.models import catalogue, weights

FLAN = catalogue.pinned("google/flan-t5-base", "language_model")


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def broken() -> set[str]:
    """Sources that cannot be fetched."""
    return set()


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, broken: set[str]) -> list[ModelRef]:
    """What was asked of the hub, in order."""
    asked: list[ModelRef] = []

    def pull(ref: ModelRef, *, allow_pickle: bool = False) -> Path:
        asked.append(ref)
        if ref.source in broken:
            raise ModelUnavailable(f"{ref} cannot be fetched: no route.", hint="Check the network.")
        return Path("folder")

    monkeypatch.setattr("leadline.cli.evaluators.models.fetch", pull)
    return asked


def test_a_repository_named_by_itself_is_fetched_whole_even_where_only_its_tokenizer_is_a_default(
    fetched: list[ModelRef],
) -> None:
    commit = str(FLAN.revision)
    for name in (FLAN.source, str(FLAN), f"{FLAN.source}@{commit}"):
        assert run(["evaluators", "models", "pull", name]) == 0
    assert fetched == [FLAN] * 3


@pytest.mark.parametrize("name", [*catalogue.GPT_SCORE_MODELS, "distilgpt2"])
def test_a_language_model_is_put_where_evaluators_look_for_it(name: str, fetched: list[ModelRef]) -> None:
    kind = get("gptscore_machine_translation")
    assert run(["evaluators", "models", "pull", name]) == 0
    assert tuple(fetched) == kind(kind.parameters.model_validate({"gpt_score_model": name})).models(EvalContext())


@pytest.mark.parametrize("name", ["original", "unbiased", "multilingual", "unitary/unbiased-toxic-roberta"])
def test_detoxifys_names_are_known_to_pull_as_to_the_evaluator(name: str, fetched: list[ModelRef]) -> None:
    kind = get("toxicity")
    assert run(["evaluators", "models", "pull", name]) == 0
    assert tuple(fetched) == kind(kind.parameters.model_validate({"toxicity_model": name})).models(EvalContext())


def test_another_commit_of_a_known_model_is_fetched_as_the_same_kind(fetched: list[ModelRef]) -> None:
    others = f"vectara/hallucination_evaluation_model@{'1' * 40}", f"gpt2-medium@{'2' * 40}"
    assert run(["evaluators", "models", "pull", *others]) == 0
    assert fetched[0] == ModelRef("consistency", "vectara/hallucination_evaluation_model", "1" * 40)
    assert (fetched[1].source, fetched[1].revision) == ("gpt2-medium", "2" * 40), "as evaluators take it"


def test_without_a_name_all_defaults_are_fetched_after_saying_how_much_that_is(
    fetched: list[ModelRef], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluators", "models", "pull"]) == 0
    said = capsys.readouterr().err
    assert {weights.BGE_SMALL_EN_V15, catalogue.TOXIC_BERT, catalogue.FLAN_T5_TOKENIZER} <= set(fetched)
    assert FLAN not in fetched
    size = sum(catalogue.download_size(ref) or 0 for ref in fetched)
    assert said.startswith(f"To fetch: {len(fetched)} sets of weights, about {_size(size)}.\n")
    assert "unitary/toxic-bert@4d6c22e7 (classifier): about 438 MB" in said.partition("Fetching")[0]


def test_a_failure_does_not_keep_the_others_from_being_fetched_and_all_are_reported(
    fetched: list[ModelRef], broken: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    broken |= {"a/a", "c/c"}
    assert run(["evaluators", "models", "pull", "a/a", "b/b", "c/c"]) == 3
    assert [ref.source for ref in fetched] == ["a/a", "b/b", "c/c"]
    streams = capsys.readouterr()
    assert streams.out == "b/b: folder\n"
    report = streams.err.partition("Error [LL-MODEL-04]: ")[2]
    assert "2 of 3 sets of weights could not be fetched" in report
    assert "a/a cannot be fetched: no route." in report
    assert "c/c cannot be fetched: no route." in report


def test_what_names_nothing_to_fetch_is_refused_before_anything_is_fetched(
    fetched: list[ModelRef], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, why in (
        ("no such model!", "names no model"),
        (str(tmp_path), "nothing to fetch"),
        ("bleu", "no weights"),
    ):
        assert run(["evaluators", "models", "pull", "a/a", name]) == 2
        assert why in capsys.readouterr().err
    assert fetched == []


def test_the_list_has_alternatives_and_about_how_much_there_is_to_fetch(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluators", "models", "--json"]) == 0
    listed = {(one["source"], one["kind"]): one for one in json.loads(capsys.readouterr().out)}
    for ref in catalogue.ALTERNATIVES:
        assert (ref.source, ref.kind) in listed
    assert listed[FLAN.source, "language_model"]["evaluators"] == []
    assert listed[FLAN.source, "language_model"]["download_bytes"] == 990_000_000
    assert listed[FLAN.source, "tokenizer"]["evaluators"] == ["hallucination"]
    assert listed["unitary/toxic-bert", "classifier"]["evaluators"] == ["toxicity"]
    assert listed["BAAI/bge-small-en-v1.5", "embedder"]["present"] is False
    assert all(one["download_bytes"] for one in listed.values() if one["source"] != "offline")
    assert run(["evaluators", "models"]) == 0
    shown = capsys.readouterr().out
    assert "about 131 GB" in shown
    assert "no: " in shown


def test_every_pinned_model_has_a_size() -> None:
    assert catalogue.BYTES.keys() == weights.PINNED.keys()


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (2, "2 B"),
        (2000, "2 kB"),
        (999_000_000, "999 MB"),
        (1_520_000_000, "1.5 GB"),
        (24e9, "24 GB"),
        (2e15, "2000 TB"),
    ],
)
def test_sizes_are_shown_to_two_digits_or_more(size: float, shown: str) -> None:
    assert _size(size) == shown


def test_a_single_failure_is_reported_as_it_is(
    fetched: list[ModelRef], broken: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    broken.add("a/a")
    assert run(["evaluators", "models", "pull", "a/a"]) == LeadlineError.exit_code == 3
    assert "a/a cannot be fetched: no route. Check the network." in capsys.readouterr().err
