"""Cases: a search over the texts of a run or of all runs, with filters, and all about one case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.data import dialogue_of
from leadline.evaluators.data.messages import DialogueLine
from leadline.plugins.ui.marked_text import TextMark, marked
from leadline.plugins.ui.site import Site, asked, number, pager, person_of, shows
from leadline.tasks.collect.suite_file import ENDING
from leadline.tasks.db import SEARCHED_FILE, connect, literal, open_run, records, sql
from leadline.tasks.policy.questions import IN_WORDS, Question
from leadline.tasks.runs.run_index import RunLine
from leadline.tasks.runs.show import case_in

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

RANKED: Final = ("fails", "unscored", "scored", "passes", "not applicable")
"""The outcomes in the order of a list; ``ui_cases/hits`` has their places."""

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
        run = site.store.run(line.id)
        with open_run(site.store, run, read_only=True) as connection:
            found = case_in(connection, run, request.query_params.get("case", "")[:2000])
            talks = _dialogues(connection, found["case_id"])
            judged = {name for (name,) in connection.execute(sql("ui_cases/judged_evaluators")).fetchall()}
        for answer in found["answers"]:
            answer |= shown_answer(answer)
        return site.page(
            request, "case.html", run=line, case=found, talks=talks, judged=judged,
            suites=suites_for(request),
        )  # fmt: skip

    return [shows("/cases", show), shows("/runs/{name}/case", case)]


def _of_run(site: Site, request: Request, wanted: dict[str, str], line: RunLine, runs: Sequence[RunLine]) -> Response:
    chosen = _filter(wanted)
    dataset = site.store.dataset(line.dataset_digest)
    with open_run(site.store, site.store.run(line.id), read_only=True) as connection:
        choices = records(connection, sql("ui_cases/choices").format(clusters=sql("ui_cases/clusters")))[0]
        metric = _metric(connection, chosen)
        page = number(request.query_params.get("page", ""))
        lines, total = find_rows(connection, dataset, chosen, metric, PAGE, (max(1, page) - 1) * PAGE)
        place = pager(request, total, PAGE)
        if place.page != page:  # beyond the end
            lines, _ = find_rows(connection, dataset, chosen, metric, PAGE, place.offset)
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
        dataset = site.store.dataset(run.dataset_digest)
        with open_run(site.store, site.store.run(run.id), read_only=True) as connection:
            lines, total = find_rows(connection, dataset, chosen, _metric(connection, chosen), most, 0)
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
    named = _named(words)
    stand = " AND ".join(sql("ui_cases/stands_in").format(word=name) for name in named)
    with connect() as connection:
        connection.execute(sql("ui_cases/everywhere").format(searched=_searched(present), words=stand), named)
        ((total,),) = connection.execute("SELECT count(*) FROM found").fetchall()
        lines = records(connection, sql("ui_cases/page_everywhere"), {"limit": limit, "offset": offset})
        for key, table, text in (("case_id", "cases", "questions"), ("row_id", "rows", "answers")):
            files = sorted({str(site.store.dataset(line["dataset"]) / f"{table}.parquet") for line in lines})
            asked = {"files": files, "ids": [line[key] for line in lines]}
            texts = records(connection, sql(f"ui_cases/{text}_everywhere"), asked) if files else []
            known = {(line["dataset"], line[key]): line for line in texts}
            lines = [line | known.get((line["dataset"], line[key]), {}) for line in lines]
    return [line | {"run": newest[line["dataset"]]} for line in lines], total


def _named(words: Sequence[str]) -> dict[str, str]:
    return {f"word_{place}": word for place, word in enumerate(words)}


def _searched(datasets: Sequence[Path]) -> str:
    """Return the query of what is searched for words; large datasets have had it in a file since they were loaded."""
    kept = [folder for folder in datasets if (folder / SEARCHED_FILE).exists()]
    others = [folder for folder in datasets if folder not in kept]

    def files(folders: Sequence[Path], name: str) -> str:
        return ", ".join(literal(folder / name) for folder in folders)

    parts = [sql("ui_cases/kept_texts").format(files=files(kept, SEARCHED_FILE))] if kept else []
    if others:
        named = {table: files(others, f"{table}.parquet") for table in ("cases", "rows")}
        parts.append(sql("load/searched").format(**named))
    return " UNION ALL ".join(parts)


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
    """Return the words of a search, the longest first: the rarest, most likely, which spares the others."""
    return tuple(sorted(text.split(), key=len, reverse=True))[:MOST_WORDS]


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
    connection: DuckDBPyConnection, dataset: Path, chosen: CaseFilter, metric: Mapping[str, Any], limit: int,
    offset: int,
) -> tuple[list[dict[str, Any]], int]:  # fmt: skip
    """Return a page of the answers that fit, the worst by the metric first, and how many fit in all.

    Args:
        connection: A run's database with its dataset.
        dataset: The folder of that.
        metric: Id, threshold and direction of the chosen metric.
        limit: Answers at most.
        offset: Answers before them.
    """
    (extent,) = records(connection, sql("ui_cases/extent"))
    sets, asked = _sets(connection, dataset, chosen, extent)
    if metric["metric_id"] is not None:
        found, total = _by_value(connection, chosen, metric, sets, asked, extent["total"], limit, offset)
    elif chosen.outcome is None:
        rows, *others = sets or [sql("ui_cases/of_every_row")]
        query = sql("ui_cases/bits").format(last=extent["last_row"], rows=rows, filters=_in_all(others))
        ((bits,),) = connection.execute(query, asked).fetchall()
        numbers = np.flatnonzero(np.frombuffer((bits or "0").encode(), np.uint8) == ord("1"))
        place = numbers[offset : offset + limit].tolist()
        found, total = [{"row_id": row, "value": None, "outcome": None} for row in place], len(numbers)
    else:
        found, total = [], 0
    if not found:
        return [], total
    ids = {"rows": [line["row_id"] for line in found]}
    texts = {line.pop("row_id"): line for line in records(connection, sql("ui_cases/texts"), ids)}
    cases = {"cases": [line["case_id"] for line in texts.values()]}
    questions = {line["case_id"]: line for line in records(connection, sql("ui_cases/questions"), cases)}
    texts = {row: line | questions[line["case_id"]] for row, line in texts.items()}
    failing = {line["row_id"]: line["names"] for line in records(connection, sql("ui_cases/failing_metrics"), ids)}
    lines = [line | texts[line["row_id"]] | {"failing": failing.get(line["row_id"], [])} for line in found]
    return lines, total


def _sets(
    connection: DuckDBPyConnection, dataset: Path, chosen: CaseFilter, extent: Mapping[str, Any]
) -> tuple[list[str], dict[str, Any]]:
    """Return the queries of the numbers of rows that all have to hold a row that fits, and what they ask for."""
    sets: list[str] = []
    asked: dict[str, Any] = {}
    if chosen.question is not None:
        sets.append(_failing(connection, chosen.question, asked))
    if chosen.problem is not None:
        sets.append(sql("ui_cases/of_problem"))
        asked["problem"] = chosen.problem
    if chosen.slice is not None:
        parts = chosen.slice.split("=")  # names and values may have the sign, too
        places = range(1, len(parts))
        sets.append(sql("ui_cases/of_slice"))
        asked["columns"] = ["=".join(parts[:place]) for place in places]
        asked["values"] = ["=".join(parts[place:]) for place in places]
    if chosen.cluster is not None:
        sets.append(sql("ui_cases/in_cluster").format(clusters=sql("ui_cases/clusters")))
        asked["cluster"] = chosen.cluster
    if chosen.model is not None:
        sets.append(sql("ui_cases/of_model"))
        asked["model"] = chosen.model
    if named := _named(chosen.words):
        stand = {name: sql("ui_cases/stands_in").format(word=name) for name in named}
        if extent["has_context"]:
            rows_with, has = sql("ui_cases/rows_with"), sql("ui_cases/has_word")
            last = extent["last_row"]
            columns = [rows_with.format(last=last, word=name, stands=stands) for name, stands in stand.items()]
            filters = " AND ".join(has.format(word=name) for name in named)
            query = sql("ui_cases/of_texts_and_contexts").format(
                searched=_searched([dataset]), asked=", ".join(columns), filters=filters
            )
        else:
            words = " AND ".join(stand.values())
            query = sql("ui_cases/of_texts").format(searched=_searched([dataset]), words=words)
        sets.append(query)
        asked |= named
    return sets, asked


def _in_all(sets: Iterable[str]) -> str:
    return " AND ".join(sql("ui_cases/in_set").format(rows=rows) for rows in sets) or "true"


def _failing(connection: DuckDBPyConnection, question: str, asked: dict[str, Any]) -> str:
    """Return the query of the rows that a metric speaks against, and add its thresholds to what is asked."""
    missed = ["false"]
    for line in records(connection, sql("ui_cases/deciding"), {"question": question}):
        limit = f"limit_{line['metric_id']}"
        asked[limit] = line["threshold"]
        missed.append(
            f"(metric_id = {line['metric_id']} AND value {'<' if line['higher_is_better'] else '>'} ${limit})"
        )
    return sql("ui_cases/of_question").format(missed=" OR ".join(missed))


def _measured(connection: DuckDBPyConnection, metric_id: int, rows: int) -> str:
    """Return the query of the rows of a dataset, of which there are so many, with their values of a metric."""
    (scores,) = records(connection, sql("ui_cases/metric_trials"), {"metric": metric_id})
    measured = sql("ui_cases/measured_often" if scores["trials"] else "ui_cases/measured_once")
    every = scores["trials"] == 0 and scores["total"] == rows
    return sql("ui_cases/measured_rows" if every else "ui_cases/every_row").format(measured=measured)


def _by_value(
    connection: DuckDBPyConnection, chosen: CaseFilter, metric: Mapping[str, Any], sets: Sequence[str],
    asked: Mapping[str, Any], rows: int, limit: int, offset: int,
) -> tuple[list[dict[str, Any]], int]:  # fmt: skip
    """Return a page of the rows in all sets by a metric, and how many there are in all.

    A page is read from the list's nearer end, since all before it is sorted.
    """
    hits = sql("ui_cases/hits").format(measured=_measured(connection, metric["metric_id"], rows), filters=_in_all(sets))
    values = {
        **asked, "metric": metric["metric_id"], "threshold": metric["threshold"], "upper": metric["higher_is_better"],
        "outcome": None if chosen.outcome is None else [*RANKED, chosen.outcome].index(chosen.outcome),
    }  # fmt: skip
    if sets:
        connection.execute(sql("ui_cases/keep_hits").format(hits=hits), values)
        hits, values = "FROM hits", {}
    ((total,),) = connection.execute(sql("ui_cases/count_hits").format(hits=hits), values).fetchall()
    limit = min(limit, max(0, total - offset))
    if not limit:
        return [], total
    backwards = offset > total // 2
    way = "DESC NULLS FIRST" if backwards else "ASC NULLS LAST"
    place = {"limit": limit, "offset": total - offset - limit if backwards else offset}
    query = sql("ui_cases/found").format(hits=hits, way=way, sign="" if metric["higher_is_better"] else "-")
    found = records(connection, query, values | place)
    for line in found:
        line["outcome"] = None if line["outcome"] is None else RANKED[line["outcome"]]
    return found[::-1] if backwards else found, total


def _dialogues(connection: DuckDBPyConnection, case_id: int) -> dict[str, list[DialogueLine]]:
    """Return a case's conversations as people read them, by model."""
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
