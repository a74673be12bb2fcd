"""Run lengths are read and written as pycocotools does."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leadline.evaluators.data import decode_counts, decode_mask, encode_counts

MASKS = arrays(np.bool_, st.tuples(st.integers(1, 40), st.integers(1, 40)))


@given(MASKS)
@settings(deadline=None)
def test_masks_equal_pycocotools(mask):
    from pycocotools import mask as coco

    text = coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()
    assert (decode_mask(mask.shape, text) == mask).all()
    assert encode_counts(decode_counts(text)) == text


@given(st.lists(st.integers(0, 2**28), max_size=30))
def test_counts_survive_the_way_there_and_back(counts):
    assert decode_counts(encode_counts(counts)).tolist() == counts
    assert decode_counts(counts).tolist() == counts


@pytest.mark.parametrize("counts", ["é", "\x7f", "o", "P" * 3, [1, -1], [0.5], ["1"], "ooooooooo0"])
def test_what_is_no_encoding_is_refused(counts):
    with pytest.raises(ValueError, match="count"):
        decode_counts(counts)


@given(st.text(max_size=40))
def test_hostile_text_is_refused_or_read(text):
    with contextlib.suppress(ValueError):
        assert (decode_counts(text) >= 0).all()


def test_counts_must_fill_the_mask():
    with pytest.raises(ValueError, match="3 of 4 pixels"):
        decode_mask((2, 2), [1, 2])
