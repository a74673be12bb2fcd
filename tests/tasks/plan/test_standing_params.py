"""``[privacy] allow`` of leadline.toml holds for every privacy evaluator, named or not, beside its own parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.evaluators.ground import UsageError
from leadline.evaluators.settings import Settings
from leadline.tasks.plan.selection import choose, standing_params


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_may_be_told_holds_whether_or_not_the_evaluator_is_named() -> None:
    Path("leadline.toml").write_text('[privacy]\nallow = ["@acme.com"]\n')
    for ids, params in ((("pii_leakage",), {}), ((), {"pii_leakage": {"rules": ["email"]}}), ((), {})):
        chosen = choose(None, ids, params, Settings(), standing_params())
        (pii,) = [each for each in chosen.evaluators if each.spec.id == "pii_leakage"]
        assert pii.params.allow == ("@acme.com",)


def test_a_parameter_of_the_run_goes_before_it() -> None:
    Path("leadline.toml").write_text('[privacy]\nallow = ["@acme.com"]\n')
    chosen = choose(None, ["pii_leakage"], {"pii_leakage": {"allow": ["a@b.org"]}}, Settings(), standing_params())
    assert [each.params.allow for each in chosen.evaluators] == [("a@b.org",)]


def test_without_the_table_nothing_stands_and_another_form_is_refused() -> None:
    assert standing_params() == {}
    Path("leadline.toml").write_text('[privacy]\nallow = "@acme.com"\n')
    with pytest.raises(UsageError, match="is a list of texts"):
        standing_params()
