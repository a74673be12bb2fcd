"""``leadline compare``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.flows.command.grouped_help import GroupedCommand
from leadline.flows.command.options import fill_in, form_options
from leadline.flows.command.output import clean, number, print_json, print_table
from leadline.flows.command.session import Session, relay_warnings, session_options
from leadline.flows.compare import Compare, CompareConfig

if TYPE_CHECKING:
    from leadline.tasks.compare import Comparison, MetricComparison


GATE_FAILED: Final = 1
FAIL_ON: Final = ("inconclusive", "fail", "never")
RIGHT: Final = ("cases", "baseline", "candidate", "effect", "margin", "p", "✓→✗", "✗→✓")
COLUMNS: Final = ("metric", "models", *RIGHT[:4], "95 % interval", *RIGHT[4:], "verdict")
ATTENTION: Final = ("fail", "incomparable", "inconclusive", "one_sided")


@click.command(cls=GroupedCommand)
@click.argument("sides", nargs=-1, metavar="[A] [B]")
@click.option("--baseline", metavar="A", help="The baseline, where B alone is given: a run, or tag:NAME.")
@click.option("--versions", nargs=2, metavar="OLD NEW", help="Compare the youngest runs of two versions of --model.")
@click.option(
    "--margin",
    "margins",
    multiple=True,
    metavar="[METRIC=]VALUE",
    help="Largest tolerated worsening: a share of each metric's range, or of one METRIC in its own unit; repeatable.  "
    "[default: 0.05]",
)
@form_options(CompareConfig, without=("baseline", "candidate", "versions", "margin", "margins", "store"))
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="inconclusive",
    show_default=True,
    help="Verdicts that leave with exit code 1: fail alone, also inconclusive, or never.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@session_options
@click.pass_obj
def compare(session: Session, /, sides: tuple[str, ...], fail_on: str, as_json: bool, **options: Any) -> int:
    """Compare two runs, models or versions case by case.

    Says whether the candidate B is worse than the baseline A. A and B are runs (an id, the beginning of it, `latest`,
    `latest~1`, `tag:NAME`) or models of runs (RUN:MODEL; `:MODEL` is of A's run). B is `latest` by default. Models are
    matched by their keys.

    PASS leaves with exit code 0, FAIL and INCONCLUSIVE with 1.
    """
    from leadline.tasks.compare.report import record

    config = _config(session, sides, options)
    relay_warnings()
    found = Compare().check(config).compared()
    if as_json:
        print_json(record(found) | {"folder": str(found.folder), "report": str(found.report)})
    else:
        _print(found)
    failing = {"inconclusive": ("fail", "inconclusive"), "fail": ("fail",), "never": ()}[fail_on]
    return GATE_FAILED if found.verdict in failing else 0


def _config(session: Session, sides: Sequence[str], options: dict[str, Any]) -> CompareConfig:
    baseline, versions = options.pop("baseline"), options.pop("versions")
    most = 0 if versions else 1 if baseline else 2
    if len(sides) > most:
        raise UsageError(
            f"{sides[most]!r} is one run too many.", hint="See: leadline compare --help", code=ErrorCode.COMPARE_SIDES
        )
    if not sides and not baseline and not versions:
        raise UsageError(
            "Name what to compare with.", hint="Write: leadline compare latest~1 latest", code=ErrorCode.COMPARE_SIDES
        )
    named = {"baseline": baseline or "", "candidate": sides[-1] if sides else "latest"}
    if not baseline and not versions:
        named = {"baseline": sides[0], "candidate": sides[1] if len(sides) > 1 else "latest"}
    general, margins = _margins(options.pop("margins"))
    options |= named | {
        "margin": general,
        "margins": margins or None,
        "versions": versions,
        "model_map": dict(_pair(text, "--map OLD=NEW") for text in options["model_map"]) or None,
        "store": session.store,
    }
    return fill_in(CompareConfig, "compare", options)


def _margins(texts: Iterable[str]) -> tuple[float | None, dict[str, float]]:
    """Read margins: the general one, and those of single metrics."""
    general: float | None = None
    own: dict[str, float] = {}
    for text in texts:
        metric, equals, value = text.rpartition("=")
        try:
            margin = float(value)
        except ValueError:
            raise UsageError(
                f"--margin {text!r} is not a number.",
                hint="Write: --margin 0.02, or --margin EVALUATOR.METRIC=0.05",
                code=ErrorCode.COMPARE_MARGIN,
            ) from None
        if equals:
            own[metric] = margin
        else:
            general = margin
    return general, own


def _pair(text: str, form: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not (left and equals and right):
        raise UsageError(f"{text!r} is not a pair.", hint=f"Write: {form}", code=ErrorCode.COMPARE_SIDES)
    return left, right


def _print(found: Comparison) -> None:
    from leadline.tasks.compare.verdicts import worst_slices

    several = len({metric.models for metric in found.metrics}) > 1
    facts = (
        ("Verdict", f"{found.verdict.upper()}: {clean(found.reason)}"),
        ("Baseline", f"{found.baseline.run}  {clean(found.baseline.name)}"),
        ("Candidate", f"{found.candidate.run}  {clean(found.candidate.name)}"),
        *((("Models", clean(found.metrics[0].models.label)),) if found.metrics and not several else ()),
        ("Level", f"{found.alpha:g} over {count(found.tested, 'metric')} that could fail (Holm)"),
        *((("Slices", clean(worst_slices(found.slices, several=several))),) if found.slices else ()),
        *(("Note", clean(note)) for note in found.notes),
        ("Report", str(found.report.absolute())),
        ("", found.report.absolute().as_uri()),
    )
    for label, text in facts:
        click.echo(f"{label:<9} {text}")
    click.echo("")
    columns = [column for column in COLUMNS if several or column != "models"]
    lines = [_line(metric) for metric in found.metrics]
    print_table(columns, [[line[column] for column in columns] for line in lines], right=RIGHT)
    for metric in found.metrics:
        if metric.churn and (metric.passed_to_failed or metric.failed_to_passed):
            click.echo(f"{metric.metric.key}: {metric.churn.in_words}.")
    for metric in {(metric.metric.key, _whose(metric)): metric for metric in found.metrics}.values():
        if metric.verdict in ATTENTION:
            who = f" ({clean(_whose(metric))})" if several and _whose(metric) else ""
            click.echo(f"\n{_word(metric.verdict).upper()}  {metric.metric.key}{who}: {clean(metric.reason)}")
            _print_changes(metric)


def _line(found: MetricComparison) -> dict[str, object]:
    share = found.metric.share
    return {
        "metric": found.metric.key,
        "models": found.models.label,
        "cases": _cases(found),
        "baseline": _amount(found.baseline, share),
        "candidate": _amount(found.candidate, share),
        "effect": _amount(found.effect, share, sign="+"),
        "95 % interval": "-"
        if found.ci_low is None
        else f"{_amount(found.ci_low, share, sign='+')} to {_amount(found.ci_high, share, sign='+')}",
        "margin": "-" if found.effect is None else _amount(found.margin, share),
        "p": "-" if found.p_adjusted is None else "<0.001" if found.p_adjusted < 0.001 else f"{found.p_adjusted:.3f}",
        "✓→✗": number(found.passed_to_failed),
        "✗→✓": number(found.failed_to_passed),
        "verdict": _word(found.verdict),
    }


def _whose(found: MetricComparison) -> str:
    """Return the models whose metric it is; what only one run measured is reported once for all of them."""
    return "" if found.verdict == "one_sided" else found.models.label


def _word(verdict: str) -> str:
    return "not compared" if verdict == "one_sided" else verdict.replace("_", " ")


def _cases(found: MetricComparison) -> str:
    if found.verdict == "one_sided":
        return "-"
    missing = found.coverage.unscored
    return f"{found.coverage.pairs:,}" + (f" of {found.coverage.pairs + missing:,}" if missing else "")


def _amount(value: float | None, share: bool, *, sign: str = "") -> str:
    if value is None:
        return "-"
    return f"{value * 100:{sign}.1f} %" if share else f"{value:{sign}.3f}"


def _print_changes(found: MetricComparison, most: int = 8) -> None:
    """Print the keys of cases that turned bad, for leadline show."""
    lost = [clean(row.where) for row in found.changed_rows if row.direction in ("passed_to_failed", "worse")]
    if lost:
        more = (found.passed_to_failed or len(lost)) - len(lost[:most])
        word = "now fail" if found.passed_to_failed is not None else "worse"
        click.echo(f"  {word}: {', '.join(lost[:most])}" + (f" and {more:,} more" if more > 0 else ""))
