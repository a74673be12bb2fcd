"""Tasks and simulations of τ²-bench, and results of τ-bench before it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from typing import Any, Final

from leadline.evaluators.data import ExpectedCall
from leadline.plugins.formats.foreign_records import ForeignRecords, members, objects
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.messages import expected_calls, messages_of
from leadline.tasks.load.values import ValueFault, as_json, money, text

_STOPS: Final = re.compile(r"###(?:STOP|TRANSFER|OUT-OF-SCOPE)###")
"""Words by which the simulated user ends a conversation."""

_INFRASTRUCTURE: Final = "infrastructure_error"
_KEPT: Final = ("termination_reason", "seed", "user_cost", "id")


@register
class Tau2(ForeignRecords):
    """Reads results, or the tasks alone as cases; calls of the simulated user's own tools are left out.

    Each trial but the first is a case of its own.
    """

    name = "tau2"
    title = "τ²-bench"
    recognised_by = (
        "lists `tasks` and `simulations`; `user_scenario` beside `evaluation_criteria`; "
        "`traj` beside `task_id` (τ-bench)"
    )
    sections = ("tasks", "simulations")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._tasks: dict[str, dict[str, Any]] = {}

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are tasks or simulations."""
        if sections & {"tasks", "simulations"}:
            return 0.95 if names & {"user_scenario", "termination_reason"} else 0
        return 0.8 if {"user_scenario", "evaluation_criteria"} <= names or {"traj", "task_id"} <= names else 0

    def conversation(self, record: dict[str, Any], section: str) -> Conversation | None:
        """Return a simulation of a task that came before it, or of a plain list a task as a case."""
        if section == "tasks":
            self._tasks[str(record.get("id"))] = record
            return None
        if section == "simulations":
            return tau2_simulation(record, self._tasks.get(str(record.get("task_id")), {}))
        return tau_result(record) if "traj" in record else tau2_task(record)


def tau_result(record: dict[str, Any]) -> Conversation:
    """Return a result of τ-bench, which holds its task."""
    info = members(record.get("info"))
    task = members(info.get("task"))
    actions = [{"name": each.get("name"), "arguments": each.get("kwargs")} for each in objects(task.get("actions"))]
    found = tau2_simulation(
        {
            "task_id": str(record.get("task_id")),
            "trial": record.get("trial"),
            "messages": record["traj"],
            "reward_info": {"reward": record.get("reward")},
            "user_cost": info.get("user_cost"),
        },
        {
            "evaluation_criteria": {"actions": actions, "communicate_info": task.get("outputs")},
            "user_scenario": {"instructions": task.get("instruction")},
        }
        if task
        else {},
    )
    return replace(found, error=text(info["error"])) if info.get("error") else found


def tau2_task(task: dict[str, Any]) -> Conversation:
    """Return a task as a case: its scenario, what it expects, and what was said before."""
    history = members(task.get("initial_state")).get("message_history")
    messages = messages_of(list(_spoken(objects(history))))
    return Conversation(messages, key=str(task.get("id") or ""), given=len(messages), **_expected(task))


def tau2_simulation(record: dict[str, Any], task: dict[str, Any]) -> Conversation:
    """Return a simulation of a task.

    Raises:
        ValueFault: It was spoken, and has no messages.
    """
    if record.get("ticks") and not record.get("messages"):
        raise ValueFault("a voice simulation has ticks instead of messages; these are not read")
    trial, ended = record.get("trial"), record.get("termination_reason")
    key = str(record.get("task_id") or "")
    reward, expected = members(record.get("reward_info")), _expected(task)
    if found := _state(reward):
        expected["scenario"] = {**(expected.get("scenario") or {}), "expected_state": dict.fromkeys(found, True)}
    duration, cost = (None if value is None else money(value) for value in map(record.get, ("duration", "agent_cost")))
    return Conversation(
        messages_of(list(_spoken(objects(record.get("messages"))))),
        key=f"{key} trial {trial + 1}" if isinstance(trial, int) and trial else key,
        duration_s=duration,
        cost_usd=cost,
        error=_INFRASTRUCTURE if ended == _INFRASTRUCTURE else None,
        metadata={name: record[name] for name in _KEPT if record.get(name) is not None}
        | {"reward": reward.get("reward")}
        | ({"final_state": found} if found else {}),
        **expected,
    )


def _state(reward: dict[str, Any]) -> dict[str, Any]:
    """Return what the benchmark found of the state that was left behind, which itself is in no file of results.

    Each thing that it checked is true if it is as the task wants it.
    """
    checked = {"database": members(reward.get("db_check")).get("db_match")}
    for each in objects(reward.get("env_assertions")):
        asserted = members(each.get("env_assertion"))
        name = f"{asserted.get('func_name')} {as_json(asserted.get('arguments') or {})}"
        checked[name] = checked.get(name) is not False and each.get("met") is True
    return {name: met for name, met in checked.items() if met is not None}


def _expected(task: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a conversation that its task describes."""
    if not task:
        return {}
    criteria, user = members(task.get("evaluation_criteria")), members(task.get("user_scenario"))
    told = user.get("instructions")
    scenario = {
        "scenario": told if isinstance(told, str) else as_json(told) if told else None,
        "user_description": user.get("persona"),
        "expected_facts": criteria.get("communicate_info"),
    }
    return {
        "expected_tool_calls": _calls(objects(criteria["actions"])) if "actions" in criteria else None,
        "expected_outcome": "\n".join(map(text, criteria.get("nl_assertions", ()))) or None,
        "scenario": {name: value for name, value in scenario.items() if value} or None,
    }


def _calls(actions: Iterable[dict[str, Any]]) -> list[ExpectedCall]:
    """Return the calls that the agent is to make, with those arguments that are compared."""
    found: list[dict[str, Any]] = []
    for action in actions:
        if action.get("requestor") in (None, "assistant"):
            compared = action.get("compare_args")
            arguments = members(action.get("arguments"))
            kept = arguments if compared is None else {name: arguments[name] for name in compared if name in arguments}
            found.append({"name": action.get("name"), "arguments": None if compared == [] else kept})
    return expected_calls(found)


def _spoken(messages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what the agent sees of a conversation."""
    for message in messages:
        if isinstance(several := message.get("tool_messages"), list):
            yield from _spoken(objects(several))
        elif message.get("role") == "user":
            said = _STOPS.sub("", text(message.get("content") or "")).strip()
            if said:
                yield {"role": "user", "content": said}
        elif message.get("requestor") != "user":
            yield message
