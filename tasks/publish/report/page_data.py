"""The cases that the page can show: chosen, cut to the room there is for them, and packed as columns.

The page grows by at most :data:`ROW_BYTES` a row and holds at most :data:`MAX_ROWS` rows. Texts are cut as far as that
takes, those of rows that problems and insights lead to the least.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import jsonio
from leadline.tasks.db import Insight, Problem, sql
from leadline.tasks.publish.facts import Facts, MetricView, number
from leadline.tasks.publish.report.dialogues import dialogues

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ITEMS: Final = 20
"""Chunks, expected answers, labels and entries of a list that are shown of a row."""
SPANS: Final = 40
"""Stretches of text that an evaluator points at in one row."""
LINE: Final = 300
"""Characters of a note, a label, or the name of a document."""
LEAST: Final = 100
"""Characters that a message keeps however little room there is."""


@dataclass(frozen=True, slots=True)
class Room:
    """The characters that texts of a row may take in the page; longer ones are cut.

    Attributes:
        text: Of a question, an answer or an expected answer.
    """

    text: int

    @property
    def chunk(self) -> int:
        """Of a chunk of the context."""
        return self.text // 2

    @property
    def message(self) -> int:
        """Of an evaluator's words on a row."""
        return max(LEAST, min(self.text, 1000))

    def from_of(self, source: str, starts: Iterable[int]) -> int:
        """Return where the excerpt of a text begins, which something was found in.

        Args:
            starts: Where that begins, in code points.
        """
        most = self.chunk if source == "retrieved_context" else self.text
        first = min(starts, default=0)
        return 0 if first < most * 3 // 4 else first - most // 4


@dataclass(frozen=True, slots=True)
class ShownEvidence:
    """An evaluator's evidence on one row, as far as a page has room for it.

    Attributes:
        spans: Stretches of text, with positions in the whole text.
        error: The instrument's message where the row is unscored.
    """

    evaluator: int
    message: str
    spans: Sequence[Mapping[str, Any]]
    data: Any
    error: str | None

    @classmethod
    def read(cls, evaluator: int, text: str | None, error: str | None) -> ShownEvidence:
        """Read evidence as it is stored."""
        value = _object(text)
        found = value.get("spans")
        spans = [_short_span(span) for span in found if _is_span(span)] if isinstance(found, list) else []
        return cls(
            evaluator, str(value.get("message") or ""), spans[:SPANS], _pruned(value.get("data"), 1500) or None, error
        )

    def packed(self, room: Room, begins: Mapping[tuple[str, int], int]) -> list[Any]:
        """Return it as the page's data has it, with positions in the excerpts.

        Args:
            begins: Where the excerpts of texts begin, if not at their beginning, by source and number.
        """
        spans = []
        for span in self.spans:
            source, index = str(span.get("source")), span.get("index", 0)
            most = room.chunk if source == "retrieved_context" else room.text
            begin = begins.get((source, index), 0)
            start, end = max(0, span["start"] - begin), min(most, span["end"] - begin)
            if start < end:
                spans.append({**span, "start": start, "end": end})
        data = _pruned(self.data, room.message)
        if isinstance(data, dict) and len(jsonio.dump_plain(data)) > 2 * room.message:
            plain = {name: value for name, value in data.items() if not isinstance(value, list | dict)}
            data = plain | {"…": "the rest is too long for this page"}
        elif isinstance(data, list) and len(jsonio.dump_plain(data)) > 2 * room.message:
            data = "too long for this page"
        return [self.evaluator, cut(self.message, room.message), spans, data, self.error and cut(self.error, room.text)]


def cut(text: str, most: int) -> str:
    """Return the beginning of a text with the number of characters that are left out.

    Args:
        most: Its characters at most, but for the note.
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _short_span(span: Mapping[str, Any]) -> dict[str, Any]:
    short = {name: span[name] for name in ("source", "start", "end", "value") if span.get(name) is not None}
    if isinstance(short.get("value"), float):
        short["value"] = float(f"{short['value']:.4g}")
    elif "value" in short:
        short["value"] = _pruned(short["value"], LINE)
    if type(span.get("index")) is int:
        short["index"] = span["index"]
    return short | ({"note": cut(str(span["note"]), LINE)} if span.get("note") else {})


def _is_span(span: Any) -> bool:
    return isinstance(span, dict) and all(type(span.get(edge)) is int for edge in ("start", "end"))


def _pruned(value: Any, most: int, depth: int = 4) -> Any:
    """Return a JSON value with its long texts cut, its long lists and objects shortened, and its depths left out."""
    if isinstance(value, str):
        return cut(value, most)
    if isinstance(value, list):
        kept = [_pruned(item, most // 2, depth - 1) for item in value[:ITEMS]] if depth else []
        return [*kept, f"… ({len(value) - len(kept):,} more)"] if len(value) > len(kept) else kept
    if isinstance(value, dict):
        names = list(value)[:ITEMS] if depth else []
        kept_of = {cut(name, LINE): _pruned(value[name], most, depth - 1) for name in names}
        return kept_of | ({"…": f"{len(value) - len(names):,} more"} if len(value) > len(names) else {})
    return value


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = jsonio.load(text) if text else {}
    except ValueError:
        return {"message": "The evidence of this row cannot be read."}
    return value if isinstance(value, dict) else {"data": value}


MAX_ROWS: Final = 5_000
"""Rows in the page; of a run with more, it holds the worst, the best and a sample."""
ROW_BYTES: Final = 1_400
"""Bytes of the page's file that its data may take for each row, on average."""
FREE_BYTES: Final = 600_000
"""Bytes that they may take beside that, so that a small run keeps its texts."""
ROOMS: Final = (20_000, 10_000, 5_000, 2_500, 1_200, 600, 300, 150, 80)
"""Characters that a text may have; the first of these that fits is taken."""
ROOMY: Final = 40
"""Rows that findings lead to first: their texts may be several times as long."""
MOST_NAMED: Final = 40
"""Labels that stand for the annotations of a data item."""
MAX_FLIPS: Final = 2_000
MAX_PROBLEMS: Final = 2_000
MAX_EVIDENCE: Final = 100_000
"""Bytes of an evaluator's evidence on a row that are read."""
MAX_ROWS_OF_PROBLEM: Final = 200
EXAMPLES_OF_FINDING: Final = 3
"""Cases of a problem or an insight that are in the page before others."""
_COMPRESSION: Final = 5
"""Characters of text for one byte of the page, where text is as repetitive as it gets."""


@dataclass(frozen=True, slots=True)
class PageData:
    """The single cases in the page.

    Attributes:
        packed: JSON, compressed with gzip, as base64.
        longest: Characters after which a text is cut.
    """

    packed: str
    n_cases: int
    n_rows: int
    n_flips: int
    n_problems: int
    longest: int
    n_cut: int


_DATA: Final = '<script type="application/gzip" id="data">'
"""What stands before the cases in a page; see ``report.html``."""


def read_page(page: Path, counts: Mapping[str, int]) -> PageData | None:
    """Return the cases in a page that is whole; ``None`` where it has none.

    Args:
        page: A ``report.html``.
        counts: The fields of its :class:`PageData` but for ``packed``.
    """
    packed = re.search(f"{re.escape(_DATA)}([A-Za-z0-9+/=]+)</script>", page.read_text(encoding="utf-8"))
    return PageData(packed=packed[1], **counts) if packed and counts else None


def page_data(connection: DuckDBPyConnection, facts: Facts) -> PageData:
    """Choose the cases and pack them; the page's scripts read the result."""
    most = MAX_ROWS
    while True:
        chosen = _Chosen.choose(connection, facts, most)
        allowed = FREE_BYTES + ROW_BYTES * len(chosen.at)
        lengths = connection.execute(sql("publish/page_length"), {"limits": list(ROOMS)}).fetchall()
        for text, length in lengths:
            if (length or 0) <= allowed * _COMPRESSION or text == ROOMS[-1]:
                data = _pack(connection, facts, chosen, text)
                if len(data.packed) <= allowed:
                    return data
        if most < ITEMS:
            return data
        most //= 2


@dataclass(frozen=True)
class _Chosen:
    """The cases of the page and what evaluators said of them.

    Attributes:
        at: Places of the rows by id.
        examples: Rows that findings name; they have more room.
        positions: Places of the metrics by id.
        models: Places of the models by id.
        evaluators: Places of the evaluators by id.
        scores: A column per metric.
        evidence: By row.
    """

    at: Mapping[int, int]
    examples: frozenset[int]
    positions: Mapping[int, int]
    models: Mapping[int, int]
    evaluators: Mapping[int, int]
    metrics: Sequence[MetricView]
    scores: Sequence[Sequence[Any]]
    evidence: Mapping[int, Sequence[ShownEvidence]]

    @classmethod
    def choose(cls, connection: DuckDBPyConnection, facts: Facts, most: int) -> _Chosen:
        """Fill the table ``page_cases`` and read what is not cut."""
        given: dict[str, Any] = {"examples": _examples(facts), "roomy": ROOMY}
        if facts.n_rows <= most:
            connection.execute(sql("publish/page_all"), given)
        else:
            connection.execute(sql("publish/page_choice"), given | {"most": most})
        metrics = [m for evaluator in facts.evaluators for m in evaluator.metrics if not m.dataset_level]
        positions = {metric.id: position for position, metric in enumerate(metrics)}
        evaluators = {evaluator.id: position for position, evaluator in enumerate(facts.evaluators)}
        rows = connection.execute(sql("publish/page_row_ids")).fetchall()
        at = {row_id: position for position, (row_id, _) in enumerate(rows)}
        return cls(
            at=at,
            examples=frozenset(row_id for row_id, example in rows if example),
            positions=positions,
            models={model.id: position for position, model in enumerate(facts.models)},
            evaluators=evaluators,
            metrics=metrics,
            scores=_scores(connection, positions),
            evidence=_evidence(connection, evaluators, at),
        )

    def room(self, row_id: int, text: int) -> Room:
        """Return the room of a row where others have ``text`` characters."""
        return Room(_roomy(text) if row_id in self.examples else text)

    def fails(self, row_id: int, evaluator: int) -> bool:
        """Return whether a row misses a threshold of an evaluator, which is given by its place."""
        place = self.at[row_id]
        return any(
            self.evaluators[metric.evaluator_id] == evaluator
            and isinstance(value := self.scores[position][place], int | float)
            and metric.passes(value) is False
            for position, metric in enumerate(self.metrics)
            if metric.primary
        )


def _roomy(text: int) -> int:
    return min(ROOMS[0], 6 * text)


def _pack(connection: DuckDBPyConnection, facts: Facts, chosen: _Chosen, text: int) -> PageData:
    begins = _begin(connection, chosen, text)
    cases, n_cut = _cases(connection, text)
    rows, chunks, more_cut = _rows(connection, chosen, {case["id"]: n for n, case in enumerate(cases)}, text)
    flips = _flips(connection, chosen.positions, chosen.models)
    talks, histories = dialogues(connection, chosen.at, chosen.positions, text)
    problems = [_problem(item, chosen) for item in facts.problems[:MAX_PROBLEMS]]
    data = {
        "models": [{"key": model.key, "label": model.label} for model in facts.models],
        "evaluators": [{"key": evaluator.key, "name": evaluator.short} for evaluator in facts.evaluators],
        "metrics": [_metric(facts, metric, chosen.evaluators) for metric in chosen.metrics],
        "cases": cases,
        "rows": rows,
        "chunks": chunks,
        "scores": chosen.scores,
        "trials": _trials(connection, chosen.positions, chosen.at),
        "unscored": _unscored(connection, chosen.evaluators, chosen.at),
        "evidence": {
            chosen.at[row_id]: [item.packed(chosen.room(row_id, text), begins.get(row_id, {})) for item in found]
            for row_id, found in chosen.evidence.items()
        },
        "dialogues": talks,
        "histories": histories,
        "flipped": [row_id for (row_id,) in connection.execute(sql("publish/flipped_rows")).fetchall()],
        "flips": flips,
        "problems": problems,
    }
    return PageData(
        packed=base64.b64encode(gzip.compress(jsonio.dump_plain(data), compresslevel=6, mtime=0)).decode("ascii"),
        n_cases=len(cases),
        n_rows=len(chosen.at),
        n_flips=len(flips),
        n_problems=len(problems),
        longest=text,
        n_cut=n_cut + more_cut,
    )


def _begin(connection: DuckDBPyConnection, chosen: _Chosen, text: int) -> dict[int, dict[tuple[str, int], int]]:
    """Fill the table ``page_windows``: where the excerpts of answers and chunks begin that do not at their beginning.

    An excerpt shows the first thing that an evaluator found whose threshold the row misses, or that any found.
    """
    begins: dict[int, dict[tuple[str, int], int]] = {}
    for row_id, found in chosen.evidence.items():
        starts = _starts(found)
        failing = _starts(item for item in found if chosen.fails(row_id, item.evaluator)) if starts else {}
        for place in starts:
            if begin := chosen.room(row_id, text).from_of(place[0], failing.get(place) or starts[place]):
                begins.setdefault(row_id, {})[place] = begin
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE page_windows (row_id UINTEGER, answer_from BIGINT, chunks_from BIGINT[])"
    )
    lines = [
        (row_id, at.get(("actual_answer", 0), 0), [at.get(("retrieved_context", n), 0) for n in range(ITEMS)])
        for row_id, at in begins.items()
    ]
    if lines:
        connection.executemany("INSERT INTO page_windows VALUES (?, ?, ?)", lines)
    return begins


def _starts(found: Iterable[ShownEvidence]) -> dict[tuple[str, int], list[int]]:
    """Return where the stretches of a row's answer and of the chunks that are shown begin, by source and number."""
    starts: dict[tuple[str, int], list[int]] = {}
    for item in found:
        for span in item.spans:
            source, index = str(span.get("source")), span.get("index", 0)
            if (source == "actual_answer" and index == 0) or (source == "retrieved_context" and 0 <= index < ITEMS):
                starts.setdefault((source, index), []).append(span["start"])
    return starts


def _examples(facts: Facts) -> list[int]:
    """Return the rows that the page's other parts lead to: the first of each finding, and those that changed."""
    findings: tuple[Problem | Insight, ...] = (*facts.problems[:MAX_PROBLEMS], *facts.insights)
    changed = [row for model in facts.changes.models for row in (*model.broken, *model.fixed)] if facts.changes else []
    rows = [row for finding in findings for row in finding.row_ids[:EXAMPLES_OF_FINDING]]
    return list(dict.fromkeys([*rows, *(row.row_id for row in changed)]))


def _labels(column: str) -> str:
    """Return the SQL of the labels of a column of annotations."""
    values = f"json_extract_string({column}, '$[*].labels[*].value')"
    more = f"if(len({values}) > {MOST_NAMED}, ', …', '')"
    return (
        f"CASE WHEN {column} = '[]' THEN '(nothing)' "
        f"WHEN {column} IS NOT NULL THEN array_to_string({values}[:{MOST_NAMED}], ', ') || {more} END"
    )


def _names(text: int) -> dict[str, str]:
    """Return what the statements on cases and rows are filled in with."""
    room, roomy = Room(text), Room(_roomy(text))
    return {
        "most": f"if(example, {roomy.text}, {room.text})",
        "chunk": f"if(example, {roomy.chunk}, {room.chunk})",
        "items": str(ITEMS),
        "line": str(LINE),
    }


def _cases(connection: DuckDBPyConnection, text: int) -> tuple[list[dict[str, Any]], int]:
    """Return the cases, with the lengths of their texts that are cut, and the number of these."""
    query = sql("publish/page_cases").format(labels=_labels("expected_annotations"), **_names(text))
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description or ()]
    cases, n_cut = [], 0
    for line in cursor.fetchall():
        case = dict(zip(names, line, strict=True))
        q_length, x_lengths, n_expected = (case.pop(name) for name in ("q_length", "x_lengths", "n_expected"))
        cuts: dict[str, Any] = {}
        if case["q"] is not None and len(case["q"]) < q_length:
            cuts["q"] = q_length
        shorter = {n: length for n, length in enumerate(x_lengths) if len(case["x"][n]) < length}
        cuts |= {"x": shorter} if shorter else {}
        cuts |= {"more": n_expected - len(x_lengths)} if n_expected > len(x_lengths) else {}
        cases.append(case | ({"cut": cuts} if cuts else {}))
        n_cut += len(cuts)
    return cases, n_cut


def _rows(
    connection: DuckDBPyConnection, chosen: _Chosen, cases: Mapping[int, int], text: int
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return the rows as columns, the texts of the context's chunks, each once, and the number of texts that are cut.

    Of a text that is cut, ``cut`` has the place where the excerpt begins and the length of the whole.
    """
    names = ("id", "case", "model", "answer", "error", "duration", "cost", "context")
    rows: dict[str, Any] = {name: [] for name in names} | {"cut": {}, "more": {}}
    chunks: dict[tuple[str, int, int], int] = {}
    query = sql("publish/page_rows").format(labels=_labels("predicted_annotations"), **_names(text))
    for row_id, case, model, answer, begin, length, error, duration, cost, context, n_context in connection.execute(
        query
    ).fetchall():
        place = len(rows["id"])
        values = (row_id, cases[case], chosen.models[model], answer, error, number(duration), number(cost))
        for name, value in zip(names, values, strict=False):
            rows[name].append(value)
        rows["context"].append(
            [
                [chunks.setdefault((c["content"] or "", c["from"], c["length"] or 0), len(chunks)), c["doc_uri"]]
                for c in context or ()
            ]
        )
        if answer is not None and len(answer) < length:
            rows["cut"][place] = [begin, length]
        if n_context and n_context > len(context):
            rows["more"][place] = n_context - len(context)
    shorter = {n: [begin, length] for (content, begin, length), n in chunks.items() if len(content) < length}
    texts = {"texts": [content for content, _, _ in chunks], "cut": shorter}
    return rows, texts, len(rows["cut"]) + len(rows["more"]) + len(shorter)


def _metric(facts: Facts, metric: MetricView, evaluators: Mapping[int, int]) -> dict[str, Any]:
    evaluator = facts.evaluator(metric.evaluator_id)
    return {
        "key": metric.key,
        "name": metric.name,
        "label": evaluator.label(metric) if evaluator else metric.name,
        "e": evaluators[metric.evaluator_id],
        "hib": metric.higher_is_better,
        "low": number(metric.low),
        "high": number(metric.high),
        "role": metric.role,
        "threshold": number(metric.threshold),
        "primary": metric.primary,
        "share": metric.share,
    }


def _scores(connection: DuckDBPyConnection, metrics: Mapping[int, int]) -> list[list[Any]]:
    """Return a column per metric: a number, or null where there is none."""
    found = dict(connection.execute(sql("publish/page_scores")).fetchall())
    return [[number(value) for value in found[metric]] for metric in metrics]


def _short(value: float) -> float:
    """Six significant digits are what a reader can use; the exact value is in ``scores.parquet``."""
    return float(f"{value:.6g}")


def _trials(
    connection: DuckDBPyConnection, metrics: Mapping[int, int], at: Mapping[int, int]
) -> dict[int, dict[int, list[Any]]]:
    """Return the score of each trial by row and metric, where there were several."""
    found: dict[int, dict[int, list[Any]]] = {}
    for metric, row_id, values in connection.execute(sql("publish/page_trials")).fetchall():
        if metric in metrics and row_id in at:
            scores = [None if value is None else number(_short(value)) for value in values]
            found.setdefault(at[row_id], {})[metrics[metric]] = scores
    return found


def _unscored(
    connection: DuckDBPyConnection, evaluators: Mapping[int, int], at: Mapping[int, int]
) -> dict[int, dict[int, str]]:
    found: dict[int, dict[int, str]] = {}
    for evaluator, row_id, reason in connection.execute(sql("publish/page_unscored")).fetchall():
        if row_id in at:
            found.setdefault(at[row_id], {})[evaluators[evaluator]] = reason
    return found


def _evidence(
    connection: DuckDBPyConnection, evaluators: Mapping[int, int], at: Mapping[int, int]
) -> dict[int, list[ShownEvidence]]:
    """Return what evaluators said of each row, some at a time: whole evidence may be too much for memory."""
    found: dict[int, list[ShownEvidence]] = {}
    cursor = connection.execute(sql("publish/page_evidence").format(most=MAX_EVIDENCE))
    while lines := cursor.fetchmany(1_000):
        for evaluator, row_id, text, error in lines:
            if row_id in at and evaluator in evaluators:
                found.setdefault(row_id, []).append(ShownEvidence.read(evaluators[evaluator], text, error))
    return found


def _flips(
    connection: DuckDBPyConnection, metrics: Mapping[int, int], models: Mapping[int, int]
) -> list[dict[str, Any]]:
    lines = connection.execute(sql("publish/page_flips").format(limit=MAX_FLIPS)).fetchall()
    return [
        {
            "metric": metrics[metric],
            "model": models[model],
            "cases": [original, perturbed],
            "rows": [original_row, perturbed_row],
            "values": [number(_short(before)), number(_short(after))],
            "direction": direction,
            "how": how,
            "confirmed": confirmed,
        }
        for (
            metric,
            model,
            original,
            perturbed,
            original_row,
            perturbed_row,
            before,
            after,
            direction,
            how,
            confirmed,
        ) in lines
        if metric in metrics and model in models
    ]


def _problem(item: Problem, chosen: _Chosen) -> dict[str, Any]:
    return {
        "severity": item.severity,
        "type": item.type,
        "fault": item.fault,
        "evaluator": None if item.evaluator_id is None else chosen.evaluators.get(item.evaluator_id),
        "model": None if item.model_id is None else chosen.models.get(item.model_id),
        "description": item.description,
        "actions": item.actions,
        "n": len(item.row_ids),
        "rows": [row for row in item.row_ids if row in chosen.at][:MAX_ROWS_OF_PROBLEM],
    }
