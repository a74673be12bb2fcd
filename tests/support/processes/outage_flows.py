"""Runs every flow in a process of its own, and takes the Prefect server away in the middle of each phase.

``python -m tests.support.processes.outage_flows FOLDER RUN RUN``: the server's process stands in ``FOLDER/server.pid``
while it answers, and the way to it is cut by ``FOLDER/cut``; the runs are compared. Prints a line of JSON for each
flow.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leadline.flows.collect import CollectConfig
from leadline.flows.compare import Compare, CompareConfig
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.generate import Generate, GenerateConfig, GenerateResult
from leadline.flows.model_version import ModelVersionConfig
from leadline.flows.perturb import PerturbConfig
from leadline.flows.prefect import prefect_steps

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
CHOSEN: dict[str, Any] = {"evaluators": ("bleu", "rouge"), "dispatch": "inline", "processes": 1}

_cuts = 0


def kill() -> None:
    """Kill the server as soon as it answers."""
    pid_file = FOLDER / "server.pid"
    while not pid_file.exists() or not pid_file.read_text():
        time.sleep(0.02)
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    while pid_file.exists():
        time.sleep(0.02)


def cut() -> None:
    """Cut the way to the server as soon as there is one."""
    global _cuts
    while not (FOLDER / "up").exists():
        time.sleep(0.02)
    (FOLDER / "cut").touch()
    while (FOLDER / "up").exists():
        time.sleep(0.02)
    _cuts += 1


def cutting_in(*phases: str) -> None:
    """Cut the way to the server within each of these steps, once."""
    left = list(phases)
    step = prefect_steps.TaskSteps.step

    def without(
        self: prefect_steps.TaskSteps, name: str, function: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        def work(*args: Any, **options: Any) -> Any:
            if name in left:
                left.remove(name)
                cut()
            return function(*args, **options)

        return step(self, name, work, *args, **options)

    prefect_steps.TaskSteps.step = without  # type: ignore[method-assign]


def after(gone: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does its work when the server is gone."""

    def work(*args: Any, **options: Any) -> Any:
        gone()
        return function(*args, **options)

    return work


def say(flow: str, result: object) -> None:
    global _cuts
    print(json.dumps({"flow": flow, "cuts": _cuts, "result": result}), flush=True)
    _cuts = 0


def main() -> None:
    from leadline.flows import perturb as perturbing
    from leadline.flows.evaluate.prefect_steps import PrefectSteps
    from leadline.flows.served import collect, compare, evaluate, generate, on_model_version, perturb

    answers, targets = str(FOLDER / "answers.jsonl"), str(FOLDER / "targets.yaml")
    plain = prefect_steps.TaskSteps.step
    score = PrefectSteps.score
    cutting_in("load", "plan", "publish")
    PrefectSteps.score = after(kill, score)  # type: ignore[method-assign]
    first = evaluate(EvaluateConfig(dataset=answers, **CHOSEN))
    PrefectSteps.score = score  # type: ignore[method-assign]
    say("evaluate", first.computed)

    Compare.check = after(cut, Compare.check)  # type: ignore[method-assign]
    say("compare", compare(CompareConfig(baseline=sys.argv[2], candidate=sys.argv[3])).verdict)

    perturbing.perturb = after(cut, perturbing.perturb)
    perturbed = str(FOLDER / "perturbed.jsonl")
    say("perturb", perturb(PerturbConfig(suite=answers, output=perturbed, recipes=("typo:medium",))).copies)

    prefect_steps.TaskSteps.step = plain  # type: ignore[method-assign]
    cutting_in("collect")
    collected = collect(CollectConfig(suite=answers, output=str(FOLDER / "collected.jsonl"), targets=(targets,)))
    say("collect", collected.answered)

    Generate.check = after(cut, lambda *_: True)  # type: ignore[method-assign]
    Generate.run = lambda *_: GenerateResult.model_construct()  # type: ignore[method-assign]
    say("generate", type(generate(GenerateConfig.model_construct())).__name__)

    prefect_steps.TaskSteps.step = plain  # type: ignore[method-assign]
    cutting_in("publish")
    config = ModelVersionConfig(model="m", version="1", suite=answers, answers=answers, **CHOSEN)
    say("check-version", on_model_version(config).decision)


def hang(folder: str) -> None:
    """Evaluate, and go on for ever after the plan."""
    from leadline.cli import main as command
    from leadline.flows.evaluate.prefect_steps import PrefectSteps

    def wait(*_: object) -> None:
        Path(folder, "hangs").touch()
        while True:
            time.sleep(0.05)

    PrefectSteps.score = wait  # type: ignore[method-assign, assignment]
    sys.argv = ["leadline", "evaluate", str(Path(folder, "answers.jsonl")), "-e", "bleu"]
    command.main()


if __name__ == "__main__":
    main()
