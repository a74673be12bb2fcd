"""Cases: a search over the texts of a run or of all runs, with filters, and all about one case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.data import dialogue_of
from leadline.evaluators.data.messages import DialogueLine
from leadline.plugins.ui.marked_text import TextMark, marked
from leadline.plugins.ui.site import Site, asked, number, pager, person_of, shows
from leadline.tasks.collect.suite_file import ENDING
from leadline.tasks.db import connect, open_run, records, sql
from leadline.tasks.policy.questions import IN_WORDS, Question
from leadline.tasks.runs.run_index import RunLine
from leadline.tasks.runs.show import case as all_of_case

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PAGE: Final = 40
"""Answers on one page."""

MOST_WORDS: Final = 8
"""Words of a search that are looked for."""

MOST_DATASETS: Final = 300
"""Datasets that a search over all runs reads, those of the newest runs first."""

MOST_SUITES: Final = 100
"""Files that are offered as suites to add cases to."""

MOST_MESSAGES: Final = 400
"""Messages of a conversation that are drawn."""

LONGEST: Final = 4_000_000
"""Characters of a conversation's JSON that is read to be drawn."""

OUTCOMES: Final = ("fails", "passes", "scored", "unscored", "not applicable")

FILTERS: Final = ("q", "run", "metric", "outcome", "model", "question", "problem", "slice", "cluster", "threshold")


@dataclass(frozen=True, slots=True)
class CaseFilter:
    """The answers of a run that a reader wants to see; ``None`` for all.

    Attributes:
        words: Words that all stand in the question, the answer or the context.
        metric: The metric whose values are shown: ``EVALUATOR.METRIC``.
        threshold: Instead of the run's.
        question: A question of the verdict that the answer speaks against.
        slice: ``COLUMN=VALUE``.
        cluster: Name of a group of failing rows, as ``ui_cases/clusters`` gives it.
    """

    words: tuple[str, ...] = ()
    metric: str | None = None
    threshold: float | None = None
    outcome: str | None = None
    model: str | None = None
    question: str | None = None
    problem: int | None = None
    slice: str | None = None
    cluster: str | None = None


def routes(site: Site) -> list[Route]:
    """Return the pages of cases."""

    def show(request: Request) -> Response:
        wanted = asked(request, *FILTERS)
        runs = _readable(site)
        if not wanted["run"]:
            return _everywhere(site, request, wanted, runs)
        return _of_run(site, request, wanted, site.run(wanted["run"]), runs)

    def case(request: Request) -> Response:
        line = site.run(request.path_params["name"])
        found = all_of_case(site.store, site.store.run(line.id), request.query_params.get("case", "")[:2000])
        for answer in found["answers"]:
            answer |= shown_answer(answer)
        return site.page(
            request, "case.html", run=line, case=found, talks=_dialogues(site, line, found["case_id"]),
            judged=_judged(site, line), suites=suites_for(request),
        )  # fmt: skip

    return [shows("/cases", show), shows("/runs/{name}/case", case)]


def _of_run(site: Site, request: Request, wanted: dict[str, str], line: RunLine, runs: Sequence[RunLine]) -> Response:
    chosen = _filter(wanted)
    with open_run(site.store, site.store.run(line.id), read_only=True) as connection:
        choices = records(connection, sql("ui_cases/choices").format(clusters=sql("ui_cases/clusters")))[0]
        metric = _metric(connection, chosen)
        page = number(request.query_params.get("page", ""))
        lines, total = find_rows(connection, chosen, metric, PAGE, (max(1, page) - 1) * PAGE)
        place = pager(request, total, PAGE)
        if place.page != page:  # beyond the end
            lines, _ = find_rows(connection, chosen, metric, PAGE, place.offset)
    return site.page(
        request, "cases.html", asked=wanted, run=line, runs=runs, choices=choices, lines=lines, pager=place,
        metric=metric, outcomes=[(name, name) for name in OUTCOMES], words=chosen.words,
        questions=[(name, IN_WORDS[Question(name)]) for name in choices["questions"] or ()],
        suites=suites_for(request),
    )  # fmt: skip


def _everywhere(site: Site, request: Request, wanted: dict[str, str], runs: Sequence[RunLine]) -> Response:
    """Show the cases of all runs in which words stand."""
    words = _words(wanted["q"])
    offset = (max(1, number(request.query_params.get("page", ""))) - 1) * PAGE
    lines, total = _find_everywhere(site, runs, words, PAGE, offset)
    return site.page(
        request, "cases.html", asked=wanted, run=None, runs=runs, lines=lines, pager=pager(request, total, PAGE),
        words=words, suites=suites_for(request),
    )  # fmt: skip


def cases_found(site: Site, wanted: Mapping[str, str], most: int) -> tuple[dict[str, list[str]], int]:
    """Return the keys of the cases that a search finds, by the id of their run, and how many lines it finds in all.

    Args:
        wanted: The search, by the names of :data:`FILTERS`.
        most: Lines that are taken; of a run these are answers, of which a case may have several.
    """
    chosen = _filter(wanted)
    if wanted["run"]:
        run = site.run(wanted["run"])
        with open_run(site.store, site.store.run(run.id), read_only=True) as connection:
            lines, total = find_rows(connection, chosen, _metric(connection, chosen), most, 0)
        lines = [line | {"run": run} for line in lines]
    else:
        lines, total = _find_everywhere(site, _readable(site), chosen.words, most, 0)
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for line in lines:
        found[line["run"].id][line["case"]] = None
    return {run_id: list(keys) for run_id, keys in found.items()}, total


def suites_for(request: Request) -> list[str] | None:
    """Return the files of the server's folder that may be suites, ``None`` for those who may not add to them."""
    if not person_of(request).may_edit:
        return None
    return sorted(path.name for path in islice(Path.cwd().glob(f"[!.]*{ENDING}"), MOST_SUITES))


def _readable(site: Site) -> list[RunLine]:
    return [line for line in site.index.lines() if line.has_report]


def _find_everywhere(
    site: Site, runs: Iterable[RunLine], words: Sequence[str], limit: int, offset: int
) -> tuple[list[dict[str, Any]], int]:
    """Return a page of the cases of all runs in which words stand, each with its newest run, and how many there are."""
    newest: dict[str, RunLine] = {}
    for run in runs if words else ():
        newest.setdefault(run.dataset_digest, run)
    present = [site.store.dataset(digest) for digest in list(newest)[:MOST_DATASETS] if site.store.has_dataset(digest)]
    if not present:
        return [], 0
    files = {table: [str(folder / f"{table}.parquet") for folder in present] for table in ("cases", "rows")}
    everywhere = sql("ui_cases/everywhere").format(
        in_answer=_all("{in_answer}", words), in_case=_all("{in_case}", words)
    )
    with connect() as connection:
        lines = records(connection, everywhere, {**files, **_named(words), "limit": limit, "offset": offset})
    for line in lines:
        line["run"] = newest[line["dataset"]]
    return lines, lines[0]["total"] if lines else 0


def _named(words: Sequence[str]) -> dict[str, str]:
    return {f"word_{place}": word for place, word in enumerate(words)}


def _all(condition: str, words: Sequence[str]) -> str:
    """Return the condition that another holds for every word."""
    parts = {"in_case": sql("ui_cases/in_case"), "in_answer": sql("ui_cases/in_answer")}
    held = [
        condition.format(word=name, **{part: text.format(word=name) for part, text in parts.items()})
        for name in _named(words)
    ]
    return " AND ".join(held) or "true"


def _filter(wanted: Mapping[str, str]) -> CaseFilter:
    return CaseFilter(
        words=_words(wanted["q"]),
        metric=wanted["metric"] or None,
        threshold=_decimal(wanted["threshold"]),
        outcome=wanted["outcome"] or None,
        model=wanted["model"] or None,
        question=wanted["question"] or None,
        problem=number(wanted["problem"], 0) if wanted["problem"] else None,
        slice=wanted["slice"] or None,
        cluster=wanted["cluster"] or None,
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.casefold().split())[:MOST_WORDS]


def _decimal(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e12 else None


def _metric(connection: DuckDBPyConnection, chosen: CaseFilter) -> dict[str, Any]:
    """Return the chosen metric's id, direction and threshold, which may be the reader's; ``own`` is the run's."""
    nothing: dict[str, Any] = {"metric_id": None, "threshold": None, "higher_is_better": True}
    found = [] if chosen.metric is None else records(connection, sql("ui_cases/metric"), {"metric": chosen.metric})
    metric = found[0] if found else nothing
    own = metric["threshold"]
    return metric | {"own": own, "threshold": own if chosen.threshold is None else chosen.threshold}


def find_rows(
    connection: DuckDBPyConnection, chosen: CaseFilter, metric: Mapping[str, Any], limit: int, offset: int
) -> tuple[list[dict[str, Any]], int]:
    """Return a page of the answers that fit, the worst by the metric first, and how many fit in all.

    Args:
        connection: A run's database with its dataset.
        metric: Id, threshold and direction of the chosen metric.
        limit: Answers at most.
        offset: Answers before them.
    """
    ((trials,),) = connection.execute(sql("ui_cases/metric_trials"), {"metric": metric["metric_id"]}).fetchall()
    measured = sql("ui_cases/measured_often") if trials else sql("ui_cases/measured_once")
    asked: dict[str, Any] = {
        "metric": metric["metric_id"], "threshold": metric["threshold"], "upper": metric["higher_is_better"],
        "outcome": chosen.outcome, "model": chosen.model, "question": chosen.question, "problem": chosen.problem,
        "slice": chosen.slice, **_named(chosen.words),
    }  # fmt: skip
    cluster = "true"
    if chosen.cluster is not None:
        cluster = sql("ui_cases/in_cluster").format(clusters=sql("ui_cases/clusters"))
        asked["cluster"] = chosen.cluster
    hits = sql("ui_cases/hits").format(
        measured=measured, words=_all(sql("ui_cases/has_words"), chosen.words), cluster=cluster
    )
    connection.execute(hits, asked)
    place = {"upper": metric["higher_is_better"], "limit": limit, "offset": offset}
    found = records(connection, sql("ui_cases/found"), place)
    if not found:
        return [], connection.execute("SELECT count(*) FROM hits").fetchall()[0][0]
    ids = {"rows": [line["row_id"] for line in found]}
    texts = {line.pop("row_id"): line for line in records(connection, sql("ui_cases/texts"), ids)}
    failing = {line["row_id"]: line["names"] for line in records(connection, sql("ui_cases/failing_metrics"), ids)}
    lines = [line | texts[line["row_id"]] | {"failing": failing.get(line["row_id"], [])} for line in found]
    return lines, found[0]["total"]


def _judged(site: Site, line: RunLine) -> set[str]:
    """Return the evaluators of a run that ask a judge."""
    with open_run(site.store, site.store.run(line.id), read_only=True) as connection:
        return {evaluator for (evaluator,) in connection.execute(sql("ui_cases/judged_evaluators")).fetchall()}


def _dialogues(site: Site, line: RunLine, case_id: int) -> dict[str, list[DialogueLine]]:
    """Return a case's conversations as people read them, by model."""
    with open_run(site.store, site.store.run(line.id), read_only=True) as connection:
        found = connection.execute(sql("ui_cases/dialogues"), {"case": case_id, "longest": LONGEST}).fetchall()
    return {model: dialogue_of(orjson.loads(messages))[:MOST_MESSAGES] for model, messages in found}


def shown_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer's texts with what the evaluators point at marked in them, and its scores by evaluator."""
    marks: dict[tuple[str, int], list[TextMark]] = {}
    by_evaluator: dict[str, list[Any]] = {}
    for score in answer["scores"]:
        evidence = score.get("evidence") or {}
        said = evidence.get("message") or score.get("error") or ""
        by_evaluator.setdefault(score["evaluator"], []).append(score | {"said": said})
        for span in evidence.get("spans", ()):
            note = ": ".join(str(part) for part in (score["evaluator"], span.get("note")) if part)
            mark = TextMark(span["start"], span["end"], note)
            if mark not in (known := marks.setdefault((span["source"], span.get("index") or 0), [])):
                known.append(mark)
    chunks = answer["retrieved_context"] or ()
    return {
        "by_evaluator": by_evaluator,
        "shown": marked(answer["actual_answer"] or "", marks.get(("actual_answer", 0), ())),
        "chunks": [
            (chunk["doc_uri"], marked(chunk["content"] or "", marks.get(("retrieved_context", place), ())))
            for place, chunk in enumerate(chunks)
        ],
    }
