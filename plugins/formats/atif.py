"""Trajectories in ATIF, the format of Harbor and the agents that run in it."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any, Final

from leadline.plugins.formats.foreign_records import ForeignRecords, members, objects
from leadline.tasks.load.conversation import Conversation
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.messages import messages_of, tools_of
from leadline.tasks.load.readers import Item
from leadline.tasks.load.values import ValueFault, count, mapping, money

_ROLES: Final = {"system": "system", "user": "user", "agent": "assistant"}
_TOGETHER: Final = {"parent", "child"}


@register
class AtifTrajectory(ForeignRecords):
    """Reads trajectories, one a file or one a line; that of a sub-agent is one of its own, also beside its parent's.

    The model is the agent with its language model. The case is what the user says, so that the trajectories of several
    agents are answers to one case.
    """

    name = "atif"
    title = "ATIF"
    recognised_by = "`schema_version` beside `steps` and `agent`, also as `parent` and `child` of one object"

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are trajectories."""
        return 0.9 if ({"schema_version", "steps", "agent"} <= names or names == _TOGETHER) and not sections else 0

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a trajectory, or both of an agent and its sub-agent in one object."""
        for each in record.values() if record.keys() == _TOGETHER else [record]:
            super().convert_record(item, each)

    def conversation(self, record: dict[str, Any], section: str) -> Conversation:
        """Return a trajectory."""
        return atif_trajectory(mapping(record))


def atif_trajectory(record: dict[str, Any]) -> Conversation:
    """Return a trajectory as a conversation."""
    agent, metrics = members(record.get("agent")), members(record.get("final_metrics"))
    names = (agent.get("name"), agent.get("model_name"))
    tools = agent.get("tool_definitions")
    cost, sent, received = (metrics.get(f"total_{name}") for name in ("cost_usd", "prompt_tokens", "completion_tokens"))
    return Conversation(
        messages_of(list(_messages(record))),
        model=" ".join(str(name) for name in names if name),
        tools=None if tools is None else tools_of(tools),
        cost_usd=None if cost is None else money(cost),
        input_tokens=None if sent is None else count(sent),
        output_tokens=None if received is None else count(received),
        metadata={name: record[name] for name in ("session_id", "trajectory_id", "notes") if record.get(name)},
    )


def _messages(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(objects(record.get("steps")), start=1):
        role = _ROLES.get(str(step.get("source")))
        if role is None:
            raise ValueFault(f"step {number}: its source is none of {', '.join(_ROLES)}")
        thought = step.get("reasoning_content")
        yield {"role": role, "content": step.get("message"), "tool_calls": step.get("tool_calls"), "reasoning": thought}
        for result in objects(members(step.get("observation")).get("results")):
            yield {"role": "tool", "tool_call_id": result.get("source_call_id"), "content": result.get("content")}
