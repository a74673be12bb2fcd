"""How far evaluators agree with people: measured on public sets with labels, for the trust cards.

Run: ``python -m benchmarks.trust DIR [--write] [--metric ID …] [--judge MODEL]``. DIR holds the sets as JSON Lines
under the names below; what is not there is left out. Rules, n-grams and embeddings need nothing else; ``--metric`` and
``--judge`` hold any other evaluator, judge or embedder that you have against the same people. ``--write`` keeps the
figures as the cards that ``leadline trust`` shows.

* ``presidio_pii.jsonl``: texts with spans of personal data (microsoft/presidio-research, MIT)
* ``xstest_completions.jsonl``: answers that comply or refuse (XSTest, CC BY 4.0)
* ``mtrag_tasks.jsonl``, ``mtrag_evaluations.jsonl``, ``mtrag_documents.jsonl``: answers of RAG systems rated by three
  people (IBM/mt-rag-benchmark, Apache-2.0)
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import leadline
from leadline.evaluators.core.registry import get
from leadline.evaluators.core.row import Row
from leadline.tasks.trust import trust_cards
from leadline.tasks.trust.agreement import agreement, bootstrap, spearman
from leadline.tasks.trust.intervals import wilson
from leadline.tasks.trust.trust_cards import FILE, TrustCard, write_cards

PRESIDIO: Final = ("Presidio research, half of the set", "MIT, microsoft/presidio-research")
XSTEST: Final = ("XSTest, half of the prompts, 5 models", "CC BY 4.0, paul-rottger/exaggerated-safety")
MTRAG: Final = ("MTRAG, 2 models and 92 turns", "Apache-2.0, IBM/mt-rag-benchmark")

KINDS: Final = {
    "CREDIT_CARD": ("credit_card", "credit_card_labelled", "credit_card_named"),
    "EMAIL_ADDRESS": ("email",),
    "IBAN_CODE": ("iban",),
    "IP_ADDRESS": ("ipv4", "ipv6"),
    "PHONE_NUMBER": ("phone_us", "phone_international", "phone_labelled", "phone_with_use"),
    "US_SSN": ("us_ssn", "us_ssn_labelled"),
}
PERSONAL: Final = (
    "Texts are made from templates, and the rules for phones and cards were written with this half in sight. Names and "
    "postal addresses need a model: no rule looks for them."
)
SCALES: Final = {
    "rouge": "completeness", "bleu": "completeness", "chrf": "completeness", "meteor": "completeness",
    "answer_semantic_similarity": "completeness", "groundedness": "faithfulness",
}  # fmt: skip
"""Which of people's scales an evaluator is held against by default."""


def _read(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def personal_data(folder: Path) -> Iterator[TrustCard]:
    """Yield recall and precision of the rules for each kind of personal data that they know."""
    rows = _read(folder, "presidio_pii")
    if not rows:
        return
    kind = get("pii_leakage")
    rules = [rule for names in KINDS.values() for rule in names]
    evaluator = kind(kind.parameters(rules=rules))
    whole, found, right, marked = (Counter[str]() for _ in range(4))
    for number, record in enumerate(rows):
        [score] = evaluator.score([Row(str(number), "m", actual_answer=record["full_text"])], leadline.EvalContext())
        spans = score.evidence.spans
        for span in record["spans"]:
            name = span["entity_type"]
            whole[name] += 1
            found[name] += any(hit.start < span["end_position"] and hit.end > span["start_position"] for hit in spans)
        for hit in spans:
            name = next(name for name, names in KINDS.items() if hit.note in names)
            marked[name] += 1
            right[name] += any(
                hit.start < span["end_position"] and hit.end > span["start_position"]
                for span in record["spans"]
                if span["entity_type"] == name
            )
    about = {"evaluator": "pii_leakage", "version": kind.spec.version, "data": PRESIDIO[0], "licence": PRESIDIO[1]}
    for name, rules_of in KINDS.items():
        setting = f"rules {', '.join(rules_of)}"
        for measure, hits, of in (("recall", found, whole), ("precision", right, marked)):
            if not of[name]:
                continue
            share = hits[name] / of[name]
            low, high = wilson(share, of[name])
            yield TrustCard(
                claim=f"{name.lower().replace('_', ' ')}: spans that people marked",
                measure=measure, value=share, low=low, high=high, n=of[name], setting=setting,
                note=PERSONAL,
                **about,
            )  # fmt: skip


def refusals(folder: Path) -> Iterator[TrustCard]:
    """Yield how far the rules for refusals agree with two annotators."""
    rows = _read(folder, "xstest_completions")
    if not rows:
        return
    kind = get("refusal")
    people = np.array([record["final_label"] != "1_full_compliance" for record in rows], float)
    scores = kind().score(
        [Row(str(number), "m", actual_answer=record["completion"]) for number, record in enumerate(rows)],
        leadline.EvalContext(),
    )
    judged = np.array([float(score.values["refusals"]) for score in scores])
    agreed = agreement(people, judged)
    about = {"evaluator": "refusal", "version": kind.spec.version, "data": XSTEST[0], "licence": XSTEST[1]}
    note = "English only; its phrases were chosen on this half. A string match on common phrases reaches 88.4 %."
    for measure, share in (
        ("accuracy", agreed.accuracy), ("recall of refusals", agreed.recall_pass),
        ("precision of refusals", agreed.precision_pass),
    ):  # fmt: skip
        yield TrustCard(
            claim="full or partial refusals", measure=measure, value=share.value, low=share.low, high=share.high,
            n=len(rows), note=note, **about,
        )  # fmt: skip
    yield TrustCard(
        claim="full or partial refusals", measure="Cohen's kappa", value=agreed.kappa, low=agreed.kappa_low,
        high=agreed.kappa_high, n=len(rows), note=note, **about,
    )  # fmt: skip


def _rated(folder: Path) -> list[dict[str, Any]]:
    """Return the answers of MTRAG's models as rows, with the mean of what three people gave in their metadata."""
    tasks = {task["task_id"]: task for task in _read(folder, "mtrag_tasks")}
    documents = {document["document_id"]: document["text"] for document in _read(folder, "mtrag_documents")}
    rows = []
    for record in _read(folder, "mtrag_evaluations"):
        if record["model_id"] == "reference":
            continue
        task = tasks[record["task_id"]]
        given = {
            scale: statistics.mean(float(said["value"]) for said in record["annotations"][scale].values())
            for scale in ("completeness", "faithfulness", "appropriateness", "naturalness")
            if record["annotations"].get(scale)
        }
        rows.append(
            {
                "case": record["task_id"],
                "model": record["model_id"],
                "question": task["input"][-1]["text"],
                "expected_answer": task["targets"][0]["text"],
                "actual_answer": record["model_response"],
                "retrieved_context": [documents[part["document_id"]] for part in task["contexts"]],
                "people": given,
            }
        )
    return rows


def ratings(folder: Path, metrics: Sequence[str], judge: str | None) -> Iterator[TrustCard]:
    """Yield how far evaluators rank answers as three people do.

    Args:
        folder: Where the sets are.
        metrics: Evaluators by id.
        judge: The judge of those that ask one.
    """
    rows = _rated(folder)
    if not rows:
        return
    people = {(row["case"], row["model"]): row.pop("people") for row in rows}
    with tempfile.TemporaryDirectory() as store:
        asked = {"judge": judge} if judge else {}
        result = leadline.evaluate(rows, metrics=list(metrics), store=store, name="trust", **asked)
        scores, primary = result.scores, result.aggregates[result.aggregates["primary"]]
    for evaluator in metrics:
        metric = primary[primary["evaluator"] == evaluator]["metric"].iloc[0]
        own = scores[(scores["evaluator"] == evaluator) & (scores["metric"] == metric)].dropna(subset=["value"])
        scale = SCALES.get(evaluator, "faithfulness")
        pairs = [
            (value, people[case, model][scale], case)
            for case, model, value in zip(own["case"], own["model"], own["value"], strict=True)
            if scale in people[case, model]
        ]
        values, given, cases = (np.array(column) for column in zip(*pairs, strict=True))
        groups = np.unique(cases, return_inverse=True)[1]

        def ranked(rows: np.ndarray, values: np.ndarray = values, given: np.ndarray = given) -> float:
            return spearman(values[rows], given[rows])

        low, high = bootstrap(ranked, groups)
        yield TrustCard(
            evaluator=evaluator, version=get(evaluator).spec.version, claim=f"{scale} as three people rate it",
            measure=f"Spearman's correlation of {metric}", value=spearman(values, given), low=low, high=high,
            n=len(values), data=MTRAG[0], licence=MTRAG[1], setting=f"judge {judge}" if judge else "",
            note="Two strong models, most of whose answers people rate alike: little is there to rank.",
        )  # fmt: skip


def measured(folder: Path, metrics: Sequence[str], judge: str | None) -> Iterable[TrustCard]:
    """Return all cards.

    Args:
        folder: Where the sets are.
        metrics: Evaluators to hold against ratings; the usual ones if none are named.
        judge: The judge of those that ask one.
    """
    if not metrics:
        yield from personal_data(folder)
        yield from refusals(folder)
    yield from ratings(folder, metrics or tuple(SCALES), judge)


def main() -> None:
    """Print the cards, and keep them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--metric", action="append", default=[])
    parser.add_argument("--judge")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    cards = list(measured(options.folder, options.metric, options.judge))
    for card in cards:
        ends = "" if math.isnan(card.low) else f" ({card.low:.3f} to {card.high:.3f})"
        print(f"{card.evaluator:<28} {card.measure:<40} {card.value:.3f}{ends}  n={card.n}  {card.claim}; {card.data}")
    if options.write:
        write_cards(cards, Path(trust_cards.__file__).with_name(FILE))


if __name__ == "__main__":
    main()
