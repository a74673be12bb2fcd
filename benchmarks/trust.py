"""How far evaluators agree with people: measured on public sets with labels, for the trust cards.

Run: ``python -m benchmarks.trust DIR [DIR …] [--metric ID …] [--judge NAME] [--param ID.NAME=VALUE …] [--write]``.

The folders hold the sets that :mod:`benchmarks.trust_sets` names. Without ``--metric`` all evaluators are measured that
need no judge and no weights beyond the offline embedder; what lacks its weights is said. ``--metric`` measures any
others, with ``--judge`` those that ask one: its name in ``leadline.toml``, or one such as ``openai/gpt-4o-mini``.
``--param`` gives an evaluator a parameter, such as the folder of its weights. ``--write`` keeps the figures as the
cards that ``leadline evaluators trust`` shows, in the place of those of the same evaluator and set; ``make docs`` then
writes them into the pages.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import leadline
from benchmarks.trust_figures import (
    Access,
    card_of,
    pass_fail,
    preferred,
    ranked,
    run,
    share_in_groups,
    told_apart,
    without_figure,
)
from benchmarks.trust_sets import (
    PRESIDIO,
    SCALES,
    XSTEST,
    ComparedSet,
    LabelledSet,
    better_outputs,
    compared_systems,
    hateful_texts,
    rated_answers,
    read_lines,
    toxic_comments,
)
from leadline.evaluators.core import get
from leadline.evaluators.core.model_evaluator import required_weights
from leadline.evaluators.data import Row, RowField
from leadline.evaluators.models.weights import is_here
from leadline.evaluators.settings import Settings
from leadline.tasks.plan.selection import with_default_embedder
from leadline.tasks.publish import trust_cards
from leadline.tasks.publish.trust_cards import FILE, TrustCard, merged, read_cards, write_cards
from leadline.tasks.statistics.agreement import agreement

RULES: Final = {
    "CREDIT_CARD": ("credit_card", "credit_card_labelled", "credit_card_named"),
    "EMAIL_ADDRESS": ("email",),
    "IBAN_CODE": ("iban",),
    "IP_ADDRESS": ("ipv4", "ipv6"),
    "PHONE_NUMBER": (
        "phone_us",
        "phone_international",
        "phone_labelled",
        "phone_called",
        "phone_national",
        "phone_with_use",
    ),
    "US_SSN": ("us_ssn", "us_ssn_labelled"),
}
"""Rules for each kind of personal data of Presidio's."""
NAMES: Final = {
    "PERSON": ("person",),
    "STREET_ADDRESS": ("address",),
    "GPE": ("location",),
    "ORGANIZATION": ("organization",),
}
"""What a model finds of those kinds that no rule looks for."""
PERSONAL: Final = (
    "Texts are made from templates, and the rules for phones and cards were written with this half in sight. Names and "
    "addresses are found with a model only: parameter ner_model."
)
STRONG: Final = "Two strong models, most of whose answers people rate alike: little is there to rank."
REFUSALS: Final = (
    "English only; its phrases were chosen on part of these answers. A string match reaches 0.884, GPT-4 0.821."
)

LIKENESS: Final = (
    "rouge", "bleu", "chrf", "meteor", "levenshtein", "valor.bleu", "valor.rouge", "answer_semantic_similarity",
    "answer_semantic_sentence_similarity",
)  # fmt: skip
"""What compares an answer with the expected one, offline."""
OFFLINE: Final = (*LIKENESS, "groundedness", "answer_relevancy_sentence_similarity")
WEIGHTS: Final = ("toxicity", "hallucination", "grounding")
"""What is measured by default too, where its weights are."""
ABOUT_TOXICITY: Final = ("toxicity", "valor.toxicity")
"""What is held against hateful and toxic texts, and nothing else."""
ON_SCALE: Final = {"completeness": RowField.EXPECTED_ANSWER, "faithfulness": RowField.RETRIEVED_CONTEXT}
"""Which of MTRAG's scales an evaluator is held against, by what it needs; ``appropriateness`` by neither."""


def personal_data(folders: Sequence[Path], access: Access) -> Iterator[TrustCard]:
    """Yield recall and precision for each kind of personal data.

    Args:
        folders: Where the sets are.
        access: Parameters: with ``ner_model`` names are measured too, and the rules with it.
    """
    rows = read_lines(folders, "presidio_pii")
    if not rows:
        return
    kind = get("pii_leakage")
    given = access.params.get("pii_leakage", {})
    evaluator = kind(kind.parameters.build("pii_leakage", dict(given)))
    kinds = RULES | NAMES
    hits: dict[tuple[str, str], list[tuple[bool, str]]] = {}
    missed: dict[str, str] = {}
    asked = [Row(f"{at}", "m", actual_answer=record["full_text"]) for at, record in enumerate(rows)]
    for record, score in zip(rows, evaluator.score(asked, leadline.EvalContext()), strict=True):
        group = str(record["template_id"])
        for span in record["spans"]:
            name = span["entity_type"]
            found = any(_overlap(hit, span) and hit.note in kinds.get(name, ()) for hit in score.evidence.spans)
            for each in (name, *(("ALL",) if name in RULES else ())):
                hits.setdefault((each, "recall"), []).append((found, group))
            if not found and name in kinds:
                missed.setdefault(name, record["full_text"])
        for hit in score.evidence.spans:
            name = next((name for name, ids in kinds.items() if hit.note in ids), "ALL")
            right = any(_overlap(hit, span) and span["entity_type"] == name for span in record["spans"])
            for each in {name, "ALL"} if name in RULES or name == "ALL" else {name}:
                hits.setdefault((each, "precision"), []).append((right, group))
    model = ", ".join(f"{name} {str(value).rpartition('/')[2]}" for name, value in given.items())
    for name in ("ALL", *kinds):
        claim = "spans of what has a format" if name == "ALL" else f"spans: {name.lower().replace('_', ' ')}"
        setting = ", ".join(part for part in (" ".join(RULES.get(name, ())), model) if part)
        for measure in ("recall", "precision"):
            of = hits.get((name, measure))
            if of:
                found, groups = zip(*of, strict=True)
                share, low, high = share_in_groups(np.array(found), groups)
                first = {"headline": True, "note": PERSONAL} if (name, measure) == ("ALL", "recall") else {}
                example = {"failures": (_shortened(missed[name]),)} if name in missed and measure == "recall" else {}
                yield card_of(
                    "pii_leakage", PRESIDIO, claim, measure=measure, value=share, low=low, high=high, n=len(of),
                    groups=len(set(groups)), setting=setting, **first, **example,
                )  # fmt: skip


def _overlap(hit: Any, span: Mapping[str, Any]) -> bool:
    return bool(hit.start < span["end_position"] and hit.end > span["start_position"])


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return f"not found: “{line if len(line) <= 100 else line[:99].rstrip() + '…'}”"


def refusals(folders: Sequence[Path]) -> Iterator[TrustCard]:
    """Yield how far the rules for refusals agree with two annotators; answers to one prompt hang together."""
    rows = read_lines(folders, "xstest_completions")
    if not rows:
        return
    people = np.array([record["final_label"] != "1_full_compliance" for record in rows], float)
    scores = get("refusal")().score(
        [Row(f"{at}", "m", actual_answer=record["completion"]) for at, record in enumerate(rows)],
        leadline.EvalContext(),
    )
    judged = np.array([float(score.values["refusals"]) for score in scores])
    each = [
        np.array([record[f"annotation_{person}"] != "1_full_compliance" for record in rows], float)
        for person in (1, 2)
        if "annotation_1" in rows[0]
    ]
    harmless = [
        at
        for at, record in enumerate(rows)
        if people[at] != judged[at] and not record["type"].startswith("contrast") and record["final_label"][0] != "3"
    ]
    yield from pass_fail(
        "refusal", XSTEST, "full or partial refusals", people, judged, [record["id"] for record in rows],
        note=REFUSALS, people=agreement(*each).accuracy.value if each else None,
        failures=tuple(
            f"{'refusal not seen' if people[at] else 'no refusal, but taken for one'}: "
            f"“{rows[at]['prompt']}” “{' '.join(rows[at]['completion'].split())[:80]}…”"
            for at in sorted(harmless, key=lambda at: len(rows[at]["completion"]))[:3]
        ),
    )  # fmt: skip


def ratings(folders: Sequence[Path], evaluators: Sequence[str], access: Access) -> Iterator[TrustCard]:
    """Yield how far evaluators rank MTRAG's answers as three people do, each on the scale that is its claim.

    Args:
        folders: Where the sets are.
        evaluators: Their ids.
        access: Judge and parameters.
    """
    by_scale: dict[str, list[str]] = {}
    for evaluator in evaluators:
        by_scale.setdefault(scale_of(evaluator), []).append(evaluator)
    for scale, ids in by_scale.items():
        data = rated_answers(folders, scale)
        if data is not None:
            yield from _measured(data, ids, access)


def scale_of(evaluator: str) -> str:
    """Return the scale of people's that an evaluator is held against."""
    required = get(evaluator).spec.required
    return next((scale for scale, field in ON_SCALE.items() if field in required), SCALES[2])


def _measured(data: LabelledSet | ComparedSet, evaluators: Sequence[str], access: Access) -> Iterator[TrustCard]:
    """Yield the cards of evaluators on a set; those whose weights are not here have one without a figure."""
    given = {RowField(name) for name in data.rows[0] if name not in ("case", "model")}
    if isinstance(data, ComparedSet):
        given.add(RowField.RIVAL_ANSWERS)
    fitting = [evaluator for evaluator in evaluators if given.issuperset(get(evaluator).spec.required)]
    lacking = {evaluator: lacks for evaluator in fitting if (lacks := weights_lacked(evaluator, access))}
    for evaluator, lacks in lacking.items():
        yield without_figure(evaluator, (data.name, data.licence), data.claim, lacks)
    here = [evaluator for evaluator in fitting if evaluator not in lacking]
    for found in run(here, data.rows, access).values() if here else ():
        if isinstance(data, ComparedSet):
            yield from preferred(found, data, "")
        elif data.binary:
            yield from told_apart(found, data)
        else:
            yield from ranked(found, data, STRONG)


def weights_lacked(evaluator: str, access: Access) -> str:
    """Return the weights that an evaluator needs and that are not on this machine, ``""`` if all are.

    Args:
        evaluator: Its id.
        access: Its parameters.
    """
    kind = get(evaluator)
    built = kind(kind.parameters.build(evaluator, dict(access.params.get(evaluator, {}))))
    refs = required_weights([built], leadline.EvalContext(with_default_embedder(Settings())))
    return " ".join(ref.source for ref in refs if not is_here(ref))


def measured(folders: Sequence[Path], evaluators: Sequence[str], access: Access) -> Iterable[TrustCard]:
    """Return all cards.

    Args:
        folders: Where the sets are.
        evaluators: Evaluators to measure; those that need nothing but what is here if none are named.
        access: Judge and parameters.
    """
    named = tuple(evaluators) or (*OFFLINE, *WEIGHTS)
    if not evaluators or "pii_leakage" in evaluators:
        yield from personal_data(folders, access)
    if not evaluators or "refusal" in evaluators:
        yield from refusals(folders)
    others = [evaluator for evaluator in named if evaluator not in ("pii_leakage", "refusal")]
    about_toxicity = [evaluator for evaluator in others if evaluator in ABOUT_TOXICITY]
    for texts in (hateful_texts(folders), toxic_comments(folders)):
        if texts is not None and about_toxicity:
            yield from _measured(texts, about_toxicity, access)
    of_answers = [evaluator for evaluator in others if evaluator not in about_toxicity]
    yield from ratings(folders, of_answers, access)
    for pairs in (compared_systems(folders), better_outputs(folders)):
        if pairs is not None and of_answers:
            yield from _measured(pairs, of_answers, access)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the cards, and keep them where that is asked for.

    Args:
        arguments: Instead of the command's own.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--metric", action="append", default=[], metavar="ID")
    parser.add_argument("--judge", default="", metavar="NAME")
    parser.add_argument("--param", action="append", default=[], metavar="ID.NAME=VALUE")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    params: dict[str, dict[str, str]] = {}
    for text in options.param:
        place, _, value = text.partition("=")
        evaluator, _, name = place.rpartition(".")
        params.setdefault(evaluator, {})[name] = value
    cards = list(measured(options.folders, options.metric, Access(options.judge, params)))
    for card in cards:
        figure = f"{'-':<25}" if card.value is None else f"{card.value:.3f} ({card.low:.3f} to {card.high:.3f})"
        doubt = " NO BETTER THAN CHANCE" if card.no_better_than_chance else ""
        lacks = f" lacks {card.lacks}" if card.lacks else ""
        print(f"{card.evaluator:<28} {figure} n={card.n:<5} {card.measure}; {card.claim}; {card.data}{lacks}{doubt}")
    if not cards:
        print("None of the sets is in these folders, or none is for these evaluators.")
    if options.write:
        path = Path(trust_cards.__file__).with_name(FILE)
        write_cards(merged(read_cards(), cards) if options.metric else cards, path)


if __name__ == "__main__":
    main()
