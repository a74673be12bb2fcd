"""Arrays that are made of buffers equal Arrow's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.tasks.ground.arrow_arrays import array_of, lists_of, numbers_of, numpy_of, scalar_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = {
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.binary(): st.binary(max_size=5),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=False),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.uint16(): st.integers(0, 2**16 - 1),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_arrays_of_values_equal_arrows_own(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.one_of(st.none(), VALUES[kind]), max_size=20))
    made = array_of(values, kind)
    made.validate(full=True)
    assert made == pa.array(values, kind)
    assert [scalar_of(value, kind) for value in values] == list(made)


@pytest.mark.parametrize("values", [[0, "a"], [False], [["a"]], [b"a"]])
def test_what_is_no_text_is_refused_among_texts(values: Sequence[Any]) -> None:
    with pytest.raises(TypeError):
        array_of(values, pa.large_string())


@pytest.mark.parametrize("empty", [True, False])
def test_lists_of_lengths(empty: bool) -> None:
    made = lists_of(np.array([2, 0, 1]), pa.array(["a", "b", "c"], pa.large_string()), empty=empty)
    made.validate(full=True)
    assert made.to_pylist() == [["a", "b"], [] if empty else None, ["c"]]


def test_numbers_go_to_numpy_and_back() -> None:
    assert numpy_of(numbers_of(np.array([1, 2, 3], np.uint32))[1:]).tolist() == [2, 3]


def test_pandas_is_not_imported_for_them() -> None:
    program = (
        "import sys, pyarrow as pa; from leadline.tasks.ground.arrow_arrays import array_of, scalar_of;"
        "array_of(['a', None], pa.string()); array_of([None], pa.string()); scalar_of(1, pa.int64());"
        "sys.exit('pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
