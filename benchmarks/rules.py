"""Rule and n-gram evaluators on many rows, against plain loops over the reference libraries in one process.

Run: ``python -m benchmarks.rules [ROWS]`` (100,000 rows by default). The reference computes the same numbers the way a
script would: NLTK's ``sentence_bleu`` for each order, ``rouge_score``'s scorer, ``re`` and ``zlib``. Leadline's time is
that of the whole scoring stage: reading the rows, scoring on all cores, and writing the segments.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.machine import describe, timed, verdict
from leadline.evaluators.core import get
from leadline.evaluators.settings import Settings
from leadline.evaluators.summarization.bleu import ORDERS
from leadline.evaluators.text.sentences import splitter_for
from leadline.tasks.analyse.gather import register_jobs
from leadline.tasks.db import open_run
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.jobs import cut, make_jobs, write_jobs
from leadline.tasks.plan.planner import plan
from leadline.tasks.policy.policy import load_policy
from leadline.tasks.score.executor import LocalLanes, default_processes
from leadline.tasks.store.store import Store

EVALUATORS = ("bleu", "rouge", "valor.bleu", "looping_detection", "text_matching", "pii_leakage")
WORDS = (Path(__file__).read_text(encoding="utf-8") + " ".join(dir(random) + dir(json))).split()


def make_rows(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Return rows of some 25 words whose answers share about half of the expected words."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        expected = [draw.choice(WORDS) for _ in range(draw.randint(15, 35))]
        actual = [word if draw.random() < 0.6 else draw.choice(WORDS) for word in expected]
        cut_at = draw.randint(5, 12)
        rows.append(
            {
                "case": f"c{number}",
                "model": "m",
                "question": f"question {number}",
                "expected_answer": " ".join(expected) + ".",
                "actual_answer": " ".join(actual[:cut_at]) + ". " + " ".join(actual[cut_at:]) + ".",
                "retrieved_context": [" ".join(expected[::-1])],
                "condition": '"' + expected[3].replace('"', "").replace("\\", "") + '" OR regexp("[0-9]{3}")',
            }
        )
    return rows


def reference(rows: list[dict[str, Any]], evaluators: Sequence[str] = EVALUATORS) -> float:
    """Score the rows with plain loops and return the seconds it took.

    Args:
        rows: The rows.
        evaluators: Whose scores are computed.
    """
    loops = _loops()
    chosen = [loops[name] for name in evaluators]
    with timed() as timing, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in rows:
            for loop in chosen:
                loop(row)
    return timing.seconds


def _loops() -> dict[str, Callable[[dict[str, Any]], None]]:
    """Return how a script computes each evaluator's scores of a row."""
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.translate.bleu_score import sentence_bleu
    from rouge_score.rouge_scorer import RougeScorer

    words, rouge_scorer = NLTKWordTokenizer(), RougeScorer(["rouge1", "rouge2", "rougeL"])
    split = splitter_for("en").split
    rules = [
        re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,255}\.[A-Za-z]{2,}"),
        re.compile(r"\b(?:\d[ -]?){13,19}\b"),
        re.compile(r"\b\d{3}-\d{2}-\d{4}\b"),
    ]

    def bleu(row: dict[str, Any]) -> None:
        target, tokens = (
            [token for sentence in split(row[name]) for token in words.tokenize(sentence.text)]
            for name in ("expected_answer", "actual_answer")
        )
        for weights in ORDERS:
            sentence_bleu([target], tokens, weights=weights)

    def rouge(row: dict[str, Any]) -> None:
        rouge_scorer.score(row["expected_answer"], row["actual_answer"])

    def valor_bleu(row: dict[str, Any]) -> None:
        pattern = r"\w+|\$[\d]+|[^\s\.]+"
        sentence_bleu([re.findall(pattern, row["expected_answer"])], re.findall(pattern, row["actual_answer"]))

    def looping(row: dict[str, Any]) -> None:
        len(zlib.compress(row["actual_answer"].encode(), 9))
        longest_repeat(row["actual_answer"])

    def matching(row: dict[str, Any]) -> None:
        quoted = row["condition"].split('"')[1]
        quoted in row["actual_answer"] or re.search("[0-9]{3}", row["actual_answer"])

    def pii(row: dict[str, Any]) -> None:
        for text in (row["actual_answer"], *row["retrieved_context"]):
            any(rule.search(text) for rule in rules)

    return dict(zip(EVALUATORS, (bleu, rouge, valor_bleu, looping, matching, pii), strict=True))


def longest_repeat(text: str) -> int:
    """Return the length of the longest substring that occurs twice without overlap, by binary search over slices."""
    low, high = 0, len(text) // 2
    while low < high:
        size = (low + high + 1) // 2
        first: dict[str, int] = {}
        if any(first.setdefault(text[at : at + size], at) <= at - size for at in range(len(text) - size + 1)):
            low = size
        else:
            high = size - 1
    return low


def leadline(rows: list[dict[str, Any]], folder: Path) -> float:
    """Score the rows with Leadline's scoring stage and return the seconds it took."""
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    store, settings = Store.open(folder / "store"), Settings()
    loaded = load_dataset(store, file)
    jobs = make_jobs([get(name)() for name in EVALUATORS], settings)
    run = store.new_run()
    run.update({"dataset": loaded.digest})
    processes = default_processes()
    with open_run(store, run, create=True) as connection:
        register_jobs(connection, plan(connection, store, jobs), load_policy("sonar"))
        chunks = cut(connection, jobs, store, run, processes=processes)
    write_jobs(run.plan / "jobs.json", jobs, settings)
    with timed() as timing, LocalLanes(processes, chunks) as lanes, ThreadPoolExecutor(lanes.widths["cpu"]) as pool:
        scored = sum(result.scored for result in pool.map(lanes.score, chunks))
    if scored < len(rows):
        raise SystemExit(f"only {scored} of {len(rows)} rows were scored")
    return timing.seconds


def main() -> None:
    """Print the ratio."""
    rows = make_rows(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    print(f"{describe()}; {len(rows):,} rows; {', '.join(EVALUATORS)}")
    with tempfile.TemporaryDirectory() as folder:
        ours = leadline(rows, Path(folder))
    theirs = reference(rows)
    print(f"Leadline {ours:.1f} s ({len(rows) / ours:,.0f} rows/s), plain loops {theirs:.1f} s")
    print(verdict("speed-up over plain loops", theirs / ours, 1.6))


if __name__ == "__main__":
    main()
