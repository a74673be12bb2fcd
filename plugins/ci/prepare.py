"""Reading ``[ci]`` of ``leadline.toml``: one check, or several in tables of their own."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.refusal import first_refusal
from leadline.evaluators.ground.settings_file import FILE, settings_table
from leadline.flows.shared.form import merged
from leadline.plugins.ci.config import CheckConfig, CiConfig

ONLY: Final = ""
"""Name of a check that stands in ``[ci]`` itself."""
_CHECKS: Final = "checks"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Request of a check, of one evaluation or several.

    Attributes:
        ci: What is told, and whom.
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
