"""Hostile datasets: valid files of every format, each broken in a way of its own, the same for the same number."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet

TEXTS: Final = (
    "", " ", "a", "x" * 70_000, "\x00", "\x1b[31m", "\ud800", "é\u0301", "😀", "../../../etc/passwd", "=cmd()",
    "<script>", "{{7*7}}", "NaN", "1e999", "9" * 5_000, "[" * 500, '"', "\r", "\u2028", '["a"', "{}", "c1",
)  # fmt: skip
VALUES: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 2**63, 2**64, -(2**70), 1.5, float("nan"), float("inf"), -0.0, 10**400, [], {}, [[]], [None],
    {"": 1}, [{"content": "c"}], {"a": {"b": [1]}}, *TEXTS,
)  # fmt: skip
CONDITIONS: Final = (
    '"a"', '"a" AND NOT "b"', 'regexp("(((a{1000}){1000}){1000})")', 'regexp("(a+)+$")', 'regexp("a{9999999999}")',
    "(" * 3_000, 'NOT ' * 2_000, 'regexp("' + "(a|" * 400 + '")', '"', "",
)  # fmt: skip
RELATIONSHIPS: Final[tuple[Any, ...]] = (
    [{"type": "perturbation_source", "target": "c0"}], [{"type": "perturbation_source", "target": "none"}],
    [{"type": 1}], "x", [[]],
)  # fmt: skip


class Hostile(NamedTuple):
    """A file that may be broken.

    Attributes:
        kind: Its format and container.
        name: Its name.
        content: Its bytes.
    """

    kind: str
    name: str
    content: bytes


Maker = Callable[[random.Random], bytes]


def hostile(number: int) -> Hostile:
    """Return the hostile file of a number; some are not broken at all.

    Args:
        number: Any number.
    """
    rng = random.Random(number)
    kind = sorted(MAKERS)[number % len(MAKERS)]
    content = MAKERS[kind](rng)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        content = rng.choice(_BYTES)(rng, content)
    return Hostile(
        kind, f"{rng.choice(('d', 'ü', '-o', 'a b', '2026-11-22'))}.{rng.choice((kind, 'txt', 'json'))}", content
    )


def _records(rng: random.Random, names: Sequence[str]) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = [
        {name: f"{name} {number}" for name in names} | ({"case": f"c{number}"} if rng.random() < 0.5 else {})
        for number in range(rng.choice((1, 2, 5, 40)))
    ]
    for _ in range(rng.choice((0, 0, 1, 1, 3))):
        record = rng.choice(records)
        how = rng.randrange(6)
        if how == 0:
            record[rng.choice(names)] = rng.choice(VALUES)
        elif how == 1:
            record.pop(rng.choice(names), None)
        elif how == 2:
            record["condition"] = rng.choice(CONDITIONS)
        elif how == 3:
            record["relationships"] = rng.choice(RELATIONSHIPS)
        elif how == 4:
            record[rng.choice(("duration_s", "cost_usd", "input_tokens", "metadata", "retrieved_context"))] = (
                rng.choice(VALUES)
            )
        else:
            record[rng.choice(TEXTS) or "own"] = rng.choice(VALUES)
    return records


_LAYOUTS: Final = {
    "leadline": ("question", "actual_answer", "expected_answer"),
    "ragas": ("user_input", "response", "reference"),
    "deepeval": ("input", "actual_output", "expected_output"),
    "databricks": ("request", "response", "expected_response"),
    "other": ("prompt", "completion", "gold"),
}


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _lines(layout: str) -> Maker:
    return lambda rng: b"\n".join(map(_dumped, _records(rng, _LAYOUTS[layout])))


def _list(layout: str) -> Maker:
    return lambda rng: _dumped(_records(rng, _LAYOUTS[layout]))


def _csv(layout: str) -> Maker:
    def make(rng: random.Random) -> bytes:
        records = _records(rng, _LAYOUTS[layout])
        names = list(dict.fromkeys(name for record in records for name in record))
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=rng.choice(",;\t|"), escapechar="\\")
        writer.writerow(names)
        writer.writerows([[_cell(record.get(name)) for name in names] for record in records])
        return out.getvalue().encode("utf-8", "surrogatepass")

    return make


def _cell(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _odd_columns(rows: int) -> Sequence[pa.Array]:
    day = datetime.date(2020, 1, 1)
    return (
        pa.array([2**62] * rows, pa.timestamp("us")),
        pa.array([2**40] * rows, pa.timestamp("s")),
        pa.array([0] * rows, pa.timestamp("us", "No/Where")),
        pa.array([2**30] * rows, pa.date32()),
        pa.array([2**61] * rows, pa.duration("us")),
        pa.array([Decimal("9" * 70)] * rows, pa.decimal256(76)),
        pa.array([86_399_999_999] * rows, pa.time64("us")),
        pa.array([day] * rows),
        pa.array([b"\xff\x00"] * rows),
        pa.Array.from_buffers(pa.string(), rows, pa.array([b"a\xff"] * rows, pa.binary()).buffers()),
        pa.array(["x" * 2_000] * rows).dictionary_encode(),
        pa.array([[("k", "v"), ("k", "w")]] * rows, pa.map_(pa.string(), pa.string())),
        pa.array([[[["x"]]]] * rows),
        pa.array([{"content": None, "n": {"x": [1.5]}}] * rows),
        pa.array([float("nan")] * rows, pa.float16()),
        pa.array([["y" * 1_000] * 50] * rows),
        pa.nulls(rows),
        pa.array([b"0123456789abcdef"] * rows, pa.binary(16)),
    )


def _parquet(layout: str) -> Maker:
    def make(rng: random.Random) -> bytes:
        rows = rng.choice((1, 3, 50))
        columns: dict[str, Any] = {name: [f"{name} {row}" for row in range(rows)] for name in _LAYOUTS[layout]}
        for _ in range(rng.choice((0, 1, 1, 2))):
            name = rng.choice((*columns, "own", "retrieved_context", "case", "duration_s", "metadata"))
            columns[name] = rng.choice(_odd_columns(rows))
        out = io.BytesIO()
        codec = rng.choice(("none", "zstd", "snappy", "gzip"))
        parquet.write_table(pa.table(columns), out, compression=codec, row_group_size=rng.choice((1, 20, 1000)))
        return out.getvalue()

    return make


def _h2o(rng: random.Random) -> bytes:
    records = _records(rng, ("input", "actual_output", "expected_output"))
    return _dumped({"inputs": [record | {"key": f"k{n}", "model_key": "m"} for n, record in enumerate(records)]})


def _document(rng: random.Random) -> bytes:
    cases = [
        {"key": f"k{n}", "question": "Q", "answers": [answer]}
        for n, answer in enumerate(_records(rng, ("actual_answer",)))
    ]
    return _dumped({"name": rng.choice(TEXTS), "models": rng.choice(([], ["m"], [{"key": "m"}], 3)), "cases": cases})


def _promptfoo(rng: random.Random) -> bytes:
    results = [
        {"vars": record, "response": {"output": rng.choice(VALUES)}, "provider": {"id": "p"}}
        for record in _records(rng, ("question", "expected"))
    ]
    return _dumped({"results": {"results": results}})


def _coco(rng: random.Random) -> bytes:
    names = ("truth.json", "/etc/passwd", "../x", "", 5, None)
    return _dumped({"ground_truth": rng.choice(names), "predictions": {"m": rng.choice(names)}})


def _gzip(rng: random.Random) -> bytes:
    return gzip.compress(b" " * rng.choice((10, 1 << 20)), mtime=0)


def _zip(rng: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(rng.choice(("xl/workbook.xml", "../../PWNED", "d.json")), b"0" * (1 << 20))
    return out.getvalue()


def _cut(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _flip(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 3, 20)) if changed else 0):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(rng: random.Random, content: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    odd = (
        b"\xff",
        b"\x00",
        b'"',
        b"\n",
        b",",
        b"[" * 3000,
        b"{" * 50,
        b"\xef\xbb\xbf",
        b"1e999",
        b"\\ud800",
        b"\r",
        b'{"a":1,"a":2}',
    )
    return content[:at] + rng.choice(odd) + content[at:]


def _double(rng: random.Random, content: bytes) -> bytes:
    first, last = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:last] + content[first:last] * rng.choice((1, 2, 30)) + content[last:]


def _recode(rng: random.Random, content: bytes) -> bytes:
    return content.decode("utf-8", "replace").encode(rng.choice(("utf-16", "latin-1", "utf-8-sig")), "replace")


_BYTES: Final = (_cut, _flip, _insert, _double, _recode)
MAKERS: Final[dict[str, Maker]] = {
    **{f"{layout}.jsonl": _lines(layout) for layout in _LAYOUTS},
    **{f"{layout}.json": _list(layout) for layout in _LAYOUTS},
    **{f"{layout}.csv": _csv(layout) for layout in ("leadline", "ragas", "other")},
    **{f"{layout}.parquet": _parquet(layout) for layout in ("leadline", "deepeval", "other")},
    "h2o.json": _h2o,
    "document.json": _document,
    "promptfoo.json": _promptfoo,
    "coco.json": _coco,
    "gz": _gzip,
    "zip": _zip,
}
"""Every kind of file, by name."""
