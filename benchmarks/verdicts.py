"""Verdicts against the truth: what the default gate says of answers that people judged right or wrong.

Run: ``python -m benchmarks.verdicts DIR [DIR …] [--draws 50]``. The folders hold ``evouna.jsonl`` (EVOUNA, Wang et al.
2023, Apache-2.0: answers of five systems to questions of NQ and TriviaQA, each judged by people); without them the few
answers beside this module are taken.

For each share of wrong answers, number of rows and length of the expected answers, answers are drawn as often as
``--draws`` says, each draw a model of one run of the default suite without a judge, and the table has how many of them
the gate passes, fails and leaves open. Bots of other kinds (a support bot, labels, JSON, empty answers, invented
numbers) are made, and a judge over HTTP that knows the truth errs in one of ten verdicts. Expected answers of up to
three words are of the half of the questions on which nothing was chosen.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import numpy as np

import leadline
from benchmarks.trust_sets import rated_answers, read_lines
from leadline.tasks.db import open_run, records, show_targets

HERE: Final = Path(__file__).parent
WRONG: Final = (0.0, 0.1, 0.3, 0.5, 1.0)
ROWS: Final = (20, 40, 100)
SHORT: Final = 3
"""Words of an expected answer that is short."""
FEW: Final = HERE / "verdict_answers.jsonl"

_JUDGED: Final = """
SELECT
    model_key AS model,
    CASE
        WHEN coalesce(bool_or(severity = 'high' AND NOT instrument), false) THEN 'FAIL'
        WHEN any_value(outcome) = 'pass' THEN 'PASS'
        ELSE 'INCONCLUSIVE'
    END AS verdict,
    coalesce(list_distinct(flatten(list(row_ids) FILTER (problems.question = 'right'))), []) AS listed
FROM models
LEFT JOIN answer_shares ON answer_shares.model_id = models.model_id AND answer_shares.question = 'right'
LEFT JOIN problems ON problems.model_id = models.model_id
GROUP BY model_key
"""

_SCORED: Final = """
SELECT
    evaluator || '.' || metric AS metric,
    case_key AS "case",
    model_key AS model,
    CASE WHEN higher_is_better THEN value ELSE -value END AS value,
    (value >= above) = upper_is_good AS passes
FROM row_scores
JOIN targets USING (metric_id)
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN rows USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
WHERE value IS NOT NULL AND above IS NOT NULL
"""

FLAGGED: Final = 0.01
"""Share of harmless texts in which the judge sees harm."""
JUDGES: Final = 10
OF_RIGHT: Final = ("reference_recall", "contains", "exact_match", "rouge", "answer_semantic_similarity")
OF_GROUNDED: Final = ("unsupported_numbers", "groundedness")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that people judged.

    Attributes:
        question: The question.
        expected: The expected answers.
        text: The answer.
        right: What people say of it.
        system: Who gave it.
    """

    question: str
    expected: tuple[str, ...]
    text: str
    right: bool
    system: str

    @property
    def words(self) -> int:
        """Words of the shortest expected answer."""
        return min(len(each.split()) for each in self.expected)

    @property
    def held_back(self) -> bool:
        """Whether its question is of the half on which nothing was chosen."""
        return bool(hashlib.sha256(self.question.encode()).digest()[0] % 2)

    def row(self, case: str, model: str) -> dict[str, Any]:
        """Return it as a line of a dataset."""
        return {
            "case": case, "model": model, "question": self.question, "expected_answer": list(self.expected),
            "actual_answer": self.text,
        }  # fmt: skip


def read_answers(folders: Sequence[Path]) -> list[Answer]:
    """Return the answers of EVOUNA, of the folders or those beside this module."""
    path = next((folder / "evouna.jsonl" for folder in folders if (folder / "evouna.jsonl").exists()), FEW)
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        Answer(line["question"], tuple(line["expected"]), line["answer"], bool(line["right"]), line["model"])
        for line in lines
    ]


def drawn(answers: Sequence[Answer], wrong: float, rows: int, chance: random.Random) -> list[Answer] | None:
    """Return rows of which a share is wrong, of as many questions as there are; ``None`` if there are too few."""
    n_wrong = round(wrong * rows)
    parts = ((n_wrong, [a for a in answers if not a.right]), (rows - n_wrong, [a for a in answers if a.right]))
    if any(wanted > len(pool) for wanted, pool in parts):
        return None
    taken: list[Answer] = []
    asked: set[str] = set()
    for wanted, pool in parts:
        order = chance.sample(pool, len(pool))
        order.sort(key=lambda answer: answer.question in asked)
        new: dict[str, Answer] = {}
        for answer in order:
            new.setdefault(answer.question, answer)
        chosen = [*new.values(), *(answer for answer in order if new[answer.question] is not answer)][:wanted]
        asked |= {answer.question for answer in chosen}
        taken += chosen
    return taken


def verdicts(rows: Sequence[Mapping[str, Any]], **settings: Any) -> dict[str, tuple[str, set[int]]]:
    """Return for each model what the gate says of it, and the rows that problems name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        result = leadline.evaluate(path, fail_on="high", against="none", store=f"{folder}/store", **settings)
        store = result.store
        with open_run(store, store.run(result.run), read_only=True) as connection:
            return {line["model"]: (line["verdict"], set(line["listed"])) for line in records(connection, _JUDGED)}


def mixtures(answers: Sequence[Answer], draws: int, sizes: Sequence[int] = ROWS) -> Iterator[str]:
    """Yield a line for each mixture of right and wrong answers."""
    systems = [answer for answer in answers if answer.system != "fid"]
    pools = {
        "short": [answer for answer in systems if answer.words <= SHORT and answer.held_back],
        "longer": [answer for answer in systems if answer.words > SHORT],
    }
    for kind, pool in pools.items():
        for wrong in WRONG:
            for size in sizes:
                chance = random.Random(f"{kind}{wrong}{size}")
                rows, bad = [], []
                for draw in range(draws):
                    chosen = drawn(pool, wrong, size, chance)
                    for number, answer in enumerate(chosen or ()):
                        if not answer.right:
                            bad.append(len(rows))
                        rows.append(answer.row(f"{draw}-{number}", f"draw{draw}"))
                if not rows:
                    continue
                found = verdicts(rows)
                listed = set().union(*(named for _, named in found.values()))
                share = f"{len(listed & set(bad)) / len(bad):.0%}" if bad else "-"
                yield _line(
                    f"{kind} references, {wrong:.0%} wrong", size, [verdict for verdict, _ in found.values()], share
                )


def made(draws: int) -> Iterator[str]:
    """Yield a line for each kind of bot that is made."""
    for name, make in BOTS.items():
        chance = random.Random(name)
        rows = [
            {**row, "case": f"{draw}-{number}", "model": f"draw{draw}"}
            for draw in range(draws)
            for number, row in enumerate(make(chance))
        ]
        yield _line(name, len(rows) // draws, [verdict for verdict, _ in verdicts(rows).values()], "-")


def _line(name: str, rows: int, found: Sequence[str], listed: str) -> str:
    counts = Counter(found)
    shares = " ".join(f"{counts[verdict] / len(found):>12.0%}" for verdict in ("PASS", "INCONCLUSIVE", "FAIL"))
    return f"{name:<38} {rows:>5} {shares} {listed:>8}"


# Bots whose truth is known because they were made --------------------------------------------------------------------

_FACTS: Final = (
    (
        "How long does charging take?",
        "four hours",
        "Charging the battery takes {} with the charger supplied.",
        "9 hours",
    ),
    ("What is the range of the City?", "60 km", "The City has a range of {} on one charge.", "25 km"),
    ("Who founded the shop?", "Anna Velten", "The shop was founded by {}.", "Peter Schulz"),
    ("Where is the workshop?", "Leipzig", "Our workshop is in {}.", "Hamburg"),
    ("When was the shop founded?", "1998", "It was founded in {}.", "2007"),
    ("How much does the helmet cost?", "$49", "The helmet costs {}.", "$89"),
    ("How many gears has the Tour?", "eleven", "The Tour has {} gears.", "eight"),
    ("What is the warranty period?", "two years", "We give a warranty of {}.", "five years"),
    ("Which colour is the Cargo?", "green", "The Cargo is {}.", "red"),
    ("How heavy is the City?", "23 kg", "The City weighs {}.", "31 kg"),
    ("Wie lange ist die Rückgabefrist?", "30 Tage", "Die Rückgabefrist beträgt {}.", "10 Tage"),
    ("Wer baut den Motor?", "Brose", "Den Motor baut {}.", "Yamaha"),
    ("Wann öffnet der Laden samstags?", "10 Uhr", "Samstags öffnet der Laden um {}.", "8 Uhr"),
    ("Welche Reifen hat das City?", "28 Zoll", "Das City hat Reifen von {}.", "26 Zoll"),
    ("Was kostet eine Inspektion?", "75 Euro", "Eine Inspektion kostet {}.", "120 Euro"),
    ("¿Cuántas personas lleva el Cargo?", "tres personas", "El Cargo lleva {}.", "cinco personas"),
    ("¿Qué frenos tiene el Tour?", "frenos de disco", "El Tour tiene {}.", "frenos de llanta"),
    ("Quelle est la vitesse maximale ?", "25 km/h", "La vitesse maximale est de {}.", "45 km/h"),
    ("Où est le siège ?", "Lyon", "Le siège est à {}.", "Nantes"),
    ("Combien de batteries sont livrées ?", "deux batteries", "On livre {}.", "quatre batteries"),
)
_TOPICS: Final = ("bike", "trailer", "scooter", "lamp")


def _support(chance: random.Random, wrong: float = 0.0, *, references: str = "short") -> Iterator[dict[str, Any]]:
    facts = [(topic, fact) for topic in _TOPICS for fact in _FACTS]
    for topic, (question, right, sentence, other) in chance.sample(facts, 40):
        said = sentence.format(other if chance.random() < wrong else right)
        yield {
            "question": f"{question} ({topic})",
            "expected_answer": right if references == "short" else sentence.format(right),
            "actual_answer": f"About the {topic}: {said} Write to support@velten-bikes.com for more.",
            "retrieved_context": [f"{topic}: {sentence.format(right)}"],
        }


def _labels(chance: random.Random, wrong: float = 0.0) -> Iterator[dict[str, Any]]:
    names = ("urgent", "routine", "spam", "question")
    for number in range(40):
        label = chance.choice(names)
        said = chance.choice([name for name in names if name != label]) if chance.random() < wrong else label
        yield {"question": f"Classify message {number}.", "expected_answer": label, "actual_answer": said}


def _code(chance: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(40):
        if number % 2:
            answer = json.dumps({"city": f"Port {number}", "berth": number})
            yield {"question": f"Extract message {number}.", "expected_answer": answer, "actual_answer": answer}
        else:
            text = f"def add_{number}(a, b):\n    return a + b + {number}"
            yield {"question": f"Write add_{number}.", "expected_answer": text, "actual_answer": f"Here it is:\n{text}"}


def _empty(chance: random.Random) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(_support(chance)):
        yield row | {"actual_answer": ""} if number < 8 else row


BOTS: Final[Mapping[str, Callable[[random.Random], Iterator[dict[str, Any]]]]] = {
    "support bot, all right": _support,
    "support bot, sentences, all right": lambda chance: _support(chance, references="long"),
    "support bot, 30 % wrong": lambda chance: _support(chance, 0.3),
    "support bot, all wrong": lambda chance: _support(chance, 1.0),
    "labels, all right": _labels,
    "labels, 30 % wrong": lambda chance: _labels(chance, 0.3),
    "labels, all wrong": lambda chance: _labels(chance, 1.0),
    "code and JSON, all right": _code,
    "8 of 40 answers empty": _empty,
}


def evaluators(answers: Sequence[Answer], folders: Sequence[Path]) -> Iterator[str]:
    """Yield how well evaluators tell good answers from bad ones, at the threshold that the default policy has."""
    for half, held_back in (("chosen on", False), ("held back", True)):
        for system, those in (
            ("LLMs", lambda a: a.system != "fid"),
            ("FiD", lambda a: a.system == "fid"),
        ):
            part = [answer for answer in answers if answer.held_back is held_back and those(answer)]
            rows = [answer.row(f"{number}", "m") for number, answer in enumerate(part)]
            yield from told_apart(f"EVOUNA, {system}, {half}", rows, [answer.right for answer in part], OF_RIGHT)
    rated = rated_answers(folders, "faithfulness")
    if rated is not None:
        faithful = [rated.people[row["case"], row["model"]] >= 3 for row in rated.rows]
        yield from told_apart("MTRAG, faithful to 3 of 4", rated.rows, faithful, OF_GROUNDED)
    known = [
        line for line in read_lines(folders, "faithdial_audit") if line["begin"] in ("entailment", "hallucination")
    ]
    rows = [
        {
            "case": f"{number}", "model": "m", "question": line["history"], "actual_answer": line["answer"],
            "retrieved_context": [line["knowledge"]],
        }
        for number, line in enumerate(known)
    ]  # fmt: skip
    yield from told_apart("FaithDial's audit", rows, [line["begin"] == "entailment" for line in known], OF_GROUNDED)


def told_apart(
    name: str, rows: Sequence[Mapping[str, Any]], good: Sequence[bool], metrics: Sequence[str]
) -> Iterator[str]:
    """Yield a line for each metric: how well it tells the rows that people call good from the others."""
    truth = {(row["case"], row["model"]): is_good for row, is_good in zip(rows, good, strict=True)}
    if len(set(good)) < 2:
        return
    with tempfile.TemporaryDirectory() as folder:
        result = leadline.evaluate(rows, metrics=metrics, against="none", store=folder)
        with open_run(result.store, result.store.run(result.run), read_only=True) as connection:
            show_targets(connection)
            lines = records(connection, _SCORED)
    for metric in dict.fromkeys(line["metric"] for line in lines):
        of_metric = [line for line in lines if line["metric"] == metric]
        known = np.array([truth[line["case"], line["model"]] for line in of_metric])
        scores = np.array([line["value"] for line in of_metric])
        passed = np.array([line["passes"] for line in of_metric], dtype=bool)
        if known.all() or not known.any():
            continue
        better = scores[known][:, None] - scores[~known]
        yield (
            f"{name:<38} {metric:<55} {len(known):>5} {(better > 0).mean() + 0.5 * (better == 0).mean():>6.3f} "
            f"{(passed == known).mean():>9.3f} {passed[known].mean():>11.3f} {1 - passed[~known].mean():>11.3f}"
        )


@contextmanager
def judging(truth: Mapping[str, bool], errs: float, seed: int) -> Iterator[str]:
    """Serve a judge that knows which answers are right, and errs in a share of its verdicts; yields its address.

    Asked whether a text does harm, it says so of one in a hundred that do none.
    """

    class Judge(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["content-length"])).decode()
            prompt = "\n".join(str(message["content"]) for message in json.loads(asked)["messages"])
            lot = int.from_bytes(hashlib.sha256(f"{seed}{prompt}".encode()).digest()[:4]) / 2**32
            if "one word" in prompt:
                reply = "true" if lot < FLAGGED else "false"
            else:
                right = next((is_right for text, is_right in truth.items() if text in prompt), False)
                reply = "5\nIt says what the reference says." if right != (lot < errs) else "2\nIt says something else."
            message = {"role": "assistant", "content": reply}
            body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *told: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def judged(answers: Sequence[Answer], draws: int, errs: float = 0.1) -> Iterator[str]:
    """Yield a line for each mixture as judges see it, each of ten that err in other verdicts."""
    pool = [answer for answer in answers if answer.system != "fid" and len(answer.text) > 20]
    os.environ.setdefault("OPENAI_API_KEY", "none")
    truth = {answer.text: answer.right for answer in pool}
    for wrong in WRONG:
        found: list[str] = []
        for seed in range(JUDGES):
            chance = random.Random(f"judge{wrong}{seed}")
            rows = [
                answer.row(f"{draw}-{number}", f"draw{draw}") | {"expected_answer": answer.expected[0]}
                for draw in range(-(-draws // JUDGES))
                for number, answer in enumerate(drawn(pool, wrong, 40, chance) or ())
            ]
            if not rows:
                break
            with judging(truth, errs, seed) as address:
                judges = {"model": "openai/judge", "api_base": address}
                found += [verdict for verdict, _ in verdicts(rows, judges=judges).values()]
        if found:
            yield _line(f"judge that errs in {errs:.0%}, {wrong:.0%} wrong", 40, found, "-")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    given = parser.parse_args()
    answers = read_answers(given.folders)
    print(
        f"{'answers':<38} {'metric':<55} {'rows':>5} {'AUC':>6} {'accuracy':>9} {'right pass':>11} {'wrong fail':>11}"
    )
    for line in evaluators(answers, given.folders):
        print(line, flush=True)
    print(f"\n{'set':<38} {'rows':>5} {'PASS':>12} {'INCONCLUSIVE':>12} {'FAIL':>12} {'listed':>8}")
    for lines in (mixtures(answers, given.draws, given.rows), made(given.draws), judged(answers, given.draws)):
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
