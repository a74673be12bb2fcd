"""Projects: stores, budgets, judges and keys apart from those of others, in this process and those that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.evaluators.ground import SCOPE_VARIABLE, ProjectScope, UsageError, in_project, project_scope
from leadline.evaluators.judge_client.budget import team_budget
from leadline.evaluators.judge_client.choice import find_judges
from leadline.flows.deploy.file import of_project, read_deployment_file
from leadline.flows.dispatch.pools import deployment_name
from leadline.flows.shared.projects import enter, projects
from leadline.tasks.store.store import Store

FILE = """
[budgets.search]
month_calls = 5
[budgets.ads]

[judges.small]
model = "openai/small"
[judges.large]
model = "openai/large"
default = true

[projects.search]
store = "stores/search"
team = "search"
judges = ["small"]
keys = { OPENAI_API_KEY = "SEARCH_OPENAI" }

[projects.ads]
store = "stores/ads"
team = "ads"
keys = { OPENAI_API_KEY = "ADS_OPENAI", AWS_SECRET_ACCESS_KEY = "ADS_AWS" }
ledger_env = "ADS_LEDGER"
"""
KEYS = {
    "SEARCH_OPENAI": "canary-search-key", "ADS_OPENAI": "canary-ads-key", "ADS_AWS": "canary-ads-aws",
    "ADS_LEDGER": "postgresql://u:canary-ads-ledger@h/d", "OPENAI_API_KEY": "canary-shared", "PATH": "/bin",
    "LEADLINE_LEDGER": "postgresql://shared", "LEADLINE_TEAM": "ads",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leadline.toml").write_text(FILE)
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_a_process_has_its_own_keys_and_those_of_no_other_project() -> None:
    environment = dict(KEYS)
    enter("search", environment)
    assert environment["OPENAI_API_KEY"] == "canary-search-key"
    assert "canary-ads" not in str(environment)
    assert "canary-shared" not in str(environment)
    assert environment["PATH"] == "/bin"
    assert environment["LEADLINE_STORE"] == str(Path("stores/search").resolve())
    assert environment["LEADLINE_TEAM"] == "search"
    assert "LEADLINE_LEDGER" not in environment, "the ledger is in its store"


def test_a_ledger_of_its_own_comes_from_the_variable_that_is_named() -> None:
    environment = dict(KEYS)
    enter("ads", environment)
    assert environment["LEADLINE_LEDGER"] == KEYS["ADS_LEDGER"]
    del (without := dict(KEYS))["ADS_LEDGER"]
    with pytest.raises(UsageError, match="ADS_LEDGER, which is not set"):
        enter("ads", without)


def test_entering_again_changes_nothing_and_no_process_changes_its_project() -> None:
    environment = dict(KEYS)
    scope = enter("search", environment)
    before = dict(environment)
    assert enter("search", environment) == scope
    assert environment == before
    with pytest.raises(UsageError, match="not of the project 'search'"):
        enter("ads", environment)


def test_no_other_store_is_opened(tmp_path: Path) -> None:
    Store.open("stores/ads")
    enter("search", os.environ)
    own = Store.open(None)
    assert own.root == Path("stores/search").resolve()
    assert Store.open("stores/../stores/search").root.resolve() == own.root
    (tmp_path / "link").symlink_to("stores/ads")
    for other in ("stores/ads", "link", "s3://bucket/ads", str(tmp_path / "stores" / "ads")):
        with pytest.raises(UsageError, match="not of the project"):
            Store.open(other)


def test_a_store_in_a_bucket_is_known_by_its_address() -> None:
    os.environ.update(ProjectScope("search", "s3://bucket/search").to_environment())
    with pytest.raises(UsageError, match="not of the project"):
        Store.open("s3://bucket/ads")
    with pytest.raises(UsageError, match="not of the project"):
        Store.open("s3://bucket/search/../ads")
    with pytest.raises(UsageError, match="not of the project"):
        Store.open("stores/search")


def test_calls_count_against_its_own_team() -> None:
    environment = dict(KEYS)
    enter("search", environment)
    budget = team_budget(None, None, environment)
    assert budget is not None
    assert budget.team == "search"
    with pytest.raises(UsageError, match="not of the project"):
        team_budget("ads", None, environment)


def test_its_judges_alone_are_asked_the_first_by_default() -> None:
    environment = dict(KEYS)
    enter("search", environment)
    assert [judge.key for judge in find_judges(None, None, None, environment)] == ["small"]
    for model, base in (("large", None), ("openai/other", None), ("small", "http://elsewhere/v1")):
        with pytest.raises(UsageError, match="not of the project"):
            find_judges(model, base, None, environment)
    assert find_judges("large", None, None, {})[0].key == "large", "who belongs to no project is free"


@pytest.mark.parametrize(
    "text",
    [
        "projects = 1", "[projects.search]", '[projects.search]\nstore = ""', '[projects."A B"]\nstore = "a"',
        '[projects.a]\nstore = "s"\n[projects.b]\nstore = "./s"', '[projects.a]\nstore = "s"\nother = 1',
        '[projects.a]\nstore = "s"\nkeys = { OPENAI_API_KEY = "sk-abc 123" }'
    ]
)  # fmt: skip
def test_what_is_written_wrongly_is_refused_in_one_line(text: str) -> None:
    Path("leadline.toml").write_text(text)
    with pytest.raises(UsageError) as refused:
        projects()
    assert "\n" not in str(refused.value)
    assert "sk-abc" not in str(refused.value)


def test_a_scope_that_was_tampered_with_is_refused() -> None:
    for text in ("{", "[]", '{"project": 1}', '{"project": "a", "store": "b", "more": 1}'):
        with pytest.raises(UsageError, match=SCOPE_VARIABLE):
            project_scope({SCOPE_VARIABLE: text})


def test_pools_and_deployments_have_names_of_their_own() -> None:
    file = of_project(read_deployment_file(), "search")
    assert [pool.name for pool in file.work_pools] == ["flows-search", "cpu-search", "gpu-search", "judge-search"]
    assert {one.work_pool.name for one in file.deployments} <= {pool.name for pool in file.work_pools}
    assert "evaluate-search" in {one.name for one in file.deployments}
    assert not any(one.triggers for one in file.deployments)
    assert file.automations == ()
    assert (in_project("cpu"), deployment_name("cpu")) == ("cpu", "score-chunk/cpu")
    os.environ.update(ProjectScope("search", "/s").to_environment())
    assert (in_project("cpu"), deployment_name("cpu")) == ("cpu-search", "score-chunk/cpu-search")


def leadline(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **KEYS, "PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                   "XDG_STATE_HOME": str(Path("state").absolute()), **more}  # fmt: skip
    del environment["LEADLINE_TEAM"]
    return subprocess.run(
        [sys.executable, "-m", "leadline.cli.main", *arguments],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_commands_keep_projects_apart() -> None:
    rows = [{"case": f"c{n}", "model": "m", "expected_answer": "a b", "actual_answer": "a b"} for n in range(3)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = leadline("evaluate", "rows.jsonl", "-e", "bleu", "--server", "none", "--project", "search")
    assert done.returncode == 0, done.stderr
    assert list(Path("stores/search/runs").iterdir())
    assert not Path("stores/ads").exists()
    assert len(leadline("--project", "search", "store", "runs").stdout.splitlines()) == 3
    assert "No runs" in leadline("store", "runs", LEADLINE_PROJECT_NAME="ads").stderr
    other = leadline("store", "runs", "--project", "ads", "--store", "stores/search")
    assert other.returncode == 2
    assert "LL-CONFIG-11" in other.stderr
    unknown = leadline("store", "runs", "--project", "serach")
    assert (unknown.returncode, len(unknown.stderr.splitlines())) == (2, 1)
    assert "there are ads, search" in unknown.stderr
