"""Settings and result of a check of judges, which the command line uses too."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.settings import EvaluatorFiles, EvaluatorsDir, StorePlace, TeamName


class CheckJudgesConfig(FormModel):
    """Judges to check."""

    judges: Annotated[tuple[str, ...], Option("--judge", metavar="NAME")] = Field(
        (), description="Judges of leadline.toml by name. Default: all that are enrolled."
    )
    config: Annotated[str | None, Option(metavar="FILE")] = Field(
        None, description="File with named judges. Default: leadline.toml, if there is one."
    )
    evaluators_dir: EvaluatorsDir = None
    evaluator_files: EvaluatorFiles = ()
    team: TeamName = None
    store: StorePlace = None


class CheckJudgesResult(BaseModel):
    """Outcome of a check of judges."""

    model_config = ConfigDict(frozen=True)

    judges: dict[str, dict[str, Any]] = Field(description="How each judge stands, by name.")
    changed: list[str] = Field(description="Judges that have changed since they were enrolled.")
    newly_changed: list[str] = Field(description="Those of them that this check found to have.")
    not_checked: dict[str, str] = Field(description="Judges that could not be asked, each with the reason.")
