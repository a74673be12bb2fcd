"""Optional packages: what is missing is told in one line that installs it, before anything runs."""

import sys

import pytest

from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.ground import UsageError, missing_packages, need_packages, package_version, packages
from leadline.evaluators.settings import Settings
from leadline.tasks.plan.selection import choose


def test_packages_that_are_not_here_are_named():
    assert missing_packages(["json", "no_such_package_of_ours"]) == ("no_such_package_of_ours",)
    need_packages("mine", ["json"])
    with pytest.raises(UsageError, match=r"mine needs the package no_such.*pip install 'leadline\[checks\]'"):
        need_packages("mine", ["no_such_package_of_ours"])


def test_keys_of_scores_cover_the_versions_of_packages(monkeypatch):
    for id_, package in (("chrf", "sacrebleu"), ("json_schema", "jsonschema"), ("sql_equivalence", "duckdb"),
                         ("language", "py3langid"), ("meteor", "nltk")):  # fmt: skip
        evaluator = get(id_)()
        assert package_version(package) in str(evaluator.identity(EvalContext()))
    assert package_version("yaml").startswith("PyYAML ")
    assert package_version("json") == sys.version
    assert package_version("no_such_package_of_ours") == ""


def test_an_evaluator_that_lacks_its_package_is_refused_by_name_and_left_out_of_suites(monkeypatch):
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="sql_equivalence needs the package sqlglot"):
        choose(None, ["sql_equivalence"], {}, Settings())
    assert "sqlglot is not installed" in choose("rules", [], {}, Settings()).left_out["sql_equivalence"]
