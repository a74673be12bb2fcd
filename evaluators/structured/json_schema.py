"""JSON Schema: has the answer the form that a schema asks for, and if not, where? Validation is bounded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import orjson
from pydantic import Field

from leadline.evaluators.core import EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import count, need_packages
from leadline.evaluators.structured.json_valid import Where, parse_answer

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.data import Details, LabelValues

MOST_ERRORS: Final = 1000
"""Errors of an answer that are counted."""

KEY: Final = "json_schema"
"""Key of a row's metadata that holds its schema."""

SHOWN: Final = 20
"""Errors that the evidence of a row lists."""

_PLACE: Final = re.compile(r"\[\d+\]")


class JsonSchemaParams(Params):
    """Parameters of json_schema."""

    json_schema: Annotated[
        dict[str, Any] | None,
        Field(
            description="The schema of all answers, as JSON. A row's own, in its metadata under the key json_schema, "
            "goes before it."
        ),
    ] = None
    where: Where = "fenced"
    timeout_s: Annotated[float, Field(gt=0, le=60, description="Seconds that an answer may be checked.")] = 2.0


@register
class JsonSchema(RowEvaluator):
    """Checks the answer's JSON against a JSON Schema, and says at which paths it is wrong.

    **Method.** The schema is given once (``--param 'json_schema.json_schema={"type": "object", …}'``) or stands in a
    row's metadata under the key ``json_schema``, as an object or as text, for example in a column of that name. The
    JSON of the answer is read as by ``json_valid``, by default also from a fence of Markdown, and validated by the
    draft that the schema names in ``$schema`` (2020-12 where it names none; 3 to 2019-09 are known). ``json_schema``
    is the share of answers without an error; ``errors_per_answer`` counts errors, an answer that is no JSON as one.
    Each error is told by its path, such as ``$.items[2].price``; the report adds them up by path.

    **Edge cases.**

    * A row without a schema is not applicable. A row whose schema is none is unscored, and says what is wrong with it.
    * Nothing is fetched: a ``$ref`` to something outside the schema makes the row unscored, apart from the drafts' own.
    * ``format`` is a note and not checked, as in the standard.
    * Schemas and patterns are bounded in time (``timeout_s``): a row that takes longer is unscored (``timeout``). A
      schema that has both ``unevaluatedProperties`` and ``patternProperties`` is refused for that.
    * At most 1,000 errors of an answer are counted.

    **Source.** JSON Schema, draft 2020-12; validated by the package jsonschema.
    """

    spec = Spec(
        id="json_schema",
        name="JSON Schema",
        inputs=(RowField.ACTUAL_ANSWER,),
        also_reads=(RowField.METADATA,),
        metadata=(KEY,),
        packages=("jsonschema",),
        metrics=(
            Metric.higher(
                "json_schema",
                "Share of answers that are JSON of the form that the schema asks for.",
                name="Satisfies the schema",
                primary=True,
                share=True,
            ),
            Metric.lower(
                "errors_per_answer",
                "Errors against the schema, per answer that has one.",
                name="Schema errors per answer",
                range=(0.0, float(MOST_ERRORS)),
                threshold=None,
                dataset_level=True,
            ),
        ),
        version="2",
        keywords=("rule-based", "json", "schema", "structured output", "validation"),
        source="https://json-schema.org/specification",
    )
    parameters = JsonSchemaParams
    params: JsonSchemaParams

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Check rows.

        Raises:
            UsageError: The package jsonschema is not installed.
        """
        if rows:
            need_packages(self.spec.id, self.spec.packages)
        return super().score(rows, ctx)

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Check one answer."""
        from leadline.evaluators.structured._schema_errors import SchemaFault, errors_of  # jsonschema is optional

        schema = self._schema(row)
        if not schema:
            message = "There is no schema: give json_schema.json_schema, or a column json_schema."
            return RowScore.not_applicable(self.row_metrics, message)
        parsed = parse_answer(row.actual_answer or "", self.params.where)
        if parsed.fault:
            return self._scored([{"path": "$", "keyword": "json", "message": f"no JSON: {parsed.fault}"}])
        try:
            with ctx.regex_budget.waiting(schema) as seconds:
                errors = errors_of(parsed.value, schema, min(seconds, self.params.timeout_s), MOST_ERRORS)
        except SchemaFault as fault:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"The schema cannot be used: {fault}.")
        return self._scored(errors)

    def _schema(self, row: Row) -> str:
        own = row.metadata.get(KEY)
        if isinstance(own, str) and own.strip():
            return own
        given = self.params.json_schema if own is None or own == "" else own
        return "" if given is None else orjson.dumps(given, option=orjson.OPT_SORT_KEYS).decode()

    def _scored(self, errors: Sequence[Mapping[str, str]]) -> RowScore:
        message = ""
        if errors:
            first = errors[0]
            message = f"{count(len(errors), 'error')}; {first['path']}: {first['message']}."
        places: list[Json] = [[path, n] for path, n in Counter(_place(error) for error in errors).most_common(SHOWN)]
        data: dict[str, Json] = {"errors": list(errors[:SHOWN])} if errors else {}
        payload: dict[str, Json] = {"errors": len(errors), "places": places}
        return RowScore({"json_schema": float(not errors)}, Evidence(message, data=data), payload=payload)

    def aggregate(self, payloads: Any, weights: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
        """Return the mean number of errors."""
        errors = np.array([payload["errors"] for payload in payloads], dtype=np.float64)
        return {"errors_per_answer": weights @ errors / np.maximum(weights.sum(axis=1), 1e-300)}

    def details(self, prepared: Any, weights: npt.NDArray[np.float64], cases: Sequence[str]) -> Details | None:
        """Return how many errors there are at each path, items of an array taken together."""
        found: Counter[tuple[str, str]] = Counter()
        for payload, times in zip(prepared, weights.tolist(), strict=True):
            for place, n in payload["places"]:
                path, _, keyword = place.rpartition(" ")
                found[path, keyword] += int(n * times)
        labels: list[LabelValues] = [
            {"key": path, "value": keyword, "values": {"errors": n}} for (path, keyword), n in found.most_common(200)
        ]
        return {"labels": labels} if labels else None


def _place(error: Mapping[str, str]) -> str:
    """Return a path, without which item of an array it is, and the keyword."""
    return f"{_PLACE.sub('[*]', error['path'])} {error['keyword']}"
