"""One evaluation for all tests of a suite, whichever process of pytest-xdist they are in.

The first process that needs the result takes the suite's lock, evaluates, and leaves the outcome in a folder that the
session's processes share; the others wait for it. What failed is left as well, so that nobody pays for it again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from leadline.api.evaluation import evaluate
from leadline.evaluators.ground.errors import LeadlineError
from leadline.evaluators.ground.text import one_line
from leadline.flows.evaluate.config import EvaluateResult
from leadline.pytest_plugin.suite import Suite
from leadline.tasks.ground.files import write_json


class EvaluationFailed(Exception):
    """The evaluation of a suite ended without a result, in this process or in another one."""


class SharedRun(NamedTuple):
    """The evaluation of a suite.

    Attributes:
        outcome: The run.
        store: Location of the store that has it.
    """

    outcome: EvaluateResult
    store: str


def evaluate_once(suite: Suite, folder: Path) -> SharedRun:
    """Evaluate a suite unless a process of the session did so already.

    Args:
        folder: The folder that the processes share.

    Raises:
        EvaluationFailed: The evaluation ended without a result.
    """
    left = folder / f"{suite.key}.json"
    with FileLock(folder / f"{suite.key}.lock"):
        if not left.exists():
            write_json(left, _evaluated(suite))
        found = json.loads(left.read_text(encoding="utf-8"))
    if "error" in found:
        raise EvaluationFailed(found["error"])
    return SharedRun(EvaluateResult.model_validate(found["outcome"]), found["store"])


def _evaluated(suite: Suite) -> dict[str, Any]:
    try:
        result = evaluate(suite.data, progress=False, **suite.settings)
    except LeadlineError as error:
        return {"error": f"{error.code}: {error}"}
    except Exception as error:
        return {"error": f"the evaluation failed: {type(error).__name__}: {one_line(str(error))}"}
    return {"outcome": result.outcome.model_dump(mode="json"), "store": result.store.location}
