"""Dialects: a module for the names of each instrumentation, in the order in which they are asked."""

from __future__ import annotations

from typing import Final

from leadline.plugins.traces.dialects.genai import GENAI
from leadline.plugins.traces.dialects.logfire import LOGFIRE
from leadline.plugins.traces.dialects.openinference import OPENINFERENCE
from leadline.plugins.traces.dialects.openllmetry import OPENLLMETRY
from leadline.plugins.traces.dialects.table import Dialect
from leadline.plugins.traces.dialects.vercel import VERCEL

DIALECTS: Final[tuple[Dialect, ...]] = (GENAI, OPENINFERENCE, VERCEL, OPENLLMETRY, LOGFIRE)
