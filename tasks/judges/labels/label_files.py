"""Files of labels: our own page's, CSV, JSON Lines, exports of Label Studio and Argilla."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core import Evaluator, Metric, all_evaluators, find
from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.tasks.db.csv_files import guarded_cell, is_guarded
from leadline.tasks.load.label import Label, read_label

if TYPE_CHECKING:
    from leadline.tasks.judges.labels.judged_rows import JudgedRows

MOST_BYTES: Final = 256 << 20
_GIVEN: Final = ("value", "person", "note", "at", "saw_judge")
"""What a person fills in, or was kept of that."""
_TEXTS: Final = ("question", "contexts", "expected", "answer")
"""What a person saw."""
_COLUMNS: Final = (
    "key",
    "question_id",
    "sample",
    "case",
    "model",
    *_TEXTS,
    "value",
    "person",
    "note",
    "at",
    "saw_judge",
)
_ANSWERS: Final = ("choices", "rating", "number", "taxonomy")
"""What a person gives in Label Studio, by the name of its field."""

_NAMED: Final = 10
"""Names that are said; the others are counted."""


def read_labels(path: Path, judged: JudgedRows | None = None, *, person: str = "", question: str = "") -> list[Label]:
    """Return the labels of a file; its format is recognised.

    Args:
        path: CSV or JSON Lines with the fields of :class:`~leadline.tasks.load.label.Label`, as ``labels sample``
            writes them (lines without a value are passed over), or with ``case, model, metric, value, person, note``;
            JSON as the labelling page, Label Studio or Argilla write it.
        judged: The rows of a run, to find rows that the file names by case and model.
        person: Who gave labels that do not say so.
        question: What labels answer that do not say so.

    Raises:
        UsageError: The file cannot be read, or one of its labels makes no sense.
    """
    known = _keys_of_rows(judged)
    labels = []
    for where, record in _records(path):
        filled = {name: value for name, value in record.items() if value not in (None, "")}
        if "question_id" in filled:  # a line that labels sample wrote, where question is the text of the row
            if "value" not in filled and "at" not in filled:
                continue  # nobody has come to it; one that was exported is "can't tell"
            filled = _row_of(filled) | {name: filled[name] for name in _GIVEN if name in filled}
        filled = {"person": person, "question": filled.get("metric", question)} | filled
        if "key" not in filled:
            if "case" not in filled:
                raise UsageError(
                    f"{where} names no row: it has neither key nor case.",
                    hint="Columns are case, model, value and person, or those that labels sample wrote.",
                    code=ErrorCode.LABEL_FILE,
                )
            case, model = str(filled["case"]), str(filled.get("model", ""))
            key = known.get((case, model)) or known.get((case, ""))
            if key is None:
                raise UsageError(
                    f"{where}: there is no row of case {case!r} and model {model!r}"
                    + (" in the run." if judged else "; name the run with --run."),
                    code=ErrorCode.LABEL_FILE,
                )
            filled["key"] = key
        filled.setdefault("value", None)
        labels.append(read_label(filled, where))
    return labels


def write_labels(
    labels: Sequence[Label], path: Path, seen: Mapping[tuple[str, str], Mapping[str, Any]] | None = None
) -> str:
    """Return labels as the text of a file: CSV, JSON for ``.json``, JSON Lines for ``.jsonl``.

    A line is one that ``labels sample`` wrote, filled in: what was asked is ``question_id``, ``question`` is a text.

    Args:
        seen: Model and texts of the rows, by what was asked and the row's key; those of a row that is not here are
            empty.

    Raises:
        UsageError: It has another suffix.
    """
    records = [_line_of(label, (seen or {}).get((label.question, label.key), {})) for label in labels]
    if path.suffix == ".json":
        return json.dumps({"labels": records}, ensure_ascii=False, indent=1) + "\n"
    if path.suffix == ".jsonl":
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    if path.suffix != ".csv":
        raise unknown_format(path, ".csv, .json or .jsonl")
    return csv_text(_COLUMNS, records)


def _line_of(label: Label, seen: Mapping[str, Any]) -> dict[str, Any]:
    given = asdict(label)
    given["question_id"] = given.pop("question")
    nothing = dict.fromkeys(_TEXTS, "")
    filled = {name: value for name, value in given.items() if value not in (None, "")}
    line = given | nothing | dict(seen) | filled
    return {name: line[name] for name in _COLUMNS}


def csv_text(names: Iterable[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Return records as CSV, whose texts no spreadsheet calculates unless the user asked for the exact ones.

    Args:
        records: The records; a column that one lacks is empty, and a list is its parts with empty lines between.
    """
    shown = guarded_cell if is_guarded() else str

    def cell(value: Any) -> Any:
        value = "\n\n".join(value) if isinstance(value, list) else value
        return shown(value) if isinstance(value, str) else value

    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: cell(value) for name, value in record.items()})
    return text.getvalue()


def unknown_format(path: Path, known: str) -> UsageError:
    """Return the error for a file whose suffix is that of no format."""
    return UsageError(f"{path.name} is no file of labels.", hint=f"Give it {known}.", code=ErrorCode.LABEL_FILE)


def _keys_of_rows(judged: JudgedRows | None) -> Mapping[tuple[str, str], str]:
    """Return the digest of each row by case and model, and by case alone where only one model answered it."""
    if judged is None:
        return {}
    found = dict(zip(zip(judged.cases, judged.models, strict=True), judged.keys, strict=True))
    if len(set(judged.models)) == 1:
        found |= {(case, ""): key for (case, _), key in found.items()}
    return found


def _records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each label of a file as a record, with where it stands."""
    text = _text_of(path)
    try:
        if path.suffix == ".csv":
            csv.field_size_limit(MOST_BYTES)  # contexts may be long
            for line, record in enumerate(csv.DictReader(io.StringIO(text), restkey="…"), start=2):
                yield f"{path}, line {line}", {str(name): value for name, value in record.items()}
        elif path.suffix == ".jsonl":
            for line, part in enumerate(text.split("\n"), start=1):
                if part.strip():
                    yield f"{path}, line {line}", _object(json.loads(part), f"{path}, line {line}")
        else:
            found = json.loads(text)
            entries = found.get("labels", [found]) if isinstance(found, dict) else found
            for number, entry in enumerate(entries if isinstance(entries, list) else [entries], start=1):
                where = f"{path}, entry {number}"
                for label in _of_tool(_object(entry, where)):
                    yield where, label
    except (ValueError, csv.Error, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{path} is not {path.suffix or 'JSON'}: {error}.", code=ErrorCode.LABEL_FILE) from None


def _text_of(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} has more than {MOST_BYTES >> 20} MiB.", code=ErrorCode.LABEL_FILE)
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{path} cannot be read: {why}.", code=ErrorCode.LABEL_FILE) from None


def _object(found: object, where: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise UsageError(f"{where} is no JSON object.", code=ErrorCode.LABEL_FILE)
    return found


def _of_tool(entry: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the labels of an entry of a JSON file: one of ours, or a task of Label Studio or a record of Argilla."""
    if isinstance(entry.get("annotations"), list):
        return _of_label_studio(entry)
    if isinstance(entry.get("responses"), dict):
        return _of_argilla(entry)
    return [entry]


def _of_label_studio(task: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the labels of a task: the first choice, rating or number of each person who did not skip it."""
    about = _row_of(task.get("data"))
    for annotation in task["annotations"]:
        if not isinstance(annotation, dict):
            continue
        who = annotation.get("completed_by", "")
        who = who.get("email") or who.get("id", "") if isinstance(who, dict) else who
        said = [part for part in annotation.get("result") or [] if isinstance(part, dict)]
        values = [part["value"] for part in said if isinstance(part.get("value"), dict)]
        skipped = bool(annotation.get("was_cancelled"))
        answers = [next((value[kind] for kind in _ANSWERS if kind in value), None) for value in values]
        notes = [" ".join(map(str, value["text"])) for value in values if isinstance(value.get("text"), list)]
        answer = next((found for found in answers if found is not None), None)
        yield about | {
            "value": None if skipped else (answer[0] if isinstance(answer, list) and answer else answer),
            "person": str(about.get("person") or who),
            "at": str(annotation.get("updated_at") or annotation.get("created_at") or ""),
            "note": notes[0] if notes else "",
        }


def _of_argilla(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the labels of a record: each response to its first question that is no text."""
    about = _row_of(record.get("metadata")) or _row_of(record.get("fields"))
    for name, responses in record["responses"].items():
        if not isinstance(responses, list) or name in ("note", "comment"):
            continue
        for response in responses:
            if isinstance(response, dict):
                person = str(about.get("person") or response.get("user_id") or "")
                yield about | {"value": response.get("value"), "person": person}
        return


def _row_of(data: object) -> dict[str, Any]:
    """Return what says which row a task is about, as ``labels sample`` writes it."""
    names = ("key", "case", "model", "question_id", "sample", "person")
    found = {name: data[name] for name in names if name in data} if isinstance(data, dict) else {}
    if "question_id" in found:
        found["question"] = found.pop("question_id")
    return found


def unknown_names(names: Iterable[str], chosen: Iterable[Evaluator]) -> list[str]:
    """Return a sentence for each name of a label that no metric of rows has, with the nearest one that there is.

    Args:
        names: The names: ``EVALUATOR`` or ``EVALUATOR.METRIC``.
        chosen: The evaluators of the run; labels of others are fine too, as long as there is such an evaluator.
    """
    own = {evaluator.spec.id: evaluator.metrics for evaluator in chosen}
    unknown = [(name, metrics) for name in names if (metrics := _near(name, own)) is not None]
    more = len(unknown) - _NAMED
    found = [_sentence(name, metrics or [*own, *all_evaluators()]) for name, metrics in unknown[:_NAMED]]
    return found + ([f"{count(more, 'further name')} of labels are no evaluator's"] if more > 0 else [])


def _near(name: str, own: Mapping[str, Sequence[Metric]]) -> list[str] | None:
    """Return the metrics of the evaluator that a name begins with, none for no evaluator; ``None`` for a right name."""
    for id_, metric in ((name, ""), name.rpartition(".")[::2]):
        kind = None if id_ in own else find(id_.partition("#")[0])
        metrics = own.get(id_) or (kind.spec.metrics if kind else None)
        if metrics is None:
            continue
        if not metric or any(metric == each.key for each in metrics):
            return None
        return [f"{id_}.{each.key}" for each in metrics]
    return []


def _sentence(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"the nearest is {near[0]}" if near else "leadline evaluators list lists them"
    return f"labels of {name!r} are left out, which is no evaluator or metric; {hint}"
