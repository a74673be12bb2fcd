"""Every benchmark runs, in a size that takes seconds, so that none rots; what they measure is looked at by a person."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import all as every
from benchmarks import crowd, dispatch, end_to_end, history, judge, night, verdicts
from leadline.evaluators.models import runtime

SMALL = {
    "aggregation --cases 200 --models 2 --metrics 5 --repeats 1": "2,000 scores, 10 aggregates, 5 flips, 420 slices",
    "classification 500 3": "500 predictions of 3 labels, times scikit-learn",
    "comparing --cases 200 --metrics 2": "200 cases, 2 metrics",
    "coverage --draws 10": "pass/fail, 15 points worse",
    "detection 3": '"difference of mAP": 0.0',
    "endpoint --capacity": "calls/s",
    "loading --rows 50 --repeats 1": "parquet seconds",
    "tool_calls 200": "difference of the mean F1: 0.0e+00",
