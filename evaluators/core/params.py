"""Parameters of evaluators: frozen, typed, and aware of which of them change a score."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from leadline.evaluators.data import Json
from leadline.evaluators.ground import ErrorCode, UsageError


class Effect(StrEnum):
    """The part of a run that a parameter changes; each value is a sentence for pages, without its point."""

    SCORES = "Changes scores"
    JUDGE = "Another judge gives other scores: they are kept under that judge's own configuration"
    ROWS = "Changes which rows are scored, not their scores"
    DATASET_METRICS = "Changes metrics of the whole dataset, not the rows' scores"
    VERDICT = "Changes no score, but what counts as a problem, and so the gate"
    REPORT = "Changes the report only"
    NOTHING = "Has no effect here"

    @property
    def in_key(self) -> bool:
        """True where a score's key covers the parameter itself."""
        return self is Effect.SCORES

    @property
    def extra(self) -> dict[str, Any]:
        """The ``json_schema_extra`` of a field with this effect."""
        return {"effect": self.value}


REPORT_ONLY: Final = Effect.REPORT.extra
"""``json_schema_extra`` of a parameter that changes what is reported, never a value or the gate."""


class Params(BaseModel):
    """Parameters that every evaluator has.

    Subclasses add fields. A field that does not change a row's values is declared with the ``json_schema_extra`` of
    another :class:`Effect`, such as ``REPORT_ONLY``, which keeps it out of the score's key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # most are never used in a run

    metric_threshold: Annotated[
        float | dict[str, float] | None,
        Field(
            description="Threshold of the primary metric, or thresholds by metric key, instead of the defaults.",
            json_schema_extra=Effect.VERDICT.extra,
        ),
    ] = None
    save_llm_result: Annotated[
        bool,
        Field(
            description="Keep the rows with their scores in the evaluator's results, not only the aggregates.",
            json_schema_extra=REPORT_ONLY,
        ),
    ] = True
    min_test_cases: Annotated[
        int,
        Field(
            ge=0, description="Report a problem when fewer rows were scored.", json_schema_extra=Effect.VERDICT.extra
        ),
    ] = 0

    @field_validator("metric_threshold")
    @classmethod
    def _is_comparable(cls, value: float | dict[str, float] | None) -> float | dict[str, float] | None:
        given = value.values() if isinstance(value, dict) else [] if value is None else [value]
        if any(map(math.isnan, given)):
            raise ValueError("NaN is no number to compare with")
        return value

    @classmethod
    def build(cls, evaluator: str, values: dict[str, Any]) -> Self:
        """Validate values given by a user; a wrong one is a :class:`UsageError` that names it.

        Args:
            evaluator: Id of the evaluator, for the error.
            values: Values by parameter; those left out get their defaults.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            from leadline.evaluators.ground import field_of, why

            first = error.errors()[0]
            if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
                known = ", ".join(sorted(cls.model_fields))
                raise UsageError(
                    f"{evaluator}.{first['loc'][0]}: there is no such parameter.",
                    hint=f"Its parameters are: {known}.",
                    code=ErrorCode.CONFIG_PARAMETER,
                ) from None
            name = field_of(first, cls) or "parameters"
            raise UsageError(
                f"{evaluator}.{name}: {why(first, cls)}.",
                hint=f"See: leadline evaluators show {evaluator}",
                code=ErrorCode.CONFIG_PARAMETER,
            ) from None

    def identity(self) -> dict[str, Json]:
        """Return the parameters that a score's key must cover."""
        return {
            name: value for name, value in self.model_dump(mode="json").items() if effect_of(type(self), name).in_key
        }


def effect_of(params: type[Params], name: str) -> Effect:
    """Return what of a run a parameter changes.

    Args:
        params: The parameters' type.
        name: One of its fields.
    """
    extra = params.model_fields[name].json_schema_extra
    return Effect(str(extra.get("effect", Effect.SCORES))) if isinstance(extra, dict) else Effect.SCORES


class JudgeKey(Params):
    """Adds the seed's parameter that selects a judge; embedding evaluators accept it and need no judge."""

    custom_eval_judge_config_key: Annotated[
        str,
        Field(
            description="Key of the judge to use, where the evaluator asks one.", json_schema_extra=Effect.JUDGE.extra
        ),
    ] = ""
