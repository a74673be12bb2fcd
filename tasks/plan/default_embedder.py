"""The embedder of a run that names none: each evaluator's own default where it is here, else the offline one.

It is decided once, where the run is planned, and never silently: plan, run and report say which it is and why.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Final

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.registry import get
from leadline.evaluators.ground.refs import OFFLINE, ModelRef
from leadline.evaluators.ground.text import listing, nouns
from leadline.evaluators.models.catalogue import ALL_MINILM_L6_V2
from leadline.evaluators.models.weights import BGE_SMALL_EN, BGE_SMALL_EN_V15, INSTALL_OFFLINE, is_here, status
from leadline.evaluators.settings.settings import Settings
from leadline.tasks.plan.selection import NOT_HERE, Choice

_DEFAULTS: Final = (BGE_SMALL_EN, BGE_SMALL_EN_V15, ALL_MINILM_L6_V2)
"""The embedders that evaluators use where nothing else is named."""


def with_default_embedder(settings: Settings) -> Settings:
    """Return settings that use the offline embedder in place of default ones that are not on this machine.

    Settings that name an embedder or let weights be fetched stay as they are, also where the offline one is not
    installed.
    """
    installed = status(ModelRef("embedder", OFFLINE)).present and importlib.util.find_spec("sentence_transformers")
    if settings.embedder or settings.allow_download or not installed:
        return settings
    return replace(settings, offline_for=tuple(ref.source for ref in _DEFAULTS if not is_here(ref)))


def embedder_in_words(choice: Choice, settings: Settings) -> str:
    """Say which embedder the evaluators of a run use, and why; ``""`` where none would use one.

    Args:
        choice: The evaluators.
        settings: The run's settings.
    """
    asked = {ref.source for evaluator in choice.evaluators for ref in _embedders(evaluator, settings)}
    if not asked:
        absent = [get(id_)() for id_, why in choice.left_out.items() if why.endswith(NOT_HERE)]
        lost = {ref.source for evaluator in absent for ref in _embedders(evaluator, settings)}
        if not lost or settings.embedder:
            return ""
        return f"none, since {_not_here(lost)} and the offline one is not installed ({INSTALL_OFFLINE})"
    if settings.embedder and len(asked) == 1:
        return f"{next(iter(asked))}, named by --embedder or leadline.toml"
    replaced = asked.intersection(settings.offline_for)
    own = f"{listing(sorted(asked - replaced))}, as the evaluators name them" if asked - replaced else ""
    offline = f"{OFFLINE} (all-MiniLM-L6-v2), since {_not_here(replaced)}" if replaced else ""
    return "; ".join(filter(None, (own, offline)))


def _embedders(evaluator: Evaluator, settings: Settings) -> list[ModelRef]:
    """Return the embedders that an evaluator asks for, before the offline one takes their place."""
    ctx = EvalContext(replace(settings, offline_for=()))
    return [ref for ref in evaluator.models(ctx) if ref.kind == "embedder"]


def _not_here(sources: set[str]) -> str:
    return f"{listing(sorted(sources))} {nouns(len(sources), 'is', 'are')} not on this machine"
