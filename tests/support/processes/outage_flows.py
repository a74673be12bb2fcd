"""Runs every flow in a process of its own, and kills the Prefect server in the middle of each phase.

``python -m tests.support.processes.outage_flows FOLDER RUN RUN``: the server's process stands in ``FOLDER/server.pid``
while it answers; the runs are compared. Prints a line of JSON for each flow.
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

from leadline.flows.collect.config import CollectConfig
from leadline.flows.compare.config import CompareConfig
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.generate.config import GenerateConfig, GenerateResult
from leadline.flows.model_version.config import ModelVersionConfig
from leadline.flows.perturb.config import PerturbConfig
from leadline.flows.shared import prefect_steps

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
CHOSEN: dict[str, Any] = {"evaluators": ("bleu", "rouge"), "dispatch": "inline", "processes": 1}

_kills = 0


def kill() -> None:
    """Kill the server as soon as it answers."""
    global _kills
    pid_file = FOLDER / "server.pid"
    while not pid_file.exists() or not pid_file.read_text():
        time.sleep(0.02)
    pid = int(pid_file.read_text())
    os.kill(pid, signal.SIGKILL)
    while pid_file.exists():
        time.sleep(0.02)
    _kills += 1


def killing_in(*phases: str) -> None:
    """Kill the server within each of these steps, once."""
    left = list(phases)
    step = prefect_steps.TaskSteps.step

    def killed(
        self: prefect_steps.TaskSteps, name: str, function: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        def work(*args: Any, **options: Any) -> Any:
            if name in left:
                left.remove(name)
                kill()
            return function(*args, **options)

        return step(self, name, work, *args, **options)

    prefect_steps.TaskSteps.step = killed  # type: ignore[method-assign]


def then(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that kills the server before it does its work."""

    def killed(*args: Any, **options: Any) -> Any:
        kill()
        return function(*args, **options)

    return killed


def say(flow: str, result: object) -> None:
    global _kills
    print(json.dumps({"flow": flow, "kills": _kills, "result": result}), flush=True)
    _kills = 0


def main() -> None:
    from leadline.flows.collect.flow import collect
    from leadline.flows.compare import flow as comparing
    from leadline.flows.evaluate import flow as evaluating
    from leadline.flows.generate import flow as generating
    from leadline.flows.model_version.flow import on_model_version
    from leadline.flows.perturb import flow as perturbing

    answers, targets = str(FOLDER / "answers.jsonl"), str(FOLDER / "targets.yaml")
    plain = prefect_steps.TaskSteps.step
    score = evaluating.PrefectSteps.score
    killing_in("load", "plan", "publish")  # and when chunks are to be scored
    evaluating.PrefectSteps.score = then(score)  # type: ignore[method-assign]
    first = evaluating.evaluate(EvaluateConfig(dataset=answers, **CHOSEN))
    evaluating.PrefectSteps.score = score  # type: ignore[method-assign]
    say("evaluate", first.computed)

    comparing.run_comparison = then(comparing.run_comparison)
    say("compare", comparing.compare_runs(CompareConfig(baseline=sys.argv[2], candidate=sys.argv[3])).verdict)

    perturbing.make_copies = then(perturbing.make_copies)
    perturbed = str(FOLDER / "perturbed.jsonl")
    say("perturb", perturbing.perturb(PerturbConfig(suite=answers, output=perturbed, recipes=("typo:medium",))))

    prefect_steps.TaskSteps.step = plain  # type: ignore[method-assign]
    killing_in("collect")
    collected = collect(CollectConfig(suite=answers, output=str(FOLDER / "collected.jsonl"), targets=(targets,)))
    say("collect", collected.answered)

    generating.run_generation = then(lambda *_: GenerateResult.model_construct())
    say("generate", type(generating.generate(GenerateConfig.model_construct())).__name__)

    prefect_steps.TaskSteps.step = plain  # type: ignore[method-assign]
    killing_in("publish")
    config = ModelVersionConfig(model="m", version="1", suite=answers, answers=answers, **CHOSEN)
    say("check-version", on_model_version(config).decision)


def hang(folder: str) -> None:
    """Evaluate, and go on for ever after the plan."""
    from leadline.flows.cli import main as command
    from leadline.flows.evaluate import flow as evaluating

    def wait(*_: object) -> None:
        Path(folder, "hangs").touch()
        while True:
            time.sleep(0.05)

    evaluating.PrefectSteps.score = wait  # type: ignore[method-assign, assignment]
    sys.argv = ["leadline", "evaluate", str(Path(folder, "answers.jsonl")), "-e", "bleu"]
    command.main()


if __name__ == "__main__":
    main()
