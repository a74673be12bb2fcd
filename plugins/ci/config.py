"""Settings of a check in CI: the table ``[ci]`` of ``leadline.toml``, or several checks in tables of their own."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from leadline.evaluators.ground import FILE, ErrorCode, UsageError, first_refusal, settings_table
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.shared.form import FormModel, Option, merged
from leadline.flows.shared.settings import FailOn, FailOnSeverity, NoCredentials

BASE: Final = "base"
"""Value of ``against``: the run of the base branch."""

ONLY: Final = ""
"""Name of a check that stands in ``[ci]`` itself."""

_CHECKS: Final = "checks"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


class CheckConfig(EvaluateConfig):
    """One evaluation of a check: all settings of ``evaluate``, and these."""

    fail_on: FailOnSeverity = FailOn.HIGH
    against: Annotated[str | None, NoCredentials] = Field(
        BASE,
        description="Run to compare with: that of the base branch (base), or as for evaluate: previous, tag:NAME, a "
        "run, or none.",
    )
    only_changes: bool = Field(
        False,
        description="Only what is worse than in the run it is compared with fails the check; problems that were there "
        "before are told and do not.",
    )
    inconclusive: Literal["fail", "pass"] = Field(
        "fail", description="What a check comes to that cannot be decided, for example with too few cases."
    )

    def evaluation(self, **changes: object) -> EvaluateConfig:
        """Return the settings of the evaluation alone.

        Args:
            **changes: Fields with other values.
        """
        values = {name: getattr(self, name) for name in EvaluateConfig.model_fields}
        return EvaluateConfig.model_validate(values | changes)


class CiConfig(FormModel):
    """Telling what a check in CI found. Other settings of ``[ci]`` are those of its evaluations."""

    title: str = Field(
        "Leadline", max_length=60, description="Heading of the comment; checks with different titles have one each."
    )
    base_branch: str = Field(
        "",
        max_length=250,
        description="Branch to compare with where the job says none. Default: the target of the pull request, else the "
        "branch itself, so that a push is compared with the one before; for a checkout without CI the default branch.",
    )
    comment: Annotated[bool, Option("--comment/--no-comment")] = Field(
        True, description="Keep one comment on the pull request up to date, where there is one and a token for it."
    )
    answers: bool = Field(
        True, description="Show questions and answers in the summary, to everyone who may see the pull request."
    )
    output: Annotated[str, Option("-o", "--output", metavar="DIR")] = Field(
        "leadline-ci",
        min_length=1,
        description="Folder for summary.md, ci.json, and each check's report.html, junit.xml and leadline.sarif.",
    )


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Request of a check, of one evaluation or several.

    Attributes:
        checks: The evaluations by name; one without a name stands in ``[ci]`` itself.
    """

    ci: CiConfig
    checks: Mapping[str, CheckConfig]


def check_settings() -> None:
    """Refuse ``[ci]`` of ``leadline.toml`` if it cannot be understood."""
    read_request({})


def read_request(options: Mapping[str, Any], names: Collection[str] = ()) -> CheckRequest:
    """Read the request from ``leadline.toml``: ``[ci]``, and ``[ci.checks.NAME]`` for several evaluations.

    A check takes what its own table leaves out from ``[ci]``, and what that leaves out from ``[evaluate]``.

    Args:
        options: Fields of :class:`.CiConfig` that win over the file's.
        names: The checks to make; all without one.

    Raises:
        UsageError: There is no such check, or a setting is refused.
    """
    table = dict(settings_table("ci"))
    named = table.pop(_CHECKS, {})
    if not isinstance(named, Mapping) or not all(isinstance(each, Mapping) for each in named.values()):
        raise UsageError(
            f"{FILE}: ci.{_CHECKS} are tables.",
            hint=f'Write: [ci.{_CHECKS}.NAME] and dataset = "…" below.',
            code=ErrorCode.CONFIG_CONTENT,
        )
    own = {name: table.pop(name) for name in CiConfig.model_fields if name in table}
    shared = merged(settings_table("evaluate"), table)
    if not named and "dataset" not in shared:
        raise UsageError(
            f"{FILE} does not say what to check.",
            hint='Write: [ci] and dataset = "FILE" below; see docs/ci.md.',
            code=ErrorCode.CONFIG_CONTENT,
        )
    for name in named:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{FILE}, [ci.{_CHECKS}.{name[:40]}]: that is no name.",
                hint="Up to 32 small letters, digits, underscores and hyphens.",
                code=ErrorCode.CONFIG_CONTENT,
            )
    tables = {name: merged(shared, each) for name, each in named.items()} or {ONLY: shared}
    for name in names:
        if name not in tables:
            there = f"There are {', '.join(named)}." if named else f"Write it as [ci.{_CHECKS}.{name[:40]}]."
            raise UsageError(f"{FILE} has no check {name[:40]!r}.", hint=there, code=ErrorCode.CONFIG_CONTENT)
    return CheckRequest(
        ci=_validated(CiConfig, own | dict(options), "ci"),
        checks={
            name: _validated(CheckConfig, values, f"ci.{_CHECKS}.{name}" if name else "ci")
            for name, values in tables.items()
            if not names or name in names
        },
    )


def _validated(model: type[Any], values: Mapping[str, Any], table: str) -> Any:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        where = f"{FILE}, [{table}]"
        raise UsageError(f"{where}: {first_refusal(error, model)}.", code=ErrorCode.CONFIG_CONTENT) from None
