"""What a person waits for: whole commands, each in a process of its own with fresh stores, from the command to its end.

Run: ``python -m benchmarks.end_to_end`` on an idle machine (``--help`` lists what can be left out). Everything is
repeated (5 times), and medians are printed beside what is wanted, with the parts of the time that the runs themselves
record. They are added to ``benchmarks/end_to_end.jsonl``, and what became slower is told. ``--ragas PYTHON`` and
``--deepeval PYTHON`` put the judged suite to these tools as well, in the same rounds and by the same endpoint;
``benchmarks/README.md`` says how to install them. ``--scale`` adds the large runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import history
from benchmarks.embedding import WORDS
from benchmarks.endpoint import Remote, Stats, capacity, running
from benchmarks.machine import describe, verdict

LEADLINE: Final = (sys.executable, "-P", "-m", "leadline.cli.main")
ROOT: Final = Path(__file__).parents[1]

FIFTEEN: Final = (
    "bleu", "rouge", "valor.bleu", "valor.rouge", "looping_detection", "text_matching", "pii_leakage",
    "sensitive_data_leakage", "encoding_guardrail", "step_alignment", "answer_semantic_similarity",
    "answer_semantic_sentence_similarity", "answer_relevancy_sentence_similarity", "context_relevancy_soft",
    "groundedness",
)  # fmt: skip
"""Rules, n-grams and embeddings; none needs weights with the embedder ``offline``."""
TWO: Final = ("bleu", "rouge")
JUDGED: Final = ("faithfulness", "answer_relevancy", "context_precision", "context_recall")
FAULTY: Final = ("faithfulness", "context_precision", "context_recall")
"""Without the embedder, whose start would hide what faults cost."""
SCALED: Final = ("bleu", "rouge", "pii_leakage", "looping_detection")

SCALE: Final = (200_000, 1_000_000)
ANSWERS, SYSTEMS = 282, 8
LOOPED = 10_000
"""Rows that plain loops score beside them."""
IN_FLIGHT: Final = 64
LATENCY_S, QUICK_S, MODEL_S = 0.3, 0.05, 0.1
CASES, MANY, COLLECTED = 200, 4_000, 1_200
AS: Final = {f"{IN_FLIGHT} at a time": IN_FLIGHT, "as it comes": 0}
"""How other tools are run: with as many calls in flight as Leadline, and with their own defaults."""
AHEAD: Final = {"ragas": 1.8, "deepeval": 5.0}
"""How many times as long as Leadline they are to take."""


@dataclass(frozen=True)
class Timed:
    """One command that was run.

    Attributes:
        wall: Seconds from its start to its end, measured from outside.
        processor: Processor seconds of the command and of the processes that ended with it.
        said: What it printed, if that was JSON.
    """

    wall: float
    processor: float
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> Mapping[str, float]:
        """The parts of its time that the run recorded."""
        found: Mapping[str, float] = self.said.get("time", {}).get("parts", {})
        return found

    def part(self, name: str) -> float:
        """Return the seconds of a part; 0 where it did not come to that."""
        return self.parts.get(name, 0.0)


class Home:
    """A user's home of its own: where a kept server, Prefect's database and logs are.

    Args:
        folder: An empty folder.
        server: ``kept`` for a server that runs within the block, or ``none``.
    """

    def __init__(self, folder: Path, server: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._keeps = folder, server == "kept"
        own = ("LEADLINE_", "PREFECT_", "XDG_", "CI", "GITHUB_", "PYTHONDONTWRITEBYTECODE")  # which no user has set
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        self.environment = kept | {
            "HOME": str(folder),
            "LEADLINE_SERVER": "auto" if self._keeps else "none",
            "PYTHONPATH": str(ROOT),
        }

    def leadline(self, *arguments: str) -> Timed:
        """Run a command in this home; a failure ends the benchmark."""
        return command([*LEADLINE, *arguments], self.environment, self.folder)

    def __enter__(self) -> Home:
        self.start = self.leadline("service", "server", "start") if self._keeps else Timed(0.0, 0.0)
        return self

    def __exit__(self, *_: object) -> None:
        self.leadline("service", "server", "stop")


def command(line: Sequence[str], environment: Mapping[str, str], folder: Path) -> Timed:
    """Run a command and measure it.

    Args:
        line: The command line.
        environment: Its environment.
        folder: Where it runs.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(line, capture_output=True, text=True, env=dict(environment), cwd=folder)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, line))} left with {done.returncode}:\n{done.stderr[-3000:]}")
    said = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return Timed(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, said)


def rag_answers(path: Path, seed: int = 7) -> Path:
    """Write the answers of several RAG systems to some 36 questions each, with two or three chunks of context."""
    draw = random.Random(seed)
    cases = [(_text(draw, 14), _text(draw, 90), tuple(_text(draw, 130) for _ in range(4))) for _ in range(39)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(ANSWERS):
            case = number // SYSTEMS
            question, expected, pages = cases[case]
            words = expected.split()
            answer = " ".join(word if draw.random() < 0.6 else draw.choice(WORDS) for word in words)
            row = {
                "case": f"c{case}", "model": f"system-{number % SYSTEMS}", "question": f"{question[:-1]}?",
                "expected_answer": expected, "actual_answer": answer, "categories": ["even" if case % 2 else "odd"],
                "retrieved_context": draw.sample(pages, draw.randint(2, 3)), "condition": f'"{words[3]}"',
            }  # fmt: skip
            file.write(json.dumps(row) + "\n")
    return path


def plain_answers(path: Path, rows: int) -> Path:
    """Write the answers of one system, as ``benchmarks.rules`` makes them."""
    from benchmarks.rules import make_rows

    with path.open("w", encoding="utf-8") as file:
        for at in range(0, rows, 10_000):
            for number, row in enumerate(make_rows(min(10_000, rows - at), seed=at)):
                file.write(json.dumps(row | {"case": f"c{at + number}"}) + "\n")
    return path


def judged_answers(path: Path, cases: int, first: int = 0) -> Path:
    """Write RAG answers of one system, each with three chunks of context; others for another first number."""
    text = "The harbour was dredged to a depth of nine metres in 1931, and again in 1968 after the flood. " * 6
    with path.open("w", encoding="utf-8") as file:
        for number in range(first, first + cases):
            row = {
                "case": f"c{number}", "model": "m", "question": f"How deep is berth {number}?",
                "expected_answer": f"Berth {number} is nine metres deep.",
                "actual_answer": f"It is nine metres deep at berth {number}.",
                "retrieved_context": [f"{text} Page {page} of {number}." for page in range(3)],
            }  # fmt: skip
            file.write(json.dumps(row) + "\n")
    return path


def _text(draw: random.Random, words: int) -> str:
    sentences = []
    while words > 0:
        length = min(words, 4 + int(draw.expovariate(1 / 14)))
        sentences.append(" ".join(draw.choices(WORDS, k=length)).capitalize() + ".")
        words -= length
    return " ".join(sentences)


class Bench:
    """All that is measured.

    Args:
        folder: A folder for everything.
        runs: How often each command is run.
        scale: Rows of the large runs.

    Attributes:
        medians: Median seconds of all that was measured so far, by name.
    """

    def __init__(self, folder: Path, runs: int, scale: tuple[int, int] = SCALE) -> None:
        self._folder = folder
        self._scale = scale
        self._runs = runs
        self._number = 0
        self.medians: dict[str, float] = {}

    def fresh(self, name: str) -> Path:
        """Return a path that nothing uses yet."""
        self._number += 1
        return self._folder / f"{self._number}-{name}"

    def repeat(self, once: Callable[[], Timed]) -> list[Timed]:
        """Return several measurements."""
        return [once() for _ in range(self._runs)]

    def tell(self, name: str, found: Sequence[Timed], limit: float | None = None) -> None:
        """Print a measurement as :func:`tell` does, and keep its median."""
        self.medians[name] = median(each.wall for each in found)
        tell(name, found, limit)

    def help(self) -> None:
        """The help, and the list of evaluators."""
        home = Home(self.fresh("home"), "none")
        for arguments, limit in ((["--help"], 0.25), (["evaluators", "list"], 0.6)):
            self.tell(f"leadline {arguments[0]}", self.repeat(partial(home.leadline, *arguments)), limit)

    def rerun(self) -> None:
        """An evaluation that finds all scores in the store."""
        answers = rag_answers(self.fresh("answers.jsonl"))
        arguments = ["evaluate", str(answers), "-e", ",".join(FIFTEEN), "--embedder", "offline", "--json"]
        for server, limit in (("kept", 2.0), ("none", 1.5)):
            with Home(self.fresh("home"), server) as home:
                store = ["--store", str(self.fresh("store"))]
                first = home.leadline(*arguments, *store)
                again = self.repeat(partial(home.leadline, *arguments, *store))
            if again[0].said["computed"] or not again[0].said["reused"]:
                raise SystemExit("the rerun computed something")
            what = f"{ANSWERS} answers x {len(FIFTEEN)} evaluators"
            self.tell(f"unchanged rerun, {what}, server {server}", again, limit)
            print(f"    {verdict('seconds of the first run of it', first.wall, 12, at_least=False)}")

    def new_machine(self) -> None:
        """The first run of a user, without a home, a server's database or a store."""
        answers = plain_answers(self.fresh("answers.jsonl"), 200)

        def once() -> Timed:
            with Home(self.fresh("home"), "kept") as home:
                run = home.leadline("evaluate", str(answers), "-e", ",".join(TWO), "--json")
                return replace(run, wall=home.start.wall + run.wall)

        found = self.repeat(once)
        self.tell("server start and first run on a new machine, 200 rows x bleu, rouge", found)
        overhead = median(each.wall - each.part("score") for each in found)
        print(f"    {verdict('seconds of it that are not scoring', overhead, 10, at_least=False)}")

    def small(self) -> None:
        """A small evaluation with a new store."""
        answers = plain_answers(self.fresh("answers.jsonl"), 200)
        arguments = ["evaluate", str(answers), "-e", ",".join(TWO), "--json", "--store"]
        for server, limit in (("kept", 3.0), ("none", 2.0)):
            with Home(self.fresh("home"), server) as home:
                home.leadline(*arguments, str(self.fresh("store")))
                found = self.repeat(lambda home=home: home.leadline(*arguments, str(self.fresh("store"))))  # type: ignore[misc]
            self.tell(f"200 rows x bleu, rouge, server {server}", found, limit)

    def judged(self, peers: Mapping[str, str]) -> None:
        """Four evaluators that ask a judge, beside other tools.

        A store that has met the judge's server knows how many calls it takes; other tools are told, or find out.
        """
        cases = judged_answers(self.fresh("judged.jsonl"), CASES)
        ways = {f"{name}, {how}": (name, places) for name in peers for how, places in AS.items()}
        walls: dict[str, list[float]] = {way: [] for way in ways}
        found: dict[tuple[str, str], list[tuple[Timed, Stats]]] = defaultdict(list)
        with running(LATENCY_S, IN_FLIGHT) as endpoint, self._judging(endpoint) as kept:
            homes = {"kept": kept, "none": Home(kept.folder, "none")}
            met = str(self.fresh("store"))
            self._ask(kept, endpoint, cases, store=met)
            for number in range(self._runs):
                for at, (server, home) in enumerate(homes.items(), 2 * number + 1):
                    found[server, "new"].append(self._ask(home, endpoint, cases))
                    others = judged_answers(self.fresh("judged.jsonl"), CASES, first=at * CASES)
                    found[server, "known"].append(self._ask(home, endpoint, others, store=met))
                for way, (name, places) in ways.items():
                    walls[way].append(self._ask_peer(name, peers[name], endpoint, cases, places))
        for (server, judge), each in found.items():
            limit = {"kept": 7.5, "none": 6.5}[server]
            told = f"judged, {CASES} cases x {', '.join(JUDGED)}, server {server}"
            self.tell(told + (", judge known" if judge == "known" else ""), [one for one, _ in each], limit)
            self._tell_calls(each)
        for way, measured in walls.items():
            name, places = ways[way]
            theirs = median(measured)
            ours = median(each.wall for each, _ in found["kept", "known" if places else "new"])
            print(f"    {way}: {verdict(f'times as long as Leadline ({theirs:.1f} s)', theirs / ours, AHEAD[name])}")

    def faults(self) -> None:
        """The judged suite where calls fail."""
        cases = judged_answers(self.fresh("judged.jsonl"), MANY)
        rates: dict[bool, list[float]] = {True: [], False: []}
        measured, worked = [], []
        with running(QUICK_S, IN_FLIGHT) as sound, running(QUICK_S, IN_FLIGHT, faults=True) as faulty:
            for endpoint, bad in ((sound, False), (faulty, True)):
                with self._judging(endpoint) as home:
                    self._ask(home, endpoint, cases, FAULTY)
                    for _ in range(self._runs):
                        one, stats = self._ask(home, endpoint, cases, FAULTY)
                        rates[bad].append(stats.calls / (stats.last - stats.first))
                        measured += [one] if bad else []
                        worked += [] if bad else [1000 * one.said["time"]["processor"]["score"] / stats.calls]
        shares = "5 % 429 with Retry-After 1, 3 % 500, 3 % garbage"
        self.tell(f"{MANY:,} cases x {', '.join(FAULTY)} at {QUICK_S * 1000:.0f} ms, {shares}", measured)
        print(f"    of {MANY * len(FAULTY)} scores are missing: {', '.join(map(_missing, measured))}")
        print(f"    {median(rates[True]):.0f} calls/s; without faults {median(rates[False]):.0f} calls/s")
        print(f"    {verdict('ms of processor a call without faults', median(worked), 1, at_least=False)}")
        print(f"    {verdict('of the rate without faults', median(rates[True]) / median(rates[False]), 0.85)}")

    def collect(self) -> None:
        """Asking a model for its answers."""
        suite = judged_answers(self.fresh("suite.jsonl"), COLLECTED)
        with running(MODEL_S, IN_FLIGHT) as endpoint, Home(self.fresh("home"), "kept") as home:

            def once() -> Timed:
                store, answers = self.fresh("store"), self.fresh("answers.jsonl")
                return home.leadline(
                    "collect", str(suite), "--model", "openai/model", "--api-base", endpoint.url,
                    "--store", str(store), "-o", str(answers),
                )  # fmt: skip

            once()
            found = self.repeat(once)
            endpoint.reset()
            once()
            stats = endpoint.stats()
        self.tell(f"collect of {COLLECTED:,} answers at {MODEL_S * 1000:.0f} ms", found, 10.0)
        rate = stats.calls / (stats.last - stats.first)
        print(f"    {rate:.0f} calls/s while it asks, {stats.most_in_flight} in flight at most")

    def scale(self) -> None:
        """Large runs: rows a second beside plain loops, and time and memory by part."""
        from benchmarks.rules import make_rows, reference

        many, sample = self._scale[0], LOOPED
        answers = plain_answers(self.fresh("answers.jsonl"), many)
        timed, peaks = self._watched(answers, SCALED)
        loops = reference(make_rows(sample), SCALED)
        print(f"{many:,} rows x {', '.join(SCALED)}: {timed.wall:.1f} s, {many / timed.wall:,.0f} rows/s")
        print(f"    while scoring {many / timed.part('score'):,.0f} rows/s; plain loops {sample / loops:,.0f} rows/s")
        tell_peaks(timed, peaks)
        answers.unlink()
        self.large(self._scale[1])

    def large(self, rows: int) -> None:
        """One large run of two rules: what a row costs of the processor, and time and memory by part."""
        answers = plain_answers(self.fresh("answers.jsonl"), rows)
        timed, peaks = self._watched(answers, ("pii_leakage", "looping_detection"))
        print(f"{rows:,} rows x pii_leakage, looping_detection: {timed.wall:.1f} s, {rows / timed.wall:,.0f} rows/s")
        print(f"    {1e6 * timed.processor / rows:.0f} microseconds of processor a row, {timed.processor:.0f} s in all")
        tell_peaks(timed, peaks)
        answers.unlink()

    def _watched(self, answers: Path, evaluators: Sequence[str]) -> tuple[Timed, dict[str, tuple[float, float]]]:
        """Evaluate; return the time, and the peak memory of the command and of all its processes by part, in GiB."""
        home, profile = Home(self.fresh("home"), "none"), self.fresh("profile")
        line = [
            *LEADLINE, "evaluate", str(answers), "-e", ",".join(evaluators), "--json", "--profile", str(profile),
            "--store", str(self.fresh("store")),
        ]  # fmt: skip
        with watching() as samples:
            timed = command(line, home.environment, home.folder)
        timed = replace(timed, processor=max(spent for *_, spent in samples))  # of processes that score, too
        trace = json.loads(profile.read_text(encoding="utf-8"))
        origin = trace["otherData"]["began"]
        peaks: dict[str, tuple[float, float]] = {}
        for event in trace["traceEvents"]:
            if event.get("cat") == "part":
                began = origin + event["ts"] / 1e6
                inside = [sample for at, *sample in samples if began <= at <= began + event["dur"] / 1e6]
                own, every = (max((sample[of] for sample in inside), default=0.0) for of in (0, 1))
                before = peaks.get(event["name"], (0.0, 0.0))
                peaks[event["name"]] = (max(own, before[0]), max(every, before[1]))
        return timed, peaks

    @contextlib.contextmanager
    def _judging(self, endpoint: Remote) -> Iterator[Home]:
        """Provide a home whose judge is the endpoint."""
        with Home(self.fresh("home"), "kept") as home:
            judge = {"model": "openai/judge", "api_base": endpoint.url, "max_in_flight": IN_FLIGHT, "default": True}
            lines = (f"{name} = {json.dumps(value)}" for name, value in judge.items())
            (home.folder / "leadline.toml").write_text("\n".join(["[judges.bench]", *lines, ""]), encoding="utf-8")
            yield home

    def _ask(
        self, home: Home, endpoint: Remote, cases: Path, evaluators: Sequence[str] = JUDGED, store: str = ""
    ) -> tuple[Timed, Stats]:
        """Evaluate with the judge, by default in a new store; return the time, and what came to the endpoint."""
        endpoint.reset()
        arguments = ["evaluate", str(cases), "-e", ",".join(evaluators), "--embedder", "offline", "--json", "--store"]
        timed = home.leadline(*arguments, store or str(self.fresh("store")))
        stats = endpoint.stats()
        if timed.said["unscored"] and not stats.faults:
            raise SystemExit(f"{timed.said['unscored']} scores are missing")
        return timed, stats

    def _ask_peer(self, name: str, python: str, endpoint: Remote, cases: Path, places: int) -> float:
        """Put the suite to another tool, and return its time from command to end."""
        output, home = self.fresh(f"{name}.json"), Home(self.fresh("home"), "none")
        script = str(ROOT / "benchmarks" / "peers" / f"{name}_run.py")
        environment = {key: value for key, value in home.environment.items() if key != "PYTHONPATH"}
        line = [python, script, str(cases), endpoint.url, str(places), str(output)]
        timed = command(line, environment, home.folder)
        scores = json.loads(output.read_text(encoding="utf-8"))
        missing = sum(value is None or value != value for row in scores for value in row.values())
        if len(scores) != CASES or missing:
            raise SystemExit(f"{name} left {missing} of {CASES * len(JUDGED)} scores away")
        return timed.wall

    def _tell_calls(self, found: Sequence[tuple[Timed, Stats]]) -> None:
        rate = median(stats.calls / stats.busy for _, stats in found)
        worked = median(1000 * one.said["time"]["processor"]["score"] / stats.calls for one, stats in found)
        a_case = median(stats.calls for _, stats in found) / CASES
        print(f"    {verdict('calls/s while it judges', rate, 150)}")
        print(f"    {worked:.1f} ms of processor a call while it judges, loading the embedder included")
        print(f"    {verdict('calls a case', a_case, 5, at_least=False)}")


def tell(name: str, found: Sequence[Timed], limit: float | None = None) -> None:
    """Print the median of measurements, its range and its parts.

    Args:
        name: What was measured.
        found: The measurements.
        limit: The most seconds that are wanted.
    """
    walls = [each.wall for each in found]
    least, most, used = min(walls), max(walls), median(each.processor for each in found)
    print(f"{name}: {median(walls):.2f} s ({least:.2f} to {most:.2f}), {used:.1f} s of processor", flush=True)
    names = dict.fromkeys(name for each in found for name in each.parts)
    if names:
        parts = ", ".join(f"{part} {median(each.part(part) for each in found):.2f}" for part in names)
        untold = median(each.wall - sum(each.parts.values()) for each in found)
        print(f"    {parts}; not told by the run (the process's exit) {untold:.2f}")
    if limit is not None:
        print(f"    {verdict('seconds', median(walls), limit, at_least=False)}", flush=True)


def _missing(timed: Timed) -> str:
    """Return how many scores of a run are missing, and why."""
    report = json.loads((Path(timed.said["report"]).parent / "report.json").read_text(encoding="utf-8"))
    reasons = [f"{item['n_rows']} {item['evaluator']} {item['reason']}" for item in report["unscored"]]
    return f"{timed.said['unscored']}" + (f" ({'; '.join(reasons)})" if reasons else "")


def tell_peaks(timed: Timed, peaks: Mapping[str, tuple[float, float]]) -> None:
    """Print time and memory by part.

    Args:
        timed: The time.
        peaks: Peak memory of the command and of all its processes by part, in GiB.
    """
    for part, seconds in timed.parts.items():
        own, every = peaks.get(part, (0.0, 0.0))
        print(f"    {part:9} {seconds:7.1f} s, peak {own:.2f} GiB, with its processes {every:.2f} GiB")


@contextlib.contextmanager
def watching(every_s: float = 0.1) -> Iterator[list[tuple[float, float, float, float]]]:
    """Sample this process's children: time, the largest one's GiB, that of all together, and their processor seconds.

    Pages that processes share are counted once (``Pss``). Linux only.
    """
    samples: list[tuple[float, float, float, float]] = []
    spent: dict[int, float] = {}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every_s):
            children = _descendants(os.getpid())
            sizes = [_resident(pid) for pid in children]
            spent.update({pid: seconds for pid in children if (seconds := _spent(pid))})
            samples.append((time.time(), max(sizes, default=0.0), sum(sizes), sum(spent.values())))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def _descendants(pid: int) -> list[int]:
    try:
        tasks = [(task / "children").read_text(encoding="ascii") for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:  # it ended
        return []
    children = [int(child) for text in tasks for child in text.split()]
    return [*children, *(each for child in children for each in _descendants(child))]


def _resident(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:  # it ended
        return 0.0
    return next((int(line.split()[1]) / 2**20 for line in lines if line.startswith("Pss:")), 0.0)


def _spent(pid: int) -> float:
    """Return the processor seconds of a process, its own and the system's; 0 where it ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure, and print as it goes."""
    parser = argparse.ArgumentParser(description="Time from command to end.")
    parser.add_argument("--runs", type=int, default=5, help="how often each command is run")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="only these: " + ", ".join(SCENARIOS))
    parser.add_argument("--ragas", metavar="PYTHON", help="Python of an environment that has Ragas")
    parser.add_argument("--deepeval", metavar="PYTHON", help="Python of an environment that has DeepEval")
    parser.add_argument("--scale", action="store_true", help="also the large runs, which take minutes, once each")
    parser.add_argument("--rows", type=int, help="instead of the large runs, one of so many rows and two rules")
    parser.add_argument(
        "--history", type=Path, default=history.FILE, metavar="FILE", help="file that the medians are added to"
    )
    options = parser.parse_args()
    peers = {name: python for name in ("ragas", "deepeval") if (python := getattr(options, name))}
    print(f"{describe()}; load {os.getloadavg()[0]:.1f}; medians of {options.runs}")
    print(f"the endpoint serves {capacity():,.0f} calls/s to a bare client")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.runs)
        for name in SCENARIOS if options.only is None else options.only:
            bench.judged(peers) if name == "judged" else getattr(bench, name)()
        if options.rows:
            bench.large(options.rows)
        elif options.scale:
            bench.scale()
    for line in history.keep(options.history, bench.medians):
        print(line)


SCENARIOS: Final = ("help", "small", "rerun", "new_machine", "judged", "faults", "collect")

if __name__ == "__main__":
    main()
