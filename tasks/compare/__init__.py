"""Comparing a candidate with a baseline, case by case. See ``docs/compare.md``."""

from leadline.tasks.compare.engine import compare as compare
from leadline.tasks.compare.margins import Margins as Margins
from leadline.tasks.compare.options import Options as Options
from leadline.tasks.compare.results import Comparison as Comparison
from leadline.tasks.compare.results import MetricComparison as MetricComparison
