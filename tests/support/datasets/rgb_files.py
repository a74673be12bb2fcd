"""Files in RGB's form, made up: the benchmark's own data are not for everybody's use."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

PLAIN: Final[dict[str, Any]] = {
    "id": 0,
    "query": "Who found the wreck?",
    "answer": [["Ada Lund", "A. Lund"]],
    "positive": [f"p{n}" for n in range(9)],
    "negative": [f"n{n}" for n in range(9)],
}
SPARSE: Final = PLAIN | {"positive": ["p0"]}
CLEAN: Final = PLAIN | {"negative": ["n0"]}
TWO_PARTS: Final[dict[str, Any]] = {
    "id": 0,
    "query": "When did both open?",
    "answer": ["1月3日", ["1月12日", "一月十二日"]],
    "positive": [[f"a{n}" for n in range(4)], [f"b{n}" for n in range(3)]],
    "negative": [f"n{n}" for n in range(9)],
}
SEVEN_PARTS: Final = TWO_PARTS | {"positive": [[f"{part}0", f"{part}1"] for part in "abcdefg"], "negative": ["n0"]}
FALSIFIED: Final[dict[str, Any]] = {
    "id": 0,
    "query": "Where is the light?",
    "answer": "Skagen",
    "fakeanswer": "Malmö",
    "positive": [f"p{n}" for n in range(7)],
    "positive_wrong": [f"w{n}" for n in range(7)],
    "negative": [f"n{n}" for n in range(9)],
}
FEW_FALSIFIED: Final = FALSIFIED | {"positive": ["p0", "p1"], "positive_wrong": ["w0", "w1"]}


def write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def write_testbeds(folder: Path) -> Path:
    """Write one file of each kind with one question."""
    folder.mkdir(exist_ok=True)
    write_lines(folder / "en_refine.json", [PLAIN])
    write_lines(folder / "data_zh_int.jsonl", [TWO_PARTS])
    write_lines(folder / "en_fact.json", [FALSIFIED])
    return folder
