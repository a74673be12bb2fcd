"""Digests, keys, scores, aggregates, problems and insights of the sample dataset are those that were recorded."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.golden.record import HERE, TABLES, configurations, sample_run


def recorded(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return sample_run(tmp_path_factory.mktemp("golden"))


def parts(value: str) -> list[str | float]:
    """Return a text taken apart into words and the numbers with a point between them."""
    found = re.split(r"(\d+\.\d+)", value)
    return [float(part) if number % 2 else part for number, part in enumerate(found)]


def same(value: Any, golden: Any) -> bool:
    """Return whether two values differ by the rounding of another processor at most."""
    if isinstance(value, str) and isinstance(golden, str):
        return value == golden or (same(parts(value), parts(golden)) if parts(value) != [value] else False)
    if isinstance(value, float) and isinstance(golden, float):
        return value == golden or abs(value - golden) <= 1e-4 * max(1.0, abs(golden))
    if isinstance(value, dict) and isinstance(golden, dict):
        return value.keys() == golden.keys() and all(same(value[name], golden[name]) for name in golden)
    if isinstance(value, list) and isinstance(golden, list):
        return len(value) == len(golden) and all(map(same, value, golden))
    return bool(value == golden)


def test_configurations_have_the_digests_that_were_recorded() -> None:
    assert configurations() == recorded("configurations")


@pytest.mark.slow
def test_keys_of_scores_are_those_that_were_recorded(found: dict[str, Any]) -> None:
    assert found["keys"] == recorded("keys")


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_tables_of_the_sample_hold_what_was_recorded(found: dict[str, Any], table: str) -> None:
    differing = [
        (line, golden) for line, golden in zip(found[table], recorded(table), strict=True) if not same(line, golden)
    ]
    assert differing == []
