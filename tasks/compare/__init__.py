"""Comparing a candidate with a baseline, case by case. See ``docs/compare.md``."""

from tasks.compare.engine import compare as compare
from tasks.compare.margins import Margins as Margins
from tasks.compare.options import Options as Options
from tasks.compare.results import Comparison as Comparison
from tasks.compare.results import MetricComparison as MetricComparison
