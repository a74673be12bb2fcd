"""Problems of robustness: kinds of perturbations under which a model's good answers turn bad.

One problem per model and kind of perturbation. Only metrics count that must or should be good, and only more turning
bad than turning good: chance, a judge's moods and an answer near its threshold turn as many one way as the other. A
metric whose flips were measured to be no more than its judge's own noise does not count.

Three words say what is known of a metric that asks a judge: **changed**, if the flips net of its judge's noise are
above 0 with their whole interval; **not told from the judge's noise**, if the interval reaches 0, and its upper end is
what could hide; **not measured**, if no row was judged again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.data import Severity
from leadline.evaluators.ground import count, listing, nouns, number, percent, quoted, signed_percent
from leadline.tasks.analyse.findings.finding import MOST_KEYS, MOST_ROWS, Finding
from leadline.tasks.analyse.findings.severity import graded
from leadline.tasks.db import records, sql
from leadline.tasks.perturb.perturbations import described
from leadline.tasks.policy.policy import Role
from leadline.tasks.statistics.statistics import binomial_test, clopper_pearson, holm

if TYPE_CHECKING:
    from leadline.tasks.analyse.findings.finding import RunView


MOST_FLIPS: Final = 10
"""Flipped cases of one evaluator and model with a problem of their own; the others share one problem."""
MOST_FLIPS_IN_RUN: Final = 200
"""Flipped cases of a run with a problem of their own, shared out among its evaluators and models."""

SIGNIFICANT: Final = 0.05
"""Probability of so many more worsened than improved cases by chance, up to which it is taken for more than chance."""
SEVERE: Final = 0.2
"""Share of worsened answers from which on, if the interval lies wholly above it, a problem is severe."""

_ENCODED: Final = ("base", "rot", "morse", "hex", "binary", "encod")
_SPELLING: Final = ("character", "comma", "ocr", "qwerty", "typo", "case", "slip")
_WORDING: Final = ("paraphrase", "synonym", "word")


@dataclass(frozen=True, slots=True)
class Turned:
    """The pairs of original and perturbed rows of a model, under one or several kinds of perturbation.

    Attributes:
        kinds: The kinds; none where the dataset names none.
        n_pairs: Pairs of rows that could be compared.
        n_worse: Pairs that turned from passed to failed on some metric.
        n_better: Pairs that turned from failed to passed on some metric and worsened on none.
        n_cases: Originals with such pairs.
        worse_cases: Originals of which more copies worsened than improved.
        better_cases: Originals of which more copies improved than worsened.
        n_confirmed: Pairs that worsened on some metric of which every trial says so.
        metrics: Metrics that worsened, with the number of pairs.
        pairs: Pairs that worsened, worst first: the original row and the perturbed one.
    """

    kinds: tuple[str, ...]
    n_pairs: int
    n_worse: int
    n_better: int
    n_cases: float
    worse_cases: int
    better_cases: int
    n_confirmed: int
    metrics: Mapping[int, int]
    pairs: Sequence[Mapping[str, int]]

    @property
    def chance(self) -> float:
        """Probability of at least so many worsened cases if either direction is as likely (exact sign test)."""
        return binomial_test(self.worse_cases, self.worse_cases + self.better_cases, 0.5)

    @property
    def rate(self) -> float:
        """Share of the pairs that worsened."""
        return self.n_worse / self.n_pairs if self.n_pairs else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The exact interval of the rate; copies of the same case count once."""
        return clopper_pearson(self.rate, max(1.0, self.n_cases))


def perturbation_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model and kind of perturbation under which answers turn bad, beyond chance.

    The kinds that cannot be told from chance one by one are tested together: one more problem if they can then, and
    else one of low severity that says so, if more answers turned bad than good.
    """
    judged = judged_flips(view)
    noisy = untold(view, judged)
    view.connection.execute(
        "CREATE OR REPLACE TEMP TABLE flipping AS SELECT unnest($1::USMALLINT[]) AS metric_id, "
        "unnest($2::USMALLINT[]) AS model_id, unnest($3::BOOLEAN[]) AS must",
        _counted_metrics(view, noisy),
    )
    by_model: defaultdict[int, list[Turned]] = defaultdict(list)
    for line in records(view.connection, sql("problems/perturbations").format(most=MOST_ROWS)):
        by_model[line["model_id"]].append(_turned(line))
    for model_id, every in by_model.items():
        clear, rest = _beyond_chance(every)
        for turned in clear:
            yield _problem(view, model_id, turned, judged)
        together = _together(rest)
        if together and together.worse_cases > together.better_cases:
            yield _problem(view, model_id, together, judged, others=bool(clear))
    yield from noise_problems(view, noisy)


def _beyond_chance(every: Sequence[Turned]) -> tuple[list[Turned], list[Turned]]:
    """Divide kinds into those that worsen answers beyond chance (Holm's correction for several kinds) and the rest."""
    ordered = sorted(every, key=lambda turned: turned.chance)
    clear = sum(p <= SIGNIFICANT for p in holm([turned.chance for turned in ordered]))
    return ordered[:clear], ordered[clear:]


def _counted_metrics(view: RunView, noisy: Mapping[tuple[int, int], Any]) -> tuple[list[int], list[int], list[bool]]:
    """Return metrics, models, and whether the metric must be good: those whose flips count."""
    counted = [
        (metric_id, model_id, view.role(metric_id) is Role.MUST)
        for metric_id in view.metrics
        if view.role(metric_id) is not Role.INFORMATION
        for model_id in view.models
        if (metric_id, model_id) not in noisy
    ]
    return [each[0] for each in counted], [each[1] for each in counted], [each[2] for each in counted]


def _turned(line: Mapping[str, Any]) -> Turned:
    return Turned(
        kinds=(line["perturbation"],) if line["perturbation"] else (),
        n_pairs=line["n_pairs"],
        n_worse=line["n_worse"],
        n_better=line["n_better"],
        n_cases=line["n_pairs"] * line["originals_share"],
        worse_cases=line["worse_cases"],
        better_cases=line["better_cases"],
        n_confirmed=line["n_confirmed"],
        metrics=dict(zip(line["metric_ids"], line["metric_counts"], strict=True)),
        pairs=line["pairs"],
    )


def _together(parts: Sequence[Turned]) -> Turned | None:
    """Return several kinds as one; ``None`` without any."""
    if not parts:
        return None
    metrics: defaultdict[int, int] = defaultdict(int)
    for part in parts:
        for metric_id, n in part.metrics.items():
            metrics[metric_id] += n
    return Turned(
        kinds=tuple(kind for part in parts if part.n_worse for kind in part.kinds),
        n_pairs=sum(part.n_pairs for part in parts),
        n_worse=sum(part.n_worse for part in parts),
        n_better=sum(part.n_better for part in parts),
        n_cases=sum(part.n_cases for part in parts),
        worse_cases=sum(part.worse_cases for part in parts),
        better_cases=sum(part.better_cases for part in parts),
        n_confirmed=sum(part.n_confirmed for part in parts),
        metrics=dict(sorted(metrics.items(), key=lambda each: (-each[1], each[0]))),
        pairs=[pair for part in parts for pair in part.pairs][:MOST_ROWS],
    )


def _problem(
    view: RunView,
    model_id: int,
    turned: Turned,
    judged: Mapping[tuple[int, int], Mapping[str, Any]],
    *,
    others: bool = False,
) -> Finding:
    sure = turned.chance <= SIGNIFICANT
    low, high = turned.interval
    rows = [pair["perturbed"] for pair in turned.pairs]
    texts = _texts(view, turned.pairs[:MOST_KEYS])
    example = texts.get(turned.pairs[0]["perturbed"]) if turned.pairs else None
    parts = [
        f"{_kinds(turned.kinds, others=others)}: {turned.n_worse:,} of {count(turned.n_pairs, view.noun)} of model "
        f"{quoted(view.model_name(model_id))} turned from passed to failed ({percent(turned.rate)}, 95 % interval "
        f"{percent(low)} to {percent(high)}), {turned.n_better or 'none'} from failed to passed.",
        f"By metric: {_metrics(view, turned.metrics)}.",
    ]
    lines = [judged[metric_id, model_id] for metric_id in turned.metrics if (metric_id, model_id) in judged]
    parts += in_sentences(view, lines, turned.n_confirmed)
    if not sure:
        parts.append("That may be chance: too few more turned bad than good to tell.")
    if example:
        parts.append(
            f"For example {quoted(example['original_question'], most=100)} became "
            f"{quoted(example['perturbed_question'], most=100)}."
        )
    (single,) = turned.metrics if len(turned.metrics) == 1 else (None,)
    weight = max((view.rules[metric_id]["weight"] for metric_id in turned.metrics), default=1.0)
    return Finding(
        type="robustness",
        kind="flips",
        severity=graded(sure and _severe(turned, lines), sure),
        harm=weight * max(0, turned.n_worse - turned.n_better) / max(1, turned.n_pairs) if sure else 0.0,
        evaluator_id=view.metrics[single]["evaluator_id"] if single is not None else None,
        metric_id=single,
        model_id=model_id,
        description=" ".join(parts),
        actions=_action(turned.kinds) if sure else "Add perturbed cases of these kinds to tell chance from weakness.",
        attrs=view.attrs(
            model_id=model_id,
            avid="P0200",
            perturbations=list(turned.kinds),
            n_pairs=turned.n_pairs,
            n_passed_to_failed=turned.n_worse,
            n_failed_to_passed=turned.n_better,
            rate=turned.rate,
            ci_low=low,
            ci_high=high,
            chance=turned.chance,
            n_confirmed=turned.n_confirmed if any(line["net"] is not None for line in lines) else None,
            worsened_metrics={_name(view, metric_id): n for metric_id, n in turned.metrics.items()},
            pairs=[[each["original"], each["perturbed"]] for each in texts.values()],
        ),
        row_ids=rows,
    )


def _severe(turned: Turned, judged: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a weakness is severe even without what the noise of judges may have added to it.

    Args:
        judged: Flip rates of the metrics that ask a judge.
    """
    asking = {line["metric_id"] for line in judged}
    steady = max((n for metric_id, n in turned.metrics.items() if metric_id not in asking), default=0)
    sure_of, _ = clopper_pearson(steady / max(1, turned.n_pairs), max(1.0, turned.n_cases))
    noise = chance_to_worsen(judged, turned.n_better / max(1, turned.n_pairs))
    return max(sure_of, turned.interval[0] - noise) >= SEVERE


def _kinds(kinds: Sequence[str], *, others: bool) -> str:
    """Return the beginning of a sentence about kinds of perturbations, with what a known one does."""
    if not kinds:
        return "When the question is perturbed"
    if len(kinds) > 1 or others:
        every = "all other" if others else "all"
        return f"Under {every} perturbations together (those that worsen answers: {listing(kinds, most=6)})"
    known = described()
    about = known.get(kinds[0]) or known.get(kinds[0].rpartition(":")[0])  # typo:high, base64:answer_decoded
    return f"Under the perturbation {kinds[0]}{f' ({about})' if about else ''}"


def _metrics(view: RunView, metrics: Mapping[int, int]) -> str:
    return listing((f"{_shown(view, metric_id)} {n:,}" for metric_id, n in metrics.items()), most=5)


def _shown(view: RunView, metric_id: int) -> str:
    return view.evaluator_name(view.metrics[metric_id]["evaluator_id"])


def _name(view: RunView, metric_id: int) -> str:
    metric = view.metrics[metric_id]
    return f"{view.evaluators[metric['evaluator_id']]['evaluator']}/{metric['metric']}"


def _texts(view: RunView, pairs: Sequence[Mapping[str, int]]) -> dict[int, dict[str, Any]]:
    """Return keys and questions of pairs by the perturbed row, in their order."""
    params = [[pair["original"] for pair in pairs], [pair["perturbed"] for pair in pairs]]
    return {line["row_id"]: line for line in records(view.connection, sql("problems/pair_texts"), params)}


def _action(kinds: Sequence[str]) -> str:
    """Return what to do about a weakness under kinds of perturbations."""
    first = "Compare the answers of each pair. "
    if kinds and all(kind.startswith(_ENCODED) for kind in kinds):
        return (
            first + "Decide what the system shall do with encoded questions: decode them before retrieval, or refuse."
        )
    if kinds and all(any(part in kind for part in _SPELLING) for kind in kinds):
        return first + "Correct spelling before the retrieval, or retrieve by embeddings beside words."
    if kinds and all(any(part in kind for part in _WORDING) for kind in kinds):
        return first + "Rewrite questions before the retrieval, or use an embedding model that knows other wordings."
    return (
        first + "See whether the retrieval or the answer changed: normalise questions, or try another model or prompt."
    )


CHANGED: Final = "changed"
UNTOLD: Final = "not told from the judge's noise"
UNMEASURED: Final = "not measured"

SAME_REPLIES: Final = 20
"""Repeated verdicts that all rest on the same text from which on a cache is suspected."""

HOW_TO_MEASURE: Final = "--trials 2 --trial-rows auto"
"""Options that measure a judge's noise for little money."""


def noise_in_a_word(net_method: str | None, net_low: float | None) -> str:
    """Return what is known of the judge's noise in a flip rate; ``""`` where there can be none.

    Args:
        net_method: How the net rate was estimated.
        net_low: Lower end of its interval.
    """
    if net_method == "deterministic":
        return ""
    if net_low is None:
        return UNMEASURED
    return CHANGED if net_low > 0 else UNTOLD


def judged_flips(view: RunView) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return the flip rates of metrics that ask a judge, all perturbations together, by metric and model."""
    return {
        (line["metric_id"], line["model_id"]): line for line in records(view.connection, sql("problems/judged_flips"))
    }


def untold(
    view: RunView, judged: Mapping[tuple[int, int], Mapping[str, Any]]
) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return the metrics and models whose flips cannot be told from their judge's noise, which was measured.

    Args:
        judged: What :func:`judged_flips` returned.
    """
    return {
        key: line
        for key, line in judged.items()
        if line["n_passed_to_failed"]
        and noise_in_a_word(line["net_method"], line["net_low"]) == UNTOLD
        and view.role(line["metric_id"]) is not Role.INFORMATION
    }


def chance_to_worsen(lines: Sequence[Mapping[str, Any]], better: float) -> float:
    """Return the share of pairs that the judges' noise alone turns bad, at most.

    Half of what it flips turns bad. Where it was not measured, it turns as many good: no more than those that did.

    Args:
        lines: Flip rates of the metrics.
        better: Share of the pairs that turned good.
    """
    return max((better if line["noise"] is None else line["noise"] / 2 for line in lines), default=0.0)


def in_sentences(view: RunView, lines: Sequence[Mapping[str, Any]], confirmed: int) -> Iterator[str]:
    """Yield what is known of the judge's noise in a problem's flips.

    Args:
        lines: Flip rates of its metrics that ask a judge.
        confirmed: Pairs that turned bad and of which all trials of each row agree.
    """
    told = [line for line in lines if line["net"] is not None]
    if told:
        parts = (
            f"{percent(line['net'])} ({signed_percent(line['net_low'])} to {percent(line['net_high'])}) on "
            f"{view.evaluator_name(line['evaluator_id'])}"
            for line in told
        )
        yield (
            f"Net of the judge's own noise ({percent(max(line['noise'] for line in told))}), "
            f"{listing(parts, most=3)} of all pairs changed; {confirmed or 'none'} of those that turned bad "
            f"{nouns(confirmed, 'is', 'are')} confirmed by every trial."
        )
    if len(told) < len(lines):
        yield f"How much of it is the judge's own noise was not measured ({HOW_TO_MEASURE} does)."


def cached_problems(view: RunView) -> Iterator[Finding]:
    """Yield a note for each judge that samples its replies and gave the same ones in all trials, as a cache does."""
    for line in records(view.connection, sql("problems/cached_trials").format(most=MOST_ROWS, least=SAME_REPLIES)):
        evaluator_id = line["evaluator_id"]
        yield view.finding(
            type="evaluation",
            kind="cached_trials",
            severity=Severity.LOW,
            fault="instrument",
            description=f"{view.evaluator_name(evaluator_id)}: {count(line['n'], 'repeated verdict')} rest on the very "
            "text of the first one, although the judge's temperature is above 0: the trials may be one cached reply. "
            "Then they say nothing of the judge's own noise.",
            actions="See whether a gateway between here and the judge caches replies, and switch that off.",
            row_ids=line["row_ids"],
            evaluator_id=evaluator_id,
            n_rows=line["n"],
        )


def noise_problems(view: RunView, noisy: Mapping[tuple[int, int], Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield a note for each metric whose flips cannot be told from its judge's own changes of mind.

    Args:
        noisy: What :func:`untold` returned.
    """
    by_metric: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for (metric_id, _), line in noisy.items():
        by_metric[metric_id].append(line)
    for metric_id, lines in by_metric.items():
        metric = view.metrics[metric_id]
        worst = max(lines, key=lambda line: line["net_high"])
        n_worse, n_pairs = (sum(line[name] for line in lines) for name in ("n_passed_to_failed", "n_pairs"))
        yield view.finding(
            type="robustness",
            kind="judge_noise",
            severity=Severity.LOW,
            fault="instrument",
            description=f"{view.evaluator_name(metric['evaluator_id'])} turned from passed to failed on {n_worse:,} of "
            f"{count(n_pairs, 'perturbed pair')}, {UNTOLD}: {percent(worst['rate'])} flip, "
            f"{percent(worst['noise'])} by the judge's own noise, net {signed_percent(worst['net'])} (95 % interval "
            f"{signed_percent(worst['net_low'])} to {percent(worst['net_high'])}). Up to "
            f"{percent(worst['net_high'])} of the answers could have changed.",
            actions="Add perturbed cases or use a steadier judge to tell weaknesses of the model from the judge's.",
            metric=metric,
            model_names=[view.model_name(line["model_id"]) for line in lines],
            n_pairs=n_pairs,
            n_passed_to_failed=n_worse,
            **{name: worst[name] for name in ("rate", "noise", "net", "net_low", "net_high", "net_method")},
        )


def flip_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each perturbed case and model whose metrics flipped, and one that sums up where many did."""
    (boards,) = view.connection.execute(
        "SELECT count(DISTINCT (evaluator_id, model_id)) FROM flips JOIN metrics USING (metric_id)"
    ).fetchall()[0]
    listed = max(1, min(MOST_FLIPS, MOST_FLIPS_IN_RUN // max(1, boards)))
    for flip in records(view.connection, sql("problems/flipped_cases").format(listed=listed)):
        yield _flipped_case(view, flip)
    for totals in records(view.connection, sql("problems/flip_totals").format(listed=listed, most=MOST_ROWS)):
        yield _flipped_cases(view, totals, listed)


def _flipped_case(view: RunView, flip: Mapping[str, Any]) -> Finding:
    model_id = flip["model_id"]
    first, *others = flip["metrics"]
    metric = view.metrics[first["metric_id"]]
    how = f" ({flip['perturbation']})" if flip["perturbation"] else ""
    was, now = first["direction"].split("_to_")
    parts = [
        f"Metric '{metric['name']}' of model {view.model_name(model_id)} flipped from {was} to {now} "
        f"(from {number(first['from'])} to {number(first['to'])} with threshold {number(metric['threshold'])}) "
        f"when the test case was perturbed{how}."
    ]
    if others:
        names = [view.metrics[other["metric_id"]]["name"] for other in others]
        parts.append(f"{listing(names)} flipped too.")
    parts.append(f"Original: {quoted(flip['original_question'])}; perturbed: {quoted(flip['perturbed_question'])}.")
    return view.finding(
        type="robustness",
        kind="flips",
        severity=Severity.HIGH,
        description=" ".join(parts),
        actions="Compare the two answers. Make the system robust to such input: normalise questions, or try a model or "
        "prompt that is less sensitive.",
        row_ids=[flip["original_row_id"], flip["perturbed_row_id"]],
        metric=metric,
        model_id=model_id,
        avid="P0200",
        perturbation=flip["perturbation"] or "",
        flips=[
            {
                "metric_id": view.metrics[one["metric_id"]]["metric"],
                "original": one["from"],
                "perturbed": one["to"],
                "direction": one["direction"],
            }
            for one in flip["metrics"]
        ],
    )


def _flipped_cases(view: RunView, totals: Mapping[str, Any], listed: int) -> Finding:
    evaluator_id, model_id = totals["evaluator_id"], totals["model_id"]
    rates = [
        f"{rate['rate'] * 100:.1f} % of {count(rate['n_pairs'], 'pair')} of {view.metrics[rate['metric_id']]['name']}"
        for rate in records(
            view.connection,
            "SELECT * FROM flip_rates JOIN metrics USING (metric_id) "
            "WHERE evaluator_id = ? AND model_id = ? AND perturbation = '' ORDER BY is_primary DESC, metric_id",
            [evaluator_id, model_id],
        )
    ]
    return view.finding(
        type="robustness",
        kind="flips",
        severity=Severity.HIGH,
        description=f"{view.evaluator_name(evaluator_id)} flipped on {totals['n_cases']:,} perturbed test cases of "
        f"model {view.model_name(model_id)}: {totals['n_fell']:,} from passed to failed, {totals['n_rose']:,} from "
        f"failed to passed ({listing(rates, most=4)}). "
        f"The first {listed} are told one by one; the table flips has them all.",
        actions="Look for the perturbation with the highest flip rate first.",
        row_ids=totals["row_ids"],
        evaluator_id=evaluator_id,
        model_id=model_id,
        avid="P0200",
        n_cases=totals["n_cases"],
        n_passed_to_failed=totals["n_fell"],
        n_failed_to_passed=totals["n_rose"],
    )
