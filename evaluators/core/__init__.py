"""The parts that every evaluator is made of: metrics, parameters, the context, the base classes and the registry."""

from __future__ import annotations

from leadline.evaluators.core.base import RESAMPLES as RESAMPLES
from leadline.evaluators.core.base import EvalContext as EvalContext
from leadline.evaluators.core.base import Evaluator as Evaluator
from leadline.evaluators.core.base import RowEvaluator as RowEvaluator
from leadline.evaluators.core.base import asked_judge as asked_judge
from leadline.evaluators.core.base import describe as describe
from leadline.evaluators.core.registry import BUILT_IN as BUILT_IN
from leadline.evaluators.core.registry import ENTRY_POINTS as ENTRY_POINTS
from leadline.evaluators.core.registry import FAMILIES as FAMILIES
from leadline.evaluators.core.registry import all_evaluators as all_evaluators
from leadline.evaluators.core.registry import find as find
from leadline.evaluators.core.registry import get as get
from leadline.evaluators.core.registry import has_members as has_members
from leadline.evaluators.core.registry import lent as lent
from leadline.evaluators.core.registry import planned as planned
from leadline.evaluators.core.registry import register as register
from leadline.evaluators.core.registry import unregister as unregister
from leadline.evaluators.core.spec import CUSTOM as CUSTOM
from leadline.evaluators.core.spec import INF as INF
from leadline.evaluators.core.spec import REPORT_ONLY as REPORT_ONLY
from leadline.evaluators.core.spec import DataKind as DataKind
from leadline.evaluators.core.spec import Effect as Effect
from leadline.evaluators.core.spec import JudgeKey as JudgeKey
from leadline.evaluators.core.spec import Lane as Lane
from leadline.evaluators.core.spec import Metric as Metric
from leadline.evaluators.core.spec import OverTurns as OverTurns
from leadline.evaluators.core.spec import Params as Params
from leadline.evaluators.core.spec import Spec as Spec
from leadline.evaluators.core.spec import Unit as Unit
from leadline.evaluators.core.spec import boolean_metrics as boolean_metrics
from leadline.evaluators.core.spec import effect_of as effect_of
from leadline.evaluators.core.spec import one_metric as one_metric
from leadline.evaluators.core.spec import unparseable as unparseable
from leadline.evaluators.core.spec import verdict as verdict
