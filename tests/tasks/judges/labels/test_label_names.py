"""Names that labels of a dataset give to metrics."""

import pytest

from leadline.evaluators.core import get
from leadline.tasks.judges.labels.label_files import unknown_names


@pytest.mark.parametrize("name", ["exact_match", "exact_match.exact_match", "exact_match#mine"])
def test_names_of_evaluators_and_metrics_are_known_whether_the_run_has_them_or_not(name: str) -> None:
    assert unknown_names([name], []) == []
    assert unknown_names([name], [get("exact_match")()]) == []


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("exact_mach", "the nearest is exact_match"),
        ("exact_match.exact_mach", "the nearest is exact_match.exact_match"),
        ("zzzzzzzzzzzz", "leadline evaluators list lists them"),
    ],
)
def test_a_name_that_nothing_has_is_said_with_the_nearest_one(name: str, nearest: str) -> None:
    [sentence] = unknown_names([name], [])
    assert sentence.startswith(f"labels of {name!r} are left out")
    assert sentence.endswith(nearest)


def test_many_such_names_are_counted() -> None:
    found = unknown_names([f"zz{number}" for number in range(14)], [])
    assert len(found) == 11
    assert found[-1].startswith("4 further names")
