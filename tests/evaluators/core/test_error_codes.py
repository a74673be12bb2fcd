"""Every error of the product has a stable code, and every code is in use."""

from __future__ import annotations

import pickle
import re

import pytest

from leadline.evaluators.core.error_codes import AREAS, ErrorCode
from leadline.evaluators.core.errors import LeadlineError, StoreError, UsageError


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


def test_an_error_keeps_its_code_on_its_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(UsageError("No.", hint="Yes.", code=ErrorCode.PLAN_NO_SUITE)))
    assert (str(error), error.code) == ("No. Yes.", ErrorCode.PLAN_NO_SUITE)


def test_a_class_has_a_code_for_errors_that_name_none() -> None:
    assert StoreError("Broken.").code is ErrorCode.STORE_FAILED
    assert LeadlineError("Broken.").__notes__ == ["LL-RUN-01: A step of the run failed."]
