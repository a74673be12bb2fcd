"""The goal of a task: the state that an agent leaves behind, and the facts that it tells the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from leadline.evaluators.agent.call_matching import MOST_SHOWN, equal
from leadline.evaluators.core import EvalContext, Metric, Params, RowEvaluator, Spec, one_metric, register
from leadline.evaluators.data import Evidence, Json, Messages, Row, RowField, RowScore, Source, Span
from leadline.evaluators.ground import listing

FINAL: Final = "final_state"
"""Key of a row's metadata that holds the state behind the conversation."""

EXPECTED: Final = "expected_state"
"""Key of a case's scenario that holds the state that is expected."""

FACTS: Final = "expected_facts"
"""Key of a case's scenario that holds what the user must be told."""


class StateParams(Params):
    """Parameters of the state's comparison."""

    ignore: Annotated[
        tuple[str, ...],
        Field(
            description="Members that do not count, by name at any depth (`updated_at`) or by path (`orders.7.eta`)."
        ),
    ] = ()
    others_allowed: Annotated[
        bool, Field(description="Whether the state may have members beside the expected ones, as in a large database.")
    ] = False


Path: TypeAlias = tuple[str | int, ...]


def leaves(value: Json, ignore: Sequence[str] = (), path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Yield the places of a state with their values: numbers, texts, and empty objects and lists.

    Args:
        ignore: Names or paths that are left out.
        path: The way to the value itself.
    """
    items: Iterable[tuple[str | int, Json]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, Sequence) and not isinstance(value, str):
        items = enumerate(value)
    if not items or not value:
        yield path, value
        return
    for name, item in items:
        inside = (*path, name)
        if name not in ignore and _shown(inside) not in ignore:
            yield from leaves(item, ignore, inside)


def _shown(path: Path) -> str:
    return ".".join(map(str, path)) or "the state itself"


def state_differences(row: Row, params: StateParams) -> tuple[list[str], int] | None:
    """Return the places where a row's state is not as expected, and their number; ``None`` where a state is unknown."""
    expected, final = (row.scenario or {}).get(EXPECTED), row.metadata.get(FINAL)
    if expected is None or final is None:
        return None
    wanted, found = dict(leaves(expected, params.ignore)), dict(leaves(final, params.ignore))
    places = [*wanted] if params.others_allowed else [*wanted, *(path for path in found if path not in wanted)]
    off = [path for path in places if path not in wanted or path not in found or not equal(wanted[path], found[path])]
    return [_shown(path) for path in off], len(places)


@register
class TaskState(RowEvaluator):
    """State that an agent leaves behind: 1 where it is the expected one, 0 where anything differs.

    **Method.** The case's ``scenario`` has the ``expected_state``, the row's metadata the ``final_state``: any JSON,
    such as the tables of a small database or the state of a session. Both are taken apart into places with a value.
    ``task_state`` is 1 where all places of both have equal values, and ``state_agreement`` is the share of places that
    do. 1 equals 1.0, ``true`` is not 1, and ``"7"`` is not 7. What ``ignore`` names does not count; with
    ``others_allowed`` only the places of the expected state do.

    **Edge cases.** A row without either state is not applicable. Lists are equal place by place, in order. Two empty
    states are equal.

    **Source.** Yao et al. 2024, tau-bench, whose reward compares the database at the end with the annotated one.
    """

    spec = Spec(
        id="task_state",
        name="Task State",
        inputs=(RowField.METADATA, RowField.SCENARIO),
        metadata=(FINAL,),
        unit="conversation",
        metrics=(
            Metric.higher(
                "task_state", "Share of conversations that leave the expected state.", primary=True, share=True
            ),
            Metric.higher("state_agreement", "Share of the places of the state that are as expected."),
        ),
        insight_type="agent",
        problem_type="agent",
        keywords=("agent", "goal", "end state", "database", "tau-bench", "rule-based"),
        source="Yao et al. 2024, tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains",
    )
    parameters = StateParams
    params: StateParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return whether the state is the expected one, the share that is, and where it differs."""
        found = state_differences(row, self.params)
        if found is None:
            return RowScore.not_applicable(
                self.row_metrics, f"It needs {EXPECTED} in the scenario and {FINAL} in the metadata."
            )
        off, places = found
        shown = off[:MOST_SHOWN]
        return RowScore(
            {"task_state": float(not off), "state_agreement": 1 - len(off) / places if places else 1.0},
            Evidence(f"Not as expected: {listing(shown)}." if off else "", data={"differs": shown} if off else {}),
        )


def facts_told(row: Row) -> dict[str, tuple[int, int, int] | None]:
    """Return the facts that a case wants told, each with the message that tells it and its place there, if one does."""
    listed: Any = (row.scenario or {}).get(FACTS)
    facts = [listed] if isinstance(listed, str) else [str(fact) for fact in listed or ()]
    return {fact: _found(fact, row.messages) for fact in facts}


def _found(fact: str, messages: Messages) -> tuple[int, int, int] | None:
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            folded, origins = _folded(message["content"])
            wanted, _ = _folded(fact)
            start = folded.find(wanted)
            if start >= 0 and wanted:
                return place, origins[start], origins[start + len(wanted) - 1] + 1
    return None


def _folded(text: str) -> tuple[str, list[int]]:
    """Return a text in small letters and without commas, and where each of its characters comes from."""
    kept = [(small, place) for place, char in enumerate(text) if char != "," for small in char.lower()]
    return "".join(small for small, _ in kept), [place for _, place in kept]


@register
class Communicated(RowEvaluator):
    """Facts that the user must be told: the share of them that the assistant's messages hold.

    **Method.** The case's ``scenario`` lists the ``expected_facts``, short texts such as "5.4 m" or "1,200". One is
    told where it stands in some message of the assistant, without regard to case and commas, so that "1,200" and "1200"
    are the same. The value is the share of the facts that are told; the evidence shows where.

    **Edge cases.** A case that lists none is not applicable. An empty text is never told. What a tool returned and the
    assistant did not pass on does not count, nor does its hidden reasoning. Words of one's own ("five metres") are not
    found: a judge of the goal finds them.

    **Source.** Yao et al. 2024, tau-bench: outputs that must be communicated are looked for in the agent's messages
    without case and commas.
    """

    spec = Spec(
        id="communicated",
        name="Communicated Facts",
        inputs=(RowField.MESSAGES, RowField.SCENARIO),
        unit="conversation",
        metrics=one_metric("communicated", "Share of the expected facts that the user is told.", threshold=1.0),
        insight_type="agent",
        problem_type="agent",
        keywords=("agent", "goal", "facts", "tau-bench", "rule-based"),
        source="Yao et al. 2024, tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains",
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return the share of the facts that are told, and where."""
        facts = facts_told(row)
        if not facts:
            return RowScore.not_applicable(self.row_metrics, f"The scenario has no {FACTS}.")
        untold = [fact for fact, place in facts.items() if place is None]
        spans = [
            Span(Source.MESSAGE, place[1], place[2], place[0], note="expected fact")
            for place in facts.values()
            if place
        ]
        return RowScore(
            {"communicated": 1 - len(untold) / len(facts)},
            Evidence(f"Not told: {listing(untold)}." if untold else "", tuple(spans[:MOST_SHOWN])),
        )
