"""Comparing a candidate with a baseline, case by case. See ``docs/compare.md``.

:func:`.engine.compare` is the way in. It finds the two sides (:mod:`.options`), opens both runs (:mod:`.run_pair`),
chooses the metrics (:mod:`.metric_choice`), measures each (:mod:`.measure`, with
:mod:`.paired_dataset_metrics` and :mod:`.slice_differences`; the formulas are in :mod:`leadline.tasks.statistics`),
judges all of them together (:mod:`.verdicts`), and publishes the result (:mod:`.report`). The values are in
:mod:`.results`.
"""

from leadline.tasks.compare.engine import compare as compare
from leadline.tasks.compare.options import Margins as Margins
from leadline.tasks.compare.options import Options as Options
from leadline.tasks.compare.results import Comparison as Comparison
from leadline.tasks.compare.results import MetricComparison as MetricComparison
