"""Numbers with their nouns, and why values were refused."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from leadline.evaluators.ground import count, refusals_of


@pytest.mark.parametrize(
    ("n", "words", "said"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (1200, ("row",), "1,200 rows"),
        (1, ("reply", "replies"), "1 reply"),
        (2, ("reply", "replies"), "2 replies"),
    ],
)
def test_one_is_singular(n: int, words: tuple[str, ...], said: str) -> None:
    assert count(n, *words) == said


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    trials: int = Field(1, ge=1, le=50)
    api_key_env: str = Field("", pattern="^[A-Z_]*$")


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field("x", min_length=1)
    margin: float = Field(0.05, ge=0, lt=1)
    inner: Inner = Inner()
    shares: dict[str, float] = {}
    limit: float | dict[str, float] | None = None

    @field_validator("name")
    @classmethod
    def _check(cls, value: str) -> str:
        if value == "bad":
            raise ValueError("give another name")
        return value


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"nam": "y"}, "nam: there is no such field; did you mean name?"),
        ({"zzz": "y"}, "zzz: there is no such field; there are inner, limit, margin, name, shares"),
        ({"inner": {"trial": 2}}, "inner.trial: there is no such field; did you mean trials?"),
        ({"inner": {"trials": 51}}, "inner.trials: 51 is not allowed; it must be at most 50"),
        ({"inner": {"trials": "x"}}, "inner.trials: 'x' is not a whole number"),
        ({"inner": 3}, "inner: 3 is not a mapping"),
        ({"margin": 1}, "margin: 1 is not allowed; it must be less than 1"),
        ({"name": ""}, "name: '' is not allowed; it must have at least 1 character"),
        ({"name": "bad"}, "name: give another name"),
        ({"shares": {"a": "b"}}, "shares.a: 'b' is not a number"),
        ({"limit": "x"}, "limit: 'x' is not a number"),
    ],
)
def test_a_refusal_names_field_value_and_what_is_allowed(values: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(values)
    assert refusals_of(caught.value, Outer)[0] == said


def test_a_value_that_may_be_a_key_is_not_shown() -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"inner": {"api_key_env": "sk-very-secret"}})
    (said,) = refusals_of(caught.value, Outer)
    assert "secret" not in said
    assert said.startswith("inner.api_key_env: the value is not of the form")


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"margin": "x" * 10_000})
    assert len(refusals_of(caught.value, Outer)[0]) < 200
