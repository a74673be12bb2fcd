"""Naming the sides of a comparison: runs, tags, models and versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.evaluators.ground import UsageError
from leadline.tasks.compare.options import find, find_versions, match_models
from leadline.tasks.runs.lookup import all_tags, find_run, find_tagged, remove_tag, set_tag
from leadline.tasks.store.store import Store
from tests.tasks.compare.two_runs import completed


def simple_run(store: Store, run_id: str, status: str = "completed") -> None:
    store.run(run_id).path.mkdir(parents=True)
    store.run(run_id).update({"status": status})


class TestRuns:
    def test_latest_counts_back_over_completed_runs(self, store: Store) -> None:
        for run_id, status in (("a", "completed"), ("b", "completed"), ("c", "failed"), ("d", "completed")):
            simple_run(store, run_id, status)
        assert [find_run(store, name).id for name in ("latest", "latest~0", "latest~1", "latest~2")] == list("ddba")
        with pytest.raises(UsageError, match="Fewer than 4 runs"):
            find_run(store, "latest~3")

    @pytest.mark.parametrize(
        ("text", "model"),
        [("first", None), ("first:m", "m"), ("first:ollama/llama3:8b", "ollama/llama3:8b"), ("tag:prod", None),
         ("tag:prod:m", "m"), ("fir:m", "m"), (":m", "m")]
    )  # fmt: skip
    def test_a_side_is_a_run_and_perhaps_a_model(self, store: Store, text: str, model: str | None) -> None:
        simple_run(store, "first")
        simple_run(store, "second")
        set_tag(store, store.run("first"), "prod")
        found = find(store, text, beside=find(store, "first"))
        assert (found.run.id, found.model) == ("first", model)

    @pytest.mark.parametrize("text", ["", ":", "first:", "tag:", "third", "tag:none"])
    def test_what_is_no_side_is_refused(self, store: Store, text: str) -> None:
        simple_run(store, "first")
        with pytest.raises(UsageError):
            find(store, text)


class TestTags:
    def test_a_tag_moves_from_run_to_run(self, store: Store) -> None:
        for run_id in ("first", "second"):
            simple_run(store, run_id)
        assert set_tag(store, store.run("first"), "prod") is None
        before = set_tag(store, store.run("second"), "prod")
        assert before is not None
        assert before.id == "first"
        assert {name: run.id for name, (run, _) in all_tags(store).items()} == {"prod": "second"}
        remove_tag(store.run("second"), "prod")
        with pytest.raises(UsageError, match="No run in the store has the tag 'prod'"):
            find_tagged(store, "prod")
        with pytest.raises(UsageError, match="has no tag"):
            remove_tag(store.run("second"), "prod")

    def test_where_two_runs_have_a_tag_the_one_that_got_it_last_counts(self, store: Store) -> None:
        for run_id, when in (("first", "2026-01-02"), ("second", "2026-01-01")):
            simple_run(store, run_id)
            store.run(run_id).update({"tags": {"prod": when}})
        assert find_tagged(store, "prod").id == "first"

    @pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "a:b", "x" * 101])
    def test_odd_names_are_refused(self, store: Store, name: str) -> None:
        simple_run(store, "first")
        with pytest.raises(UsageError, match="cannot be a tag"):
            set_tag(store, store.run("first"), name)


class TestVersions:
    def test_the_youngest_runs_of_two_versions_are_found(self, store: Store, tmp_path: Path) -> None:
        runs = []
        for version, status in (("1", "completed"), ("1", "completed"), ("2", "completed"), ("2", "failed")):
            run = completed(tmp_path, {"m": [0.5]}, versions={"m": version}, record={"status": status})
            runs.append(run.id)
        runs.sort()
        by_version = {version: [run for run in runs if version_of(store, run) == version] for version in "12"}
        baseline, candidate = find_versions(store, "m", ("1", "2"))
        assert baseline.run.id == by_version["1"][-1]
        assert candidate.run.id == next(run for run in by_version["2"] if status_of(store, run) == "completed")
        assert (baseline.model, candidate.model) == ("m", "m")

    def test_a_run_of_the_same_suite_is_preferred(self, store: Store, tmp_path: Path) -> None:
        for version, suite in (("1", "large"), ("1", "small"), ("2", "large")):
            completed(tmp_path, {"m": [0.5]}, versions={"m": version}, record={"dataset_name": suite})
        baseline, candidate = find_versions(store, "m", ("1", "2"))
        assert baseline.run.read()["dataset_name"] == candidate.run.read()["dataset_name"] == "large"

    def test_an_unknown_version_names_those_there_are(self, store: Store, tmp_path: Path) -> None:
        completed(tmp_path, {"m": [0.5]}, versions={"m": "1"})
        with pytest.raises(UsageError, match="Versions of it: 1"):
            find_versions(store, "m", ("1", "2"))
        with pytest.raises(UsageError, match="leadline store runs"):
            find_versions(store, "other", ("1", "2"))


def version_of(store: Store, run: str) -> str:
    return str(store.run(run).read()["dataset"])[-1]


def status_of(store: Store, run: str) -> str:
    return str(store.run(run).read()["status"])


class TestModels:
    def test_names_match_where_keys_do_not(self) -> None:
        ours = [{"model_key": "bot@1", "name": "bot"}, {"model_key": "other", "name": "other"}]
        theirs = [{"model_key": "bot@2", "name": "bot"}, {"model_key": "new", "name": "new"}]
        found = match_models(ours, theirs)
        assert [(pair.baseline, pair.candidate) for pair in found.pairs] == [("bot@1", "bot@2")]
        assert (found.only_baseline, found.only_candidate) == (("other",), ("new",))

    def test_a_name_that_two_models_share_matches_nothing(self) -> None:
        ours = [{"model_key": "hot", "name": "bot"}, {"model_key": "cold", "name": "bot"}]
        theirs = [{"model_key": "warm", "name": "bot"}, {"model_key": "cold", "name": "bot"}]
        assert [pair.label for pair in match_models(ours, theirs).pairs] == ["cold"]
