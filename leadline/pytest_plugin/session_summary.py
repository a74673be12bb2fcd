"""The summary at the end of a session: gate, judge calls, cost and report of each run, and of single checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leadline.evaluators.ground.text import count, one_line
from leadline.tasks.ledger.location import read_ledger
from leadline.tasks.runs.run_sentences import calls_line
from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    import pytest


def print_summary(terminal: pytest.TerminalReporter, told: Sequence[Mapping[str, Any]]) -> None:
    """Print what the processes of a session did.

    Args:
        terminal: Where it is printed.
        told: What each process has to tell; a run that several worked with is there several times.
    """
    terminal.section("leadline")
    runs = {each["run"]: each for each in told if "run" in each}
    for run in runs.values():
        terminal.write_line(f"run {run['run']}: {run['gate'].upper()}. {one_line(run['reason'])}".rstrip())
        for line in run["questions"]:
            terminal.write_line(f"  {one_line(line)}")
        terminal.write_line(f"  {run['work']}")
        if run["note"]:
            terminal.write_line(f"  {one_line(run['note'])}")
        terminal.write_line(f"  report: {run['report']}")
    for store, session in sorted({(each["store"], each["session"]) for each in told if "checks" in each}):
        checks = sum(each["checks"] for each in told if each.get("store") == store and "checks" in each)
        total = read_ledger(Store.open(store)).total(session)
        calls = calls_line(total.answered, total.cost_usd, total.unknown_price)
        terminal.write_line(f"{count(checks, 'answer')} checked; {calls}")
