"""The rules of the Trace Event Format, as far as profiles use it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def check_format(path: Path) -> list[Mapping[str, Any]]:
    """Check a file by the rules of the Trace Event Format, and return its complete events."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    assert trace["displayTimeUnit"] in ("ms", "ns")
    complete = []
    named: set[tuple[str, int, int]] = set()
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert all(type(event[name]) is int for name in ("pid", "tid"))
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            named.add((event["name"], event["pid"], event["tid"]))
            continue
        assert event["ph"] == "X"
        assert isinstance(event["cat"], str)
        assert type(event["ts"]) is int
        assert type(event["dur"]) is int
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        assert ("process_name", event["pid"], 0) in named
        assert ("thread_name", event["pid"], event["tid"]) in named
        complete.append(event)
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in complete:
        tracks[event["pid"], event["tid"]].append((event["ts"], -event["dur"]))
    for stretches in tracks.values():
        open_: list[int] = []
        for began, length in sorted(stretches):
            while open_ and open_[-1] <= began:
                open_.pop()
            assert not open_ or began - length <= open_[-1], "complete events of a thread must nest"
            open_.append(began - length)
    return complete
