"""Which documents a case shows: the benchmark's own choice and order."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.plugins.rgb.build import Kind, Testbed, documents, find_testbed
from tests.support.datasets.rgb_files import CLEAN, FALSIFIED, FEW_FALSIFIED, PLAIN, SEVEN_PARTS, SPARSE, TWO_PARTS

# By the procedure that was checked against the benchmark's own choice for all 2,400 cases of its published files.
CHOSEN: list[tuple[Kind, dict[str, Any], float, str]] = [
    ("plain", PLAIN, 0, "p1 p4 p3 p2 p0"),
    ("plain", PLAIN, 0.2, "p1 n0 p3 p2 p0"),
    ("plain", PLAIN, 0.4, "p1 n1 n0 p2 p0"),
    ("plain", PLAIN, 0.6, "p1 n2 n1 n0 p0"),
    ("plain", PLAIN, 0.8, "n0 n3 n2 n1 p0"),
    ("plain", PLAIN, 1, "n1 n4 n3 n2 n0"),
    ("plain", SPARSE, 0, "n0 n3 n2 n1 p0"),
    ("plain", CLEAN, 0.8, "p1 n0 p3 p2 p0"),
    ("plain", CLEAN, 1, "n0"),
    ("int", TWO_PARTS, 0, "a1 b0 a2 b1 a3"),
    ("int", TWO_PARTS, 0.2, "n0 b0 a2 b1 a3"),
    ("int", TWO_PARTS, 0.4, "n1 b0 a2 n0 a3"),
    ("int", SEVEN_PARTS, 0.4, "g1 b0 f0 d0 a1 c1 e0"),
    ("fact", FALSIFIED, 0, "w0 w1 w2 w4 w5"),
    ("fact", FALSIFIED, 0.4, "w0 n0 n1 w4 w2"),
    ("fact", FEW_FALSIFIED, 0, "w1 w0"),
    ("fact", FEW_FALSIFIED, 0.4, "w0 n1 n0 w1"),
]


@pytest.mark.parametrize(("kind", "instance", "noise", "expected"), CHOSEN)
def test_documents_and_their_order_are_the_benchmarks(
    kind: Kind, instance: dict[str, Any], noise: float, expected: str
) -> None:
    before = repr(instance)
    assert " ".join(documents(instance, kind, noise=noise, passages=5)) == expected
    assert repr(instance) == before


def test_another_seed_gives_another_order_and_the_same_one_the_same() -> None:
    orders = {documents(PLAIN, "plain", noise=0.4, passages=5, seed=seed) for seed in range(20)}
    assert len(orders) > 10
    assert len({frozenset(order) for order in orders}) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("en", Testbed("en", "en", "plain")),
        ("zh_refine", Testbed("zh_refine", "zh", "plain")),
        ("data_zh_int", Testbed("zh_int", "zh", "int")),
        ("my.en_fact", Testbed("en_fact", "en", "fact")),
        ("xen", None),
        ("en_other", None),
        ("", None),
    ],
)
def test_a_files_name_says_its_testbed(name: str, expected: Testbed | None) -> None:
    assert find_testbed(name) == expected
