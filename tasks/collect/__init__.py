"""Collecting: the cases of a suite are put to the models under test, and their answers become a dataset.

:func:`.collection.collect` is the way in. :mod:`.targets` describes the models and how each is asked: by LiteLLM name,
by HTTP, as a Python callable or as a tool of an MCP server. :mod:`.cases` reads the suite, :mod:`.ask_target` puts one
case to one model with the judge client, whose retries, limiter, breaker, ledger and budget it shares. :mod:`.replay`
holds conversations anew, with the results of tools that are recorded. :mod:`.templates` fills in requests and
reads replies, and :mod:`.collection` writes the dataset. ``docs/collect.md`` is the page for users.
"""

from __future__ import annotations

from leadline.tasks.collect.ask_target import check_target
from leadline.tasks.collect.collection import Collected, collect
from leadline.tasks.collect.replay import ReplayRules
from leadline.tasks.collect.targets import Target, find_targets, read_targets

__all__ = ["Collected", "ReplayRules", "Target", "check_target", "collect", "find_targets", "read_targets"]
