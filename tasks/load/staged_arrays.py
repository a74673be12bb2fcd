"""Arrow arrays of the values of staged tables: texts, lists of texts, retrieved chunks, numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.tasks.ground.arrow_arrays import array_of, lists_of
from leadline.tasks.load.values import Chunks


def text_array(values: Sequence[str | None]) -> pa.Array:
    """Return texts in Arrow."""
    return array_of(values, pa.large_string())


def texts_array(values: Sequence[list[str] | None]) -> pa.Array:
    """Return lists of texts in Arrow; empty ones are null."""
    return _nested(values, text_array(list(chain.from_iterable(filter(None, values)))), empty=False)


def chunks_array(values: Sequence[Chunks | None]) -> pa.Array:
    """Return lists of chunks in Arrow, built column by column; absent ones are empty."""
    flat = list(chain.from_iterable(filter(None, values)))
    contents = text_array([content for content, _ in flat])
    uris = text_array([uri for _, uri in flat])
    return _nested(values, chunk_structs(contents, uris), empty=True)


def chunk_structs(contents: pa.Array, uris: pa.Array | None) -> pa.Array:
    """Return chunks in Arrow, some of them with their documents."""
    links = pa.nulls(len(contents), pa.large_string()) if uris is None else uris
    return pa.StructArray.from_arrays([contents, links], names=["content", "doc_uri"])


def as_array(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Return the values of a column of a staged table in Arrow; empty lists of texts are null."""
    if not pa.types.is_large_list(field.type):
        return array_of(values, field.type)
    return chunks_array(values) if pa.types.is_struct(field.type.value_type) else texts_array(values)


def _nested(values: Sequence[list[Any] | None], elements: pa.Array, *, empty: bool) -> pa.Array:
    lengths = np.fromiter((len(value) if value else 0 for value in values), np.int64, len(values))
    return lists_of(lengths, elements, empty=empty)
