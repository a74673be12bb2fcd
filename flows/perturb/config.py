"""Settings of perturbing a suite."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from leadline.flows.shared.form import FormModel, Option
from leadline.flows.shared.settings import ColumnMapping, FormatName, JudgeAccess, StorePlace


class PerturbConfig(FormModel):
    """Suite, perturbations and number of copies."""

    suite: Annotated[str, Option(metavar="SUITE")] = Field(
        description="File with the cases; answers in it are ignored."
    )
    recipes: Annotated[tuple[str, ...], Option("--with", metavar="NAME[:HOW][+…]")] = Field(
        min_length=1,
        description="What to do, such as typo:high or comma+word_swap; each gives a copy of every case.",
    )
    output: Annotated[str | None, Option("-o", "--output", metavar="FILE")] = Field(
        None, description="The file to write. Default: SUITE.perturbed.jsonl."
    )
    seed: int = Field(1, description="Seed of the random choices.")
    copies: int = Field(1, ge=1, le=100, description="Copies of each case by each recipe.")
    format: FormatName = Field("auto", description="How the suite is read.")
    map: ColumnMapping = Field({})
    store: StorePlace = None
    judges: JudgeAccess = Field(JudgeAccess(), description="Who writes misinformation, and what it may cost.")
