"""The judges of a configuration file, each with the evaluator whose answers people labelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leadline.evaluators.judge.engine.judge_config import JudgeConfig
from leadline.flows.shared.judge_access import evaluator_files_of, judges_of
from leadline.flows.shared.settings import JudgeAccess
from leadline.tasks.drift.epochs import with_epochs
from leadline.tasks.labels.judging import Judging, configuration_of, judging_by
from leadline.tasks.labels.labelled_rows import LabelledRows
from leadline.tasks.store.store import Store


def judging_named(
    store: Store,
    labelled: LabelledRows,
    access: JudgeAccess,
    *,
    params: Mapping[str, Any] | None = None,
    judges: tuple[JudgeConfig, ...] = (),
) -> Judging:
    """Return a judge with the evaluator that people labelled, set up as in the run of which rows were drawn.

    Args:
        store: The store.
        labelled: The labelled rows.
        access: Names the judge as ``--judge`` does, and the configuration file.
        params: The evaluator's parameters that differ from that run's.
        judges: The judge, and after it the others that can be asked; by default those that ``access`` names.

    Raises:
        UsageError: There is no such judge or parameter, or the evaluator asks no judge.
    """
    settings, known = configuration_of(store, labelled)
    files = tuple(dict.fromkeys((*settings.evaluator_files, *evaluator_files_of((), access.config))))
    settings = replace(settings, evaluator_files=files)
    in_epochs = with_epochs(store, replace(settings, judges=judges or judges_of(access)))
    return judging_by(labelled, in_epochs.judges, settings, {**known, **(params or {})})
