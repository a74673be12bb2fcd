"""Graphs for ONNX Runtime, written without the package ``onnx``, whose import takes longer than all that is written.

A graph is a message of protocol buffers (https://protobuf.dev/programming-guides/encoding/). The numbers below are
those of the fields in https://github.com/onnx/onnx/blob/main/onnx/onnx.proto; what has no use here is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

FLOAT: Final = 1
INT32: Final = 6
"""Types of tensors' numbers."""

_FIXED32, _BYTES, _VARINT = 5, 2, 0
_IR_VERSION: Final = 8

Field = tuple[int, int | float | str | bytes]


def node(
    kind: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: int | float
) -> bytes:
    """Return an operator with its inputs, of which ``""`` is one that is left out."""
    return _message(
        *((1, name) for name in inputs),
        *((2, name) for name in outputs),
        (4, kind),
        *((5, _attribute(name, attributes[name])) for name in sorted(attributes)),
        (7, domain),
    )


def outside(name: str, shape: Sequence[int]) -> bytes:
    """Return a tensor of 32-bit floats that are given to the session, not written into the graph."""
    location = _message((1, "location"), (2, "weights"))
    return _message(*((1, size) for size in shape), (2, FLOAT), (8, name), (13, location), (14, 1))


def value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    """Return an input or output of a graph.

    Args:
        kind: The type of its numbers.
        shape: Its sizes; a name stands for any size.
    """
    sizes = ((1, _message((2 if isinstance(size, str) else 1, size))) for size in shape)
    tensor = _message((1, kind), (2, _message(*sizes)))
    return _message((1, name), (2, _message((1, tensor))))


def model(
    name: str,
    nodes: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    tensors: Iterable[bytes],
    opsets: Mapping[str, int],
) -> bytes:
    """Return a whole model, as ONNX Runtime reads it.

    Args:
        opsets: Version of the operators of each domain.
    """
    parts = ((1, nodes), (5, tensors), (11, inputs), (12, outputs))
    graph = _message((2, name), *((number, part) for number, each in parts for part in each))
    versions = (_message((1, domain), (2, version)) for domain, version in opsets.items())
    return _message((1, _IR_VERSION), (7, graph), *((8, version) for version in versions))


def _attribute(name: str, number: int | float) -> bytes:
    kind, field = (1, 2) if isinstance(number, float) else (2, 3)
    return _message((1, name), (field, number), (20, kind))


def _message(*fields: Field) -> bytes:
    """Return a message; strings that are empty are written, since an operator's inputs count by their place."""
    out = bytearray()
    for number, content in fields:
        if isinstance(content, float):
            out += _varint(number << 3 | _FIXED32) + struct.pack("<f", content)
        elif isinstance(content, int):
            out += _varint(number << 3 | _VARINT) + _varint(content)
        else:
            written = content.encode() if isinstance(content, str) else content
            out += _varint(number << 3 | _BYTES) + _varint(len(written)) + written
    return bytes(out)


def _varint(number: int) -> bytes:
    """Return a number of at least 0 in groups of seven bits, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
