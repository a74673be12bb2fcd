"""``leadline.sarif``: closed objects as SARIF 2.1.0 has them, hostile texts, and links that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from leadline.tasks.publish.exports.exporter import export_run
from leadline.tasks.publish.exports.sarif import MOST
from tests.tasks.publish.sample import make_sample

OBJECTS: Final = {
    "log": ({"$schema", "version", "runs"}, {"version", "runs"}),
    "run": ({"tool", "automationDetails", "columnKind", "properties", "results"}, {"tool"}),
    "driver": ({"name", "semanticVersion", "rules"}, {"name"}),
    "rule": (
        {"id", "name", "shortDescription", "fullDescription", "defaultConfiguration", "properties"},
        {"id"},
    ),
    "result": (
        {"ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints", "properties"},
        {"message"},
    ),
    "location": ({"physicalLocation", "logicalLocations"}, set()),
    "place": ({"artifactLocation", "region"}, {"artifactLocation"}),
}
"""Of each object of the standard's that is written: properties that it may have here, all the standard's, and must."""


def check(kind: str, found: dict[str, Any]) -> None:
    may, must = OBJECTS[kind]
    assert must <= found.keys() <= may, kind


@pytest.fixture(scope="module")
def sarif(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sarif")
    store, run = make_sample(folder / "store", cases=60)
    [file] = export_run(store, run, "sarif", folder)
    assert file.name == "leadline.sarif"
    return dict(json.loads(file.read_text(encoding="utf-8")))


def test_every_object_has_the_standards_properties(sarif: dict[str, Any]) -> None:
    check("log", sarif)
    assert sarif["version"] == "2.1.0"
    [run] = sarif["runs"]
    check("run", run)
    assert run["tool"].keys() == {"driver"}
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    check("driver", run["tool"]["driver"])
    for rule in run["tool"]["driver"]["rules"]:
        check("rule", rule)
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
        assert len(rule["properties"]["tags"]) == len(set(rule["properties"]["tags"]))
    for result in run["results"]:
        check("result", result)
        check("location", result["locations"][0])
        check("place", result["locations"][0]["physicalLocation"])
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_each_failing_row_is_a_result_that_is_the_same_in_the_next_run(sarif: dict[str, Any]) -> None:
    results = sarif["runs"][0]["results"]
    assert 0 < len(results) <= MOST
    prints = [result["partialFingerprints"]["leadlineRow/v1"] for result in results]
    assert len(set(prints)) == len(prints)
    assert {result["level"] for result in results} <= {"error", "warning"}
    errors = [result["level"] == "error" for result in results if not result["properties"]["newlyBroken"]]
    assert errors == sorted(errors, reverse=True), "what must hold comes first"


def test_messages_are_short_and_have_no_links(sarif: dict[str, Any]) -> None:
    for result in sarif["runs"][0]["results"]:
        text = result["message"]["text"]
        assert 0 < len(text) <= 2_100
        assert "\u202e" not in text
        assert "\x1b" not in text
        plain = text.replace("\\\\", "").replace("\\[", "").replace("\\]", "")
        assert "[" not in plain
        assert "]" not in plain


def test_a_path_of_the_dataset_is_no_address_of_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store, run = make_sample(tmp_path / "store", cases=10)
    run.update({"dataset_source": str(tmp_path / "eval" / "my answers#1.csv")})
    export_run(store, run, "sarif", tmp_path)
    results = json.loads((tmp_path / "leadline.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
    places = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results}
    assert places == {"eval/my%20answers%231.csv"}


@pytest.mark.parametrize("root", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR", ".git"])
def test_in_a_monorepo_paths_are_seen_from_the_root_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    service = tmp_path / "services" / "bot"
    service.mkdir(parents=True)
    monkeypatch.chdir(service)
    for variable in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    if root == ".git":
        (tmp_path / root).mkdir()
    else:
        monkeypatch.setenv(root, str(tmp_path))
    store, run = make_sample(tmp_path / "store", cases=10)
    run.update({"dataset_source": str(service / "eval" / "answers.csv")})
    export_run(store, run, "sarif", tmp_path)
    result, *_ = json.loads((tmp_path / "leadline.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "services/bot/eval/answers.csv", "uriBaseId": "%SRCROOT%"}
