"""Settings of a check in CI, the table ``[ci]`` of ``leadline.toml``."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.settings import FailOn, FailOnSeverity, NoCredentials

BASE: Final = "base"
"""Value of ``against``: the run of the base branch."""


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
        True,
        description="Show questions and answers in the summary, to everyone who may see the pull request.",
    )
    output: Annotated[str, Option("-o", "--output", metavar="DIR")] = Field(
        "leadline-ci",
        min_length=1,
        description="Folder for summary.md, ci.json, and each check's report.html, junit.xml and leadline.sarif.",
    )
