"""Every error of the product has a stable code, and every code is in use."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from leadline.evaluators.ground import AREAS, ErrorCode, LeadlineError, StoreError, UsageError
from tests.support.source import ROOMS, ROOT, files_of, nodes_of

GENERAL: Final = {"LeadlineError", "UsageError", "StoreError", "ModelUnavailable"}
"""Classes for many causes, so that each place that raises one names its cause."""


def product() -> Iterator[Path]:
    """Yield the files of the product."""
    return chain.from_iterable(map(files_of, ROOMS))


def general_errors() -> Iterator[tuple[str, ast.Call]]:
    """Yield where errors of the general classes are made."""
    for path in product():
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in GENERAL:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_codes_are_numbered_within_their_areas() -> None:
    numbers: dict[str, int] = {}
    for code in ErrorCode:
        assert re.fullmatch(r"LL-[A-Z]+-[0-9]{2}", str(code))
        numbers[code.area] = numbers.get(code.area, 0) + 1
        assert str(code) == f"LL-{code.area}-{numbers[code.area]:02}", "codes are added at the end of their area"
        assert code.name.startswith(code.area)
    assert list(numbers) == list(AREAS)


@pytest.mark.parametrize("code", ErrorCode, ids=str)
def test_each_code_says_what_happened_and_what_to_do(code: ErrorCode) -> None:
    assert code.title.endswith(".")
    assert code.advice.endswith(".")


def test_every_code_is_in_use() -> None:
    used = {
        node.attr
        for path in product()
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ErrorCode"
    }
    codes = {code.name for code in ErrorCode}
    assert used == codes if (ROOT / "plugins").is_dir() else used < codes


def test_every_error_of_the_product_names_its_code() -> None:
    missing = [place for place, call in general_errors() if not any(word.arg == "code" for word in call.keywords)]
    assert not missing


def test_an_error_keeps_its_code_on_its_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(UsageError("No.", hint="Yes.", code=ErrorCode.PLAN_NO_SUITE)))
    assert (str(error), error.code) == ("No. Yes.", ErrorCode.PLAN_NO_SUITE)


def test_a_class_has_a_code_for_errors_that_name_none() -> None:
    assert StoreError("Broken.").code is ErrorCode.STORE_FAILED
    assert LeadlineError("Broken.").__notes__ == ["LL-RUN-01: A step of the run failed."]
