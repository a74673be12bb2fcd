"""Calls of tools held against the calls that a case expects: equal arguments, the best matching, and its evidence.

Of all ways to give every expected call at most one call that was made, the best is taken, never the first that fits:
as an assignment where order means nothing, and as a monotone alignment where it does. Calls of one message are
parallel, so that they have no order among themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import Field

from leadline.evaluators.core import Params
from leadline.evaluators.data import Evidence, ExpectedCall, Json, MadeCall, Reason, Row, RowScore, Source, Span
from leadline.evaluators.ground import count, listing, nouns

Agreement: TypeAlias = Literal["exact", "superset", "subset", "partial", "ignore"]
Arguments: TypeAlias = Mapping[str, Json]
Weights: TypeAlias = Sequence[Sequence[float]]

MOST_TRIED: Final = 300_000
"""Pairs of a row that are looked at to put parallel calls in order, over all stretches: a second or so."""

MOST_SHOWN: Final = 100
"""Calls of each kind that the evidence of a row lists."""

_LONGEST: Final = 80
"""Characters of a call in a sentence."""


class TooManyCalls(ValueError):
    """So many calls that their best alignment would take too long."""


class MatchedCall(NamedTuple):
    """A call and the expected call that it is matched with, by their numbers from 0, and how well they agree."""

    call: int
    expected: int
    weight: float


class ReadOnlyParams(Params):
    """Adds the tools that change nothing."""

    read_only_tools: Annotated[
        tuple[str, ...],
        Field(
            description="Tools that change nothing, beside those that the dataset marks as `read_only`: extra calls of "
            "them cost nothing."
        ),
    ] = ()

    def read_only(self, row: Row) -> frozenset[str]:
        """Return the tools that change nothing, of the parameter and of the row."""
        return frozenset(self.read_only_tools) | {tool["name"] for tool in row.tools or () if tool.get("read_only")}


class MatchingParams(ReadOnlyParams):
    """Adds how the arguments of two calls are compared."""

    arguments: Annotated[
        Agreement,
        Field(
            description="How arguments must agree: `exact`; `superset`, all that are expected and maybe others; "
            "`subset`, none but those that are expected; `partial`, by the share of equal arguments; `ignore`, not."
        ),
    ] = "exact"


def equal(one: Json, other: Json) -> bool:
    """Return whether two values are the same JSON: 1 equals 1.0, true is not 1, and ``"7"`` is not 7."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    if isinstance(one, Sequence) and isinstance(other, Sequence):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other


def likeness(one: Arguments, other: Arguments) -> float:
    """Return equal arguments / all arguments of both; of two objects under one name their own likeness counts."""
    if not one and not other:
        return 1.0
    total = 0.0
    for name in one.keys() & other.keys():
        left, right = one[name], other[name]
        if equal(left, right):
            total += 1.0
        elif isinstance(left, Mapping) and isinstance(right, Mapping):
            total += likeness(left, right)
    return total / len(one.keys() | other.keys())


def _holds(whole: Arguments, part: Arguments) -> float:
    return float(all(name in whole and equal(whole[name], value) for name, value in part.items()))


_AGREEMENTS: Final[Mapping[Agreement, Callable[[Arguments, Arguments], float]]] = {
    "exact": lambda made, expected: float(equal(made, expected)),
    "superset": _holds,
    "subset": lambda made, expected: _holds(expected, made),
    "partial": likeness,
    "ignore": lambda made, expected: 1.0,
}


def weight(made: MadeCall, expected: ExpectedCall, agreement: Agreement) -> float:
    """Return how well a call fits an expected one, from 0 to 1: 0 for another tool or turn, else by its arguments."""
    if made.name != expected["name"] or expected.get("turn", made.turn) != made.turn:
        return 0.0
    accepted = [*expected.get("any_of", ())]
    if "arguments" in expected:
        accepted.append(expected["arguments"])
    return max((_AGREEMENTS[agreement](made.arguments, arguments) for arguments in accepted), default=1.0)


def weights_of(calls: Sequence[MadeCall], expected: Sequence[ExpectedCall], agreement: Agreement) -> Weights:
    """Return how well each call fits each expected one: a line for each call."""
    return [[weight(made, wanted, agreement) for wanted in expected] for made in calls]


def best_assignment(weights: Weights) -> list[MatchedCall]:
    """Return the one-to-one pairs of the greatest total weight, in any order (Kuhn 1955; Jonker and Volgenant 1987)."""
    pairs = [MatchedCall(*place, fit) for place, fit in _positive(weights)]
    if len({pair.call for pair in pairs}) == len({pair.expected for pair in pairs}) == len(pairs):
        return pairs  # no two calls compete for one: scipy need not be loaded

    from scipy.optimize import linear_sum_assignment

    places = zip(*linear_sum_assignment(weights, maximize=True), strict=True)
    return [
        MatchedCall(int(call), int(wanted), weights[call][wanted]) for call, wanted in places if weights[call][wanted]
    ]


def _positive(weights: Weights) -> list[tuple[tuple[int, int], float]]:
    return [((call, wanted), fit) for call, line in enumerate(weights) for wanted, fit in enumerate(line) if fit]


class _Aligned(NamedTuple):
    """The best alignment up to some place: its total weight, its last pairs, and the alignment before them."""

    total: float = 0.0
    pairs: tuple[MatchedCall, ...] = ()
    before: _Aligned | None = None


def best_alignment(weights: Weights, messages: Sequence[int]) -> list[MatchedCall]:
    """Return the pairs of the greatest total weight that keep the order of the calls and of those expected.

    Each message takes a stretch of the expected calls behind the stretches of earlier messages; within it the order
    is free. With one call in each message that is the weighted longest common subsequence. Where the best assignment
    keeps the order anyway, it is the answer.

    Args:
        messages: The message of each call.

    Raises:
        TooManyCalls: More than :data:`MOST_TRIED` pairs would have to be looked at.
    """
    anyhow = sorted(best_assignment(weights), key=lambda pair: (messages[pair.call], pair.expected))
    if all(one.expected < other.expected for one, other in pairwise(anyhow)):
        return anyhow
    size = len(weights[0])
    tried = 0
    best = [_Aligned()] * (size + 1)
    for _, numbers in groupby(range(len(weights)), key=lambda call: messages[call]):
        group = list(numbers)
        wanted = [place for place in range(size) if any(weights[call][place] for call in group)]
        grown = [*best]
        for end in range(1, size + 1):
            options = [grown[end], grown[end - 1]]
            starts = [place for place in wanted if place < end] if end - 1 in wanted else []
            for start in starts if len(group) > 1 else starts[-1:]:
                tried += len(group) * (end - start)
                if tried > MOST_TRIED:
                    raise TooManyCalls(f"{count(len(weights), 'call')} are too many to be put in order.")
                pairs = best_assignment([weights[call][start:end] for call in group])
                moved = tuple(MatchedCall(group[pair.call], start + pair.expected, pair.weight) for pair in pairs)
                total = best[start].total + sum(pair.weight for pair in moved)
                options.append(_Aligned(total, moved, best[start]))
            grown[end] = max(options, key=lambda option: option.total)
        best = grown
    found: list[MatchedCall] = []
    last: _Aligned | None = best[-1]
    while last:
        found += last.pairs
        last = last.before
    return sorted(found)


@dataclass(frozen=True, slots=True)
class MatchedCalls:
    """The calls of a row beside those that are expected.

    Attributes:
        calls: The calls that were made.
        expected: The calls that are expected.
        pairs: Those that are matched.
        free: Tools of which extra calls cost nothing.
    """

    calls: Sequence[MadeCall]
    expected: Sequence[ExpectedCall]
    pairs: Sequence[MatchedCall]
    free: Collection[str] = ()

    @property
    def weight(self) -> float:
        """The total weight of the pairs."""
        return sum(pair.weight for pair in self.pairs)

    @property
    def extra(self) -> list[int]:
        """Numbers of the calls that match none and cost something."""
        used = {pair.call for pair in self.pairs}
        return [call for call, made in enumerate(self.calls) if call not in used and made.name not in self.free]

    @property
    def missing(self) -> list[int]:
        """Numbers of the expected calls that none matches."""
        met = {pair.expected for pair in self.pairs}
        return [place for place in range(len(self.expected)) if place not in met]

    @property
    def counted(self) -> int:
        """The number of calls without the extra ones that cost nothing."""
        return len(self.pairs) + len(self.extra)

    def evidence(self) -> Evidence:
        """Return the matched, missing and extra calls, and a sentence about them."""
        pairs, missing, extra = self.pairs[:MOST_SHOWN], self.missing[:MOST_SHOWN], self.extra[:MOST_SHOWN]
        partly = [shown_call(self.calls[pair.call]) for pair in pairs if pair.weight < 1]
        lists = {
            "in part": partly,
            "missing": [shown_call(self.expected[place]) for place in missing],
            "extra": [shown_call(self.calls[call]) for call in extra],
        }
        wanted, met = len(self.expected), len(self.pairs)
        made = f"{met} of {count(wanted, 'expected call')} {nouns(met, 'was', 'were')} made"
        said = made if wanted else "No call is expected" if extra else "No call is expected, and none counts"
        details = (f"{name}: {listing(texts, most=4)}" for name, texts in lists.items() if texts)
        spans = [call_span(self.calls, call, "extra call", 0.0) for call in extra]
        spans += [call_span(self.calls, pair.call, f"expected call {pair.expected + 1}", pair.weight) for pair in pairs]
        return Evidence(
            f"{'; '.join([said, *details])}.",
            tuple(sorted(spans, key=lambda span: span.index)),
            {
                "matched": [dict(pair._asdict()) for pair in pairs],
                "missing": [{"expected": place, **_plain(self.expected[place])} for place in missing],
                "extra": [{"call": call, **_plain(self.calls[call])} for call in extra],
            },
        )


def _plain(call: MadeCall | ExpectedCall) -> dict[str, Json]:
    if isinstance(call, MadeCall):
        return {"name": call.name, "arguments": call.arguments}
    alternatives = call.get("any_of", ())
    given = [call["arguments"], *alternatives] if "arguments" in call else [*alternatives]
    return {"name": call["name"], **({"arguments": given[0]} if given else {})}


def call_span(calls: Sequence[MadeCall], number: int, note: str, value: float | None = None) -> Span:
    """Return a span that points at a call; its text is the name of the tool."""
    return Span(Source.TOOL_CALL, 0, len(calls[number].name), number, value, note)


def shown_call(call: MadeCall | ExpectedCall) -> str:
    """Return a call as a person reads it, ``get_tide(harbour="Lisbon")``, cut where it is long."""
    plain = _plain(call)
    arguments = plain.get("arguments", {})
    given = arguments.items() if isinstance(arguments, Mapping) else ()
    text = f"{plain['name']}({', '.join(f'{name}={json.dumps(value, ensure_ascii=False)}' for name, value in given)})"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def unordered(metrics: tuple[str, ...], error: TooManyCalls) -> RowScore:
    """Return the score of a row whose calls are too many to be put in order."""
    return RowScore.unscored(metrics, Reason.UNSCORABLE, str(error))
