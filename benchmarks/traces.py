"""Conversations from a million spans of OTLP, alone and to the end of loading, beside bare parsing by orjson.

    python -m benchmarks.traces [--spans 1000000] [--repeats 1]

The file is as the Collector writes it: a document a line, with the spans of several traces. Every conversation has
three traces of one turn each, every turn an agent, two calls of the model with all that was said before, a tool and a
retriever. Each reading has a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from benchmarks.loading import WORDS
from benchmarks.machine import describe, verdict

WANTED = 50_000
LIMIT_GIB = 2.0
TURNS = 3
IN_TURN = 5
LINE = 40
"""Spans a line."""


def _span(number: int, trace: int, parent: int, name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    begun = 1_700_000_000_000_000_000 + number * 1_000_000
    return {
        "traceId": f"{trace + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "parentSpanId": f"{parent + 1:016x}" if parent >= 0 else "",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(begun),
        "endTimeUnixNano": str(begun + (900_000 if parent >= 0 else 9_000_000)),
        "attributes": pairs,
        "status": {},
    }


def _part(role: str, **part: Any) -> dict[str, Any]:
    return {"role": role, "parts": [part]}


def spans(count: int, *, seed: int = 7) -> Iterator[dict[str, Any]]:
    """Yield spans, the same for the same seed."""
    chance = random.Random(seed)
    pool = [" ".join(chance.choices(WORDS, k=chance.randint(8, 20))) + "." for _ in range(5_000)]
    number = trace = 0
    while number < count:
        history: list[dict[str, Any]] = []
        common = {"gen_ai.conversation.id": f"conversation-{trace}", "gen_ai.provider.name": "openai"}
        for _ in range(TURNS):
            question, answer = chance.choice(pool), chance.choice(pool)
            call = {"id": f"call_{number}", "name": "find"}
            asked = [*history, _part("user", type="text", content=question)]
            calls = _part("assistant", type="tool_call", arguments={"query": question}, **call)
            known = [*asked, calls, _part("tool", type="tool_call_response", response="found", **call)]
            said = _part("assistant", type="text", content=answer)
            root = number
            model = common | {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
            for name, attributes in (
                ("invoke_agent", common | {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "pilot"}),
                ("chat m-1", model | _said(asked, calls)),
                ("execute_tool find", common | {
                    "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
                    "gen_ai.tool.call.result": "found",
                    "gen_ai.tool.call.id": call["id"], "gen_ai.tool.call.arguments": json.dumps({"query": question}),
                }),
                ("retrieval", common | {
                    "gen_ai.operation.name": "retrieval",
                    "gen_ai.retrieval.documents": json.dumps([{"id": "a", "content": chance.choice(pool)}]),
                }),
                ("chat m-1", model | _said(known, said)),
            ):  # fmt: skip
                yield _span(number, trace, -1 if number == root else root, name, attributes)
                number += 1
            history = [*known, said]
            trace += 1


def _said(inputs: list[dict[str, Any]], output: dict[str, Any]) -> dict[str, Any]:
    return {
        "gen_ai.input.messages": json.dumps(inputs),
        "gen_ai.output.messages": json.dumps([output]),
    }


def write(path: Path, count: int) -> int:
    """Write the spans in lines; return how many there are."""
    written = 0
    with path.open("wb") as file:
        line: list[dict[str, Any]] = []
        for span in spans(count):
            line.append(span)
            written += 1
            if len(line) == LINE:
                file.write(_document(line))
                line = []
        file.write(_document(line))
    return written


def _document(found: list[dict[str, Any]]) -> bytes:
    resource_ = {"attributes": [{"key": "service.name", "value": {"stringValue": "harbour"}}]}
    document = {"resourceSpans": [{"resource": resource_, "scopeSpans": [{"scope": {"name": "s"}, "spans": found}]}]}
    return orjson.dumps(document) + b"\n"


def read(path: Path, how: str) -> dict[str, float]:
    """Read a file in this process; return seconds of processor, conversations and the peak of the memory in GiB."""
    import duckdb  # noqa: F401 - imported before the clock starts
    import pyarrow as pa  # noqa: F401

    from leadline.plugins.traces.read import conversations
    from leadline.plugins.traces.span import TraceCounts
    from leadline.tasks.load.dataset import load_dataset
    from leadline.tasks.store.store import Store

    begun, found = time.process_time(), 0
    if how == "orjson":
        with path.open("rb") as file:
            found = sum(1 for line in file if orjson.loads(line))
    elif how == "rows":
        with tempfile.TemporaryDirectory() as folder:
            found = load_dataset(Store.open(Path(folder) / "store"), path).rows
    else:
        found = sum(1 for _ in conversations([path], counts=TraceCounts()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"cpu": time.process_time() - begun, "found": found, "gib": peak}


def read_apart(path: Path, how: str) -> dict[str, float]:
    """Read a file in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.traces", "--read", str(path), "--how", how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    """Write the file, read it, and parse it barely."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--how", default="conversations", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        print(json.dumps(read(args.read, args.how)))
        return
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spans.jsonl"
        count = write(path, args.spans)
        for how in ("conversations", "rows", "orjson"):
            runs = [read_apart(path, how) for _ in range(args.repeats)]
            cpu, peak = statistics.median(run["cpu"] for run in runs), max(run["gib"] for run in runs)
            size, rate = path.stat().st_size / 1e6, count / cpu
            what = f"{runs[0]['found']:,.0f} {'lines' if how == 'orjson' else how}"
            print(f"{how}: {count:,} spans, {size:.0f} MB, {what}, {rate:,.0f} spans/s and core, {peak:.2f} GiB")
            if how == "conversations":
                print(verdict("thousand spans/s and core", rate / 1000, WANTED / 1000))
            if how == "rows":
                print(verdict("GiB of memory", peak, LIMIT_GIB, at_least=False))


if __name__ == "__main__":
    main()
