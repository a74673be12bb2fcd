"""JSON fields: which fields of the answer are right, which are wrong, missing or too many?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import numpy as np
import orjson
from pydantic import BaseModel, ConfigDict, Field, model_validator
from rapidfuzz.distance import Levenshtein

from leadline.evaluators.core import DataKind, EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import count, listing, quoted
from leadline.evaluators.structured.json_valid import Where, identity_of, is_deep, parse_answer
from leadline.evaluators.text.quantities import Quantity, quantities

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.data import Details, LabelValues

RuleName: TypeAlias = Literal["exact", "number", "date", "set", "text", "ignore"]
Verdict: TypeAlias = Literal["right", "wrong", "missing", "extra"]

MOST_FIELDS: Final = 10_000
"""Fields of an object that are compared."""

MOST_LEVELS: Final = 100
SHOWN: Final = 50
"""Fields that the evidence of a row lists, those that are not right first."""

_ITEM: Final = re.compile(r"\[\d+\]")
_VERDICTS: Final[tuple[Verdict, ...]] = ("right", "wrong", "missing", "extra")

LONGEST_DATE: Final = 64
LONGEST_TEXT: Final = 100_000
_ISO: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ].*)?", re.ASCII)
_ANY_DAYS: Final = (datetime(2000, 1, 1), datetime(2003, 5, 17))  # noqa: DTZ001 - calendar days have no zone
"""What stands in for parts that a date leaves out; a text that gives another day with each says no day."""


class FieldRule(BaseModel):
    """One rule, as a user gives it: its name alone, or an object with the settings below."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: RuleName
    relative: Annotated[
        float | None, Field(ge=0, lt=1, description="Of number: tolerance, a share of the expected.")
    ] = None
    absolute: Annotated[float, Field(ge=0, description="Of number: tolerance as a number.")] = 0.0
    similarity: Annotated[float, Field(gt=0, le=1, description="Of text: least similarity that is right.")] = 0.8
    day_first: Annotated[bool, Field(description="Of date: 3/4/2024 is the 3rd of April.")] = False
    weight: Annotated[float, Field(gt=0, description="How much the field counts.")] = 1.0

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        return {"rule": given} if isinstance(given, str) else given

    def holds(self, answer: Any, expected: Any) -> bool:
        """Return whether a value of the answer is right.

        Args:
            answer: The value that the answer has.
            expected: The value that it should have.
        """
        return _RULES[self.rule](self, answer, expected)


class TooMany(ValueError):
    """An object has more fields or levels than are compared."""


class JsonFieldsParams(Params):
    """Parameters of json_fields."""

    rules: Annotated[
        dict[str, FieldRule],
        Field(
            description="How fields are compared, by path: exact, number, date, set, text or ignore, or an object with "
            'settings: {"price": {"rule": "number", "relative": 0.01}, "items[*].name": "text", "tags": "set"}.'
        ),
    ] = {}  # noqa: RUF012 - pydantic copies it
    default_rule: Annotated[FieldRule, Field(description="The rule of all other fields.")] = FieldRule(rule="exact")
    null_is_missing: Annotated[bool, Field(description="A field that is null counts as one that is not there.")] = False
    extra_fields: Annotated[
        Literal["count", "ignore"],
        Field(description="Whether fields that nobody expects count against an answer (in F1 and in all_fields)."),
    ] = "count"
    where: Where = "fenced"


@dataclass(frozen=True, slots=True)
class _Compared:
    path: str
    verdict: Verdict
    weight: float
    answer: Any = None
    expected: Any = None


@register
class JsonFields(RowEvaluator):
    """Compares the JSON of the answer with the expected JSON, field by field.

    **Method.** The expected answer is a JSON object (or array). Each of its leaves is a field with a path, such as
    ``customer.name`` or ``items[0].price``. A field of the answer is *right* if the rule of its path holds, else
    *wrong*, or *missing* if the answer has none; a field that the expected object has not is *extra*.
    ``field_accuracy`` is the share of expected fields that are right, by weight; ``all_fields`` is 1 where all are
    right and none is extra; ``missing`` and ``extra`` count such fields of a row. ``field_f1`` is over all rows of a
    model: ``2TP / (2TP + FP + FN)``, where right fields are TP, wrong and extra ones FP, wrong and missing ones FN.
    The report has a table by path.

    Rules (``rules``, by path; ``[*]`` stands for every item of an array): ``exact`` (equal as JSON: 1 is 1.0 and is not
    ``"1"``), ``number`` (within ``relative`` or ``absolute``; numbers in texts count, as ``"1,200.50"``), ``date``
    (the same calendar day: ``2024-05-03``, ``3 May 2024``; ``day_first`` for ``3/5/2024``), ``set`` (arrays with the
    same items in any order and number), ``text`` (Levenshtein similarity without case and white space, at least
    ``similarity``, 0.8), and ``ignore``. A rule for an object or array compares it as one field.

    **Edge cases.**

    * With several expected answers the one with the highest ``field_accuracy`` counts. Expected answers that are no
      JSON are passed over; a row without another one is not applicable.
    * An answer that is no JSON has no field: all are missing.
    * Arrays without a rule are compared item by item in order; one too many shifts those behind it. Use ``set`` there.
    * An empty object or array is a field of its own. An unexpected object counts as one extra field.
    * More than 10,000 fields or 100 levels in the expected object leave the row unscored; a field of the answer with
      more than 100 levels is wrong.

    **Source.** Field-level accuracy and micro-averaged F1, as in information extraction (MUC, CORD).
    """

    spec = Spec(
        id="json_fields",
        name="JSON Fields",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher("field_accuracy", "Share of the expected fields that are right.", primary=True),
            Metric.higher(
                "all_fields",
                "Share of answers of which all fields are right and none is extra.",
                name="All fields right",
                share=True,
            ),
            Metric.lower(
                "missing",
                "Expected fields that an answer does not have.",
                name="Missing fields",
                range=(0.0, float(MOST_FIELDS)),
                threshold=None,
            ),
            Metric.lower(
                "extra",
                "Fields of an answer that nobody expects.",
                name="Extra fields",
                range=(0.0, float(MOST_FIELDS)),
                threshold=None,
            ),
            Metric.higher(
                "field_f1",
                "Harmonic mean of precision and recall of the fields of all rows.",
                name="Field F1",
                dataset_level=True,
            ),
        ),
        suits=(DataKind.JSON_REFERENCES,),
        keywords=("rule-based", "json", "extraction", "field", "slot filling", "structured output"),
        source="https://doi.org/10.3115/1072399.1072405",
    )
    parameters = JsonFieldsParams
    params: JsonFieldsParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Compare one answer."""
        expected = [parsed.value for text in row.expected_answers if not (parsed := parse_answer(text, "whole")).fault]
        expected = [value for value in expected if isinstance(value, dict | list)]
        if not expected:
            return RowScore.not_applicable(self.row_metrics, "No expected answer is a JSON object or array.")
        answer = parse_answer(row.actual_answer or "", self.params.where)
        try:
            compared = [list(self._compare(answer.value, value, answer.fault != "")) for value in expected]
        except TooMany as error:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, str(error))
        return self._scored(
            max(compared, key=_accuracy), f"The answer is no JSON: {answer.fault}. " * bool(answer.fault)
        )

    def _compare(self, answer: Any, expected: Any, nothing: bool) -> Iterator[_Compared]:
        for place, compared in enumerate(self._fields(answer, expected, "", absent=nothing, depth=0)):
            if place == MOST_FIELDS:
                raise TooMany(f"More than {MOST_FIELDS:,} fields are not compared.")
            yield compared

    def _fields(self, answer: Any, expected: Any, path: str, *, absent: bool, depth: int) -> Iterator[_Compared]:
        if depth > MOST_LEVELS:
            raise TooMany(f"The expected answer has more than {MOST_LEVELS} levels.")
        own = self._rule(path)
        if own is None and isinstance(expected, dict | list) and expected:
            if absent or type(answer) is type(expected):
                yield from self._members(answer, expected, path, absent=absent, depth=depth)
            else:
                yield from self._members(None, expected, path, absent=True, depth=depth)
            return
        rule = own or self.params.default_rule
        if rule.rule == "ignore":
            return
        if absent or (answer is None and expected is not None and self.params.null_is_missing):
            if not (expected is None and self.params.null_is_missing):
                yield _Compared(path, "missing", rule.weight, expected=expected)
            return
        if is_deep(expected, MOST_LEVELS):
            raise TooMany(f"The expected answer has more than {MOST_LEVELS} levels.")
        verdict: Verdict = "right" if not is_deep(answer, MOST_LEVELS) and rule.holds(answer, expected) else "wrong"
        yield _Compared(path, verdict, rule.weight, answer, expected)

    def _members(self, answer: Any, expected: Any, path: str, *, absent: bool, depth: int) -> Iterator[_Compared]:
        theirs = dict(_named(expected, path))
        ours = {} if absent else dict(_named(answer, path))
        for name, value in theirs.items():
            yield from self._fields(ours.get(name), value, name, absent=name not in ours, depth=depth + 1)
        for name, value in ours.items():
            rule = self._rule(name)
            ignored = (rule is not None and rule.rule == "ignore") or (value is None and self.params.null_is_missing)
            if name not in theirs and not ignored:
                yield _Compared(name, "extra", 1.0, value)

    def _rule(self, path: str) -> FieldRule | None:
        rules = self.params.rules
        return rules.get(path) or rules.get(_ITEM.sub("[*]", path)) if rules else None

    def _scored(self, fields: Sequence[_Compared], message: str) -> RowScore:
        by_verdict: dict[str, list[_Compared]] = defaultdict(list)
        for field in fields:
            by_verdict[field.verdict].append(field)
        extra = by_verdict["extra"] if self.params.extra_fields == "count" else []
        wrong, missing = by_verdict["wrong"], by_verdict["missing"]
        values = {
            "field_accuracy": _accuracy(fields),
            "all_fields": float(not (wrong or missing or extra)),
            "missing": float(len(missing)),
            "extra": float(len(by_verdict["extra"])),
        }
        said = [
            f"{count(len(some), 'field')} {verdict}: {listing((field.path for field in some), most=5)}"
            for verdict, some in (("wrong", wrong), ("missing", missing), ("extra", extra))
            if some
        ]
        shown = [*wrong, *missing, *by_verdict["extra"], *by_verdict["right"]][:SHOWN]
        data: dict[str, Json] = {"fields": [_shown(field) for field in shown]}
        counts: dict[str, dict[str, int]] = {}
        for field in fields:
            of_path = counts.setdefault(_ITEM.sub("[*]", field.path), dict.fromkeys(_VERDICTS, 0))
            of_path[field.verdict] += 1
        return RowScore(
            values,
            Evidence(message + "; ".join(said), data=data),
            payload={path: list(counts[path].values()) for path in counts},
        )

    def prepare(self, payloads: Sequence[Json]) -> Any:
        """Return for each payload its fields by verdict, and the payloads themselves."""
        counts: list[Any] = [[*each.values()] or [[0] * 4] for each in payloads if isinstance(each, Mapping)]
        return np.array([np.sum(each, axis=0) for each in counts], dtype=np.float64).reshape(-1, 4), payloads

    def aggregate(self, payloads: Any, weights: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
        """Return F1 over the fields of all rows."""
        right, wrong, missing, extra = (weights @ payloads[0]).T
        extra = extra * (self.params.extra_fields == "count")
        whole = 2 * right + 2 * wrong + missing + extra
        return {"field_f1": np.where(whole > 0, 2 * right / np.where(whole > 0, whole, 1.0), np.nan)}

    def details(self, prepared: Any, weights: npt.NDArray[np.float64], cases: Sequence[str]) -> Details | None:
        """Return how many answers have each field right, wrong, missing or as an extra one."""
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
        for payload, times in zip(prepared[1], weights.tolist(), strict=True):
            for path, counts in payload.items():
                sums[path] = [a + times * b for a, b in zip(sums[path], counts, strict=True)]
        labels: list[LabelValues] = [
            {"key": "field", "value": path or "(all)", "values": _of_path(sums[path])}
            for path in sorted(sums, key=lambda path: (_share_right(sums[path]), path))[:500]
        ]
        return {"labels": labels} if labels else None


def _named(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"{path}[{place}]", item) for place, item in enumerate(value))
    else:
        yield from ((f"{path}.{name}" if path else name, item) for name, item in value.items())


def _accuracy(fields: Sequence[_Compared]) -> float:
    whole = sum(field.weight for field in fields if field.verdict != "extra")
    right = sum(field.weight for field in fields if field.verdict == "right")
    return min(1.0, right / whole) if whole else 1.0


def _of_path(counts: Sequence[float]) -> dict[str, float | int | None]:
    out: dict[str, float | int | None] = {"accuracy": _share_right(counts) if sum(counts[:3]) else None}
    return out | {name: int(n) for name, n in zip(_VERDICTS, counts, strict=True)}


def _share_right(counts: Sequence[float]) -> float:
    return counts[0] / (sum(counts[:3]) or 1.0)


def _shown(field: _Compared) -> dict[str, Json]:
    out: dict[str, Json] = {"path": field.path[:200], "verdict": field.verdict}
    if field.verdict != "missing":
        out["answer"] = _short(field.answer)
    if field.verdict != "extra":
        out["expected"] = _short(field.expected)
    return out


def _short(value: Any) -> Json:
    if isinstance(value, dict | list):
        if is_deep(value, MOST_LEVELS):
            return f"more than {MOST_LEVELS} levels"
        return quoted(orjson.dumps(value).decode())
    return quoted(value) if isinstance(value, str) and len(value) > 160 else value


def _exact(rule: FieldRule, answer: Any, expected: Any) -> bool:
    return bool(identity_of(answer) == identity_of(expected))


def _number(rule: FieldRule, answer: Any, expected: Any) -> bool:
    ours, theirs = _as_number(answer), _as_number(expected)
    if ours is None or theirs is None:
        return _exact(rule, answer, expected)
    return ours.within(theirs, relative=rule.relative, absolute=rule.absolute, units=True)


def _as_number(value: Any) -> Quantity | None:
    """Return a number, also one that is written as text with nothing else; ``None`` for anything else."""
    if isinstance(value, str):
        found = list(quantities(value[:100]))
        alone = len(found) == 1 and value[: found[0].start].strip() == "" == value[found[0].end :].strip()
        return found[0] if alone and len(value) <= 100 else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Quantity(float(value), whole=int(value) if value == value // 1 else None)


def _date(rule: FieldRule, answer: Any, expected: Any) -> bool:
    theirs = _as_day(expected, rule.day_first)
    if theirs is None:
        return _exact(rule, answer, expected)
    return _as_day(answer, rule.day_first) == theirs


def _as_day(value: Any, day_first: bool) -> date | None:
    """Return the calendar day that a text says in full, ``None`` for anything else."""
    if not isinstance(value, str) or len(value) > LONGEST_DATE:
        return None
    iso = _ISO.fullmatch(value.strip())
    try:
        return date.fromisoformat(iso[1]) if iso else _spoken_day(value, day_first)
    except ValueError:
        return None


def _spoken_day(value: str, day_first: bool) -> date | None:
    from dateutil.parser import parse  # a run without this evaluator imports the module for its id, and no library

    try:
        days = {parse(value, dayfirst=day_first, default=default).date() for default in _ANY_DAYS}
    except (ValueError, OverflowError, TypeError):
        return None
    return days.pop() if len(days) == 1 else None


def _set(rule: FieldRule, answer: Any, expected: Any) -> bool:
    if not isinstance(answer, list) or not isinstance(expected, list):
        return _exact(rule, answer, expected)
    return set(map(identity_of, answer)) == set(map(identity_of, expected))


def _text(rule: FieldRule, answer: Any, expected: Any) -> bool:
    if not isinstance(answer, str) or not isinstance(expected, str):
        return _exact(rule, answer, expected)
    ours, theirs = (" ".join(text.split()).casefold()[:LONGEST_TEXT] for text in (answer, expected))
    return Levenshtein.normalized_similarity(ours, theirs) >= rule.similarity


def _ignore(rule: FieldRule, answer: Any, expected: Any) -> bool:
    return True


_RULES: Final[Mapping[str, Callable[[FieldRule, Any, Any], bool]]] = {
    "exact": _exact,
    "number": _number,
    "date": _date,
    "set": _set,
    "text": _text,
    "ignore": _ignore,
}
