"""Policies as files: those that come with Leadline, a team's own, and the table ``[policy]`` of ``leadline.toml``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline.evaluators.core import FAMILIES, all_evaluators, find
from leadline.evaluators.ground import FILE, ErrorCode, UsageError, from_home, refusals_of, settings_document
from leadline.tasks.policy.policy import EVERY, FAMILY, JUDGE, Basis, Policy, Proof, Question, Role

DEFAULT: Final = "default"
"""The policy of a run that names none."""

_SHIPPED: Final = Path(__file__).parent / "policies"


class _Rule(BaseModel):
    """Settings of a rule, as they stand in a file; those not given come from more general rules."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    role: Role | None = None
    question: Question | None = None
    proof: Proof | None = None
    right_that_pass: tuple[float, float] | None = None
    wrong_that_fail: tuple[float, float] | None = None
    threshold: float | None = None
    tolerance_rows: int | None = Field(None, ge=0)
    tolerance_share: float | None = Field(None, ge=0, lt=1)
    surely: bool | None = None
    min_pass_share: float | None = Field(None, ge=0, le=1)
    min_coverage: float | None = Field(None, ge=0, le=1)
    min_rows: int | None = Field(None, ge=1)
    weight: float | None = Field(None, gt=0)
    slices: tuple[str, ...] | None = Field(None, max_length=20)
    use: Basis | None = None


class _File(BaseModel):
    """A policy, as it stands in a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("", max_length=100)
    description: str = Field("", max_length=1000)
    base: str = DEFAULT
    problems: Literal["grouped", "seed"] | None = None
    asks: tuple[Question, ...] | None = None
    good_share: float | None = Field(None, gt=0, lt=1)
    only: bool | None = None
    certain: bool | None = None
    rules: dict[str, _Rule] = Field({}, max_length=1000)


def shipped() -> tuple[str, ...]:
    """Return the names of the policies that come with Leadline."""
    return tuple(sorted(file.stem for file in _SHIPPED.glob("*.toml")))


def load_policy(given: str | None = None) -> Policy:
    """Return a policy.

    Args:
        given: Name of one that comes with Leadline, or a TOML file; without it the table ``[policy]`` of
            ``leadline.toml`` in the working directory, and without that ``default``.

    Raises:
        UsageError: There is no such policy, or the file is not a valid one.
    """
    if given is None:
        table = settings_document().get("policy")
        if table is None:
            return load_policy(DEFAULT)
        return _policy(table, f"{FILE}, [policy]", FILE.stem, FILE.parent)
    if given in shipped():
        path = _SHIPPED / f"{given}.toml"
    else:
        path = from_home(given)
        if not path.is_file():
            near = difflib.get_close_matches(given, shipped(), n=1)
            raise UsageError(
                f"There is no policy called {given[:200]!r}, and no such file.",
                hint=f"Did you mean {near[0]}?" if near else f"Policies: {', '.join(shipped())}, or a TOML file.",
                code=ErrorCode.PLAN_NO_POLICY,
            )
    return _policy(settings_document(path), str(path), path.stem, path.parent)


def _policy(table: Any, where: str, name: str, folder: Path) -> Policy:
    """Return the policy of a table, with what it takes over from its base."""
    try:
        file = _File.model_validate(table)
    except ValidationError as error:
        raise UsageError(
            f"{where}: {'; '.join(refusals_of(error, _File))}".rstrip("?") + ".",
            hint="leadline evaluators policy show default prints one that can be copied.",
            code=ErrorCode.CONFIG_CONTENT,
        ) from None
    rules = {key: rule.model_dump(exclude_none=True) for key, rule in file.rules.items()}
    if folder != _SHIPPED:
        _check_names(rules, where)
    given = file.model_dump(include={"problems", "asks", "good_share", "only", "certain"}, exclude_none=True)
    named = {"name": file.name or name, "description": file.description}
    if folder == _SHIPPED and file.base == "":
        return Policy(name).extended(rules, **named, **given)
    base = file.base if file.base in shipped() else str(folder / file.base)
    if base not in shipped() and settings_document(Path(base)).get("base", DEFAULT) not in shipped():
        raise UsageError(
            f"{where}: the base of its base is a file too.",
            hint=f"Base the file on {', '.join(shipped())}, or on a file that is based on one of them.",
            code=ErrorCode.CONFIG_CONTENT,
        )
    return load_policy(base).extended(rules, **named, **given)


def _check_names(rules: Mapping[str, Any], where: str) -> None:
    """Refuse a rule for something that does not exist, since it would never apply.

    An evaluator that is not installed here may be one of the user's own, which is loaded later: only names that nearly
    equal a known one are refused.
    """
    groups = [EVERY, JUDGE, *(f"{FAMILY}{family}" for family in FAMILIES)]
    for name in rules:
        evaluator, _, metric = name.partition("@")[0].partition(":")
        kind = find(evaluator)
        if name in groups or (kind and not metric):
            continue
        if name.startswith(FAMILY):
            raise UsageError(
                f"{where}: there is no family called {name.removeprefix(FAMILY)[:100]!r}.",
                hint=f"Families: {', '.join(FAMILIES)}.",
                code=ErrorCode.CONFIG_CONTENT,
            )
        if kind:
            keys = [each.key for each in kind().metrics]
            if metric not in keys:
                raise UsageError(
                    f"{where}: {evaluator} has no metric {metric[:100]!r}.",
                    hint=f"Metrics: {', '.join(keys)}.",
                    code=ErrorCode.CONFIG_CONTENT,
                )
        elif near := difflib.get_close_matches(evaluator, [*groups, *all_evaluators()], n=1, cutoff=0.85):
            raise UsageError(
                f"{where}: there is no evaluator called {evaluator[:100]!r}.",
                hint=f"Did you mean {near[0]}?",
                code=ErrorCode.CONFIG_CONTENT,
            )
