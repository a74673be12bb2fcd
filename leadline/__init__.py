"""Leadline sounds language models: it scores the answers of LLM and RAG systems, and says how sure it is.

This is the public face. A name is imported when it is first used, so that ``import leadline`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from leadline import metrics as metrics
    from leadline.api import MetricChoice as MetricChoice
    from leadline.api import OpenedStore as OpenedStore
    from leadline.api import Result as Result
    from leadline.api import aevaluate as aevaluate
    from leadline.api import compare as compare
    from leadline.api import evaluate as evaluate
    from leadline.api import open_store as open_store
    from leadline.api.answer_check import AnswerFailed as AnswerFailed
    from leadline.api.answer_check import NotMeasured as NotMeasured
    from leadline.api.answer_check import check as check
    from leadline.evaluators.core.base import EvalContext as EvalContext
    from leadline.evaluators.core.base import Evaluator as Evaluator
    from leadline.evaluators.core.base import RowEvaluator as RowEvaluator
    from leadline.evaluators.core.registry import register as register
    from leadline.evaluators.core.spec import Metric as Metric
    from leadline.evaluators.core.spec import Params as Params
    from leadline.evaluators.core.spec import Spec as Spec
    from leadline.evaluators.core.user_evaluators import metric as metric
    from leadline.evaluators.data.row import Evidence as Evidence
    from leadline.evaluators.data.row import Reason as Reason
    from leadline.evaluators.data.row import Row as Row
    from leadline.evaluators.data.row import RowField as RowField
    from leadline.evaluators.data.row import RowScore as RowScore
    from leadline.evaluators.data.row import Source as Source
    from leadline.evaluators.data.row import Span as Span
    from leadline.evaluators.ground.errors import LeadlineError as LeadlineError
    from leadline.evaluators.judge.judge_evaluator import Judge as Judge
    from leadline.evaluators.judge.judge_evaluator import JudgeEvaluator as JudgeEvaluator
    from leadline.evaluators.judge.judge_evaluator import prompt_beside as prompt_beside

    __version__: str

_HOMES: Final = {
    "Evaluator": "evaluators.core.base",
    "RowEvaluator": "evaluators.core.base",
    "Spec": "evaluators.core.spec",
    "EvalContext": "evaluators.core.base",
    "LeadlineError": "evaluators.ground.errors",
    "metric": "evaluators.core.user_evaluators",
    "Metric": "evaluators.core.spec",
    "Params": "evaluators.core.spec",
    "register": "evaluators.core.registry",
    "Evidence": "evaluators.data.row",
    "Reason": "evaluators.data.row",
    "Row": "evaluators.data.row",
    "RowField": "evaluators.data.row",
    "RowScore": "evaluators.data.row",
    "Source": "evaluators.data.row",
    "Span": "evaluators.data.row",
    "Judge": "evaluators.judge.judge_evaluator",
    "JudgeEvaluator": "evaluators.judge.judge_evaluator",
    "prompt_beside": "evaluators.judge.judge_evaluator",
    "AnswerFailed": "api.answer_check",
    "NotMeasured": "api.answer_check",
    "check": "api.answer_check",
    "MetricChoice": "api",
    "OpenedStore": "api",
    "Result": "api",
    "aevaluate": "api",
    "compare": "api",
    "evaluate": "api",
    "open_store": "api",
}
"""The module of each public name."""

__all__ = ["__version__", *sorted(_HOMES), "metrics"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("leadline")
    if name not in __all__:
        raise AttributeError(f"module 'leadline' has no attribute {name!r}")

    if name not in _HOMES:
        return import_module(f"leadline.{name}")
    return getattr(import_module(f"leadline.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
