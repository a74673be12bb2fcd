"""``leadline service emit`` and ``leadline service events``: events with a checked answer, and what became of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError
from leadline.flows.command.options import read_settings
from leadline.flows.command.output import clean, print_json, print_table
from leadline.flows.command.session import Session, say, session_options
from leadline.flows.prefect.server import lasting_api

if TYPE_CHECKING:
    from leadline.flows.prefect.prefect_events import EventOutcome, Sent


@click.group()
@session_options
def emit() -> None:
    """Send an event to the Prefect server.

    The command fails unless the event has arrived.
    """


@emit.command("model-version")
@click.argument("model", metavar="MODEL")
@click.option("--version", "version", required=True, metavar="V", help="The new version.")
@click.option("--suite", metavar="FILE", help="File with the cases, as the worker sees it.")
@click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="Another field of the flow's form; repeatable."
)
@click.option("--payload", metavar="JSON|@FILE", help="All fields as a JSON object; the options above count more.")
@click.option("--again", is_flag=True, help="Send it, and evaluate, although that was done before.")
@click.option(
    "--wait", type=click.FloatRange(0), default=30, show_default=True, metavar="S", help="For what it starts."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
@click.pass_obj
def model_version(
    session: Session,
    model: str,
    version: str,
    suite: str | None,
    settings: tuple[str, ...],
    payload: str | None,
    again: bool,
    wait: float,
    as_json: bool,
) -> None:
    """Say that MODEL has a new version, which starts its evaluation.

    The payload is checked against the flow's parameters first. The same model version, suite and configuration is
    evaluated once, however often it is sent.
    """
    from leadline.plugins.webhooks.model_events import read_payload, send_model_version

    given = _payload(payload) | {"model": model, "version": version} | read_settings(settings)
    if suite is not None:
        given["suite"] = suite
    if session.store is not None:
        given["store"] = session.store
    if again:
        given["again"] = True
    config = read_payload(given)

    with lasting_api() as api:
        sent = send_model_version(config, again=again, wait=wait)
    _report(sent, api.url.removesuffix("/api"), wait, as_json)


def _report(sent: Sent, ui: str, wait: float, as_json: bool) -> None:
    outcome = sent.outcome
    if as_json:
        started = {"flow_run": outcome.flow_run, "failed": outcome.failed} if outcome else {}
        print_json({"event": str(sent.id), "new": sent.new, "occurred": sent.occurred} | started)
    else:
        click.echo(f"{'Sent' if sent.new else 'Sent already, at ' + sent.occurred}: event {sent.id}")
        if outcome and outcome.flow_run:
            click.echo(f"It started: {ui}/runs/flow-run/{outcome.flow_run}")
    if outcome and outcome.failed:
        raise LeadlineError(
            f"The event arrived but started no flow run: {clean(outcome.failed)}", code=ErrorCode.EVENT_NOTHING_STARTED
        )
    if wait and outcome is None:
        raise LeadlineError(
            f"The event arrived but started no flow run within {wait:g} s.",
            hint="See later: leadline service events",
            code=ErrorCode.EVENT_NOTHING_STARTED,
        )


def _payload(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--payload {text}: {error.strerror}.", code=ErrorCode.EVENT_PAYLOAD) from None
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--payload is not JSON: {error}.", code=ErrorCode.EVENT_PAYLOAD) from None
    if not isinstance(loaded, dict):
        raise UsageError("--payload must be a JSON object.", code=ErrorCode.EVENT_PAYLOAD)
    return loaded


@click.command()
@click.option("--failed", is_flag=True, help="Only what an automation could not do.")
@click.option(
    "--hours", type=click.FloatRange(0), default=24, show_default=True, metavar="N", help="How far to look back."
)
@click.option(
    "--limit", type=click.IntRange(1, 200), default=100, show_default=True, metavar="N", help="At most so many."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def events(failed: bool, hours: float, limit: int, as_json: bool) -> None:
    """List events and what they started.

    The list also shows where automations failed, and deliveries that this host's webhook has set aside.
    """
    from leadline.flows.prefect.prefect_events import Entry, EventOutcome, recent
    from leadline.plugins.webhooks.model_events import MODEL_VERSION_CREATED, delivery_folder, refusals

    with lasting_api():
        entries = recent(hours, failed_only=failed, limit=limit)
    aside = refusals(delivery_folder(), datetime.now(UTC) - timedelta(hours=hours))
    entries += [
        Entry(one.when, MODEL_VERSION_CREATED, one.about, EventOutcome(failed=f"not sent: {one.reason} ({one.path})"))
        for one in aside
    ]
    entries = sorted(entries, key=lambda entry: entry.occurred, reverse=True)[:limit]
    if as_json:
        print_json([asdict(entry) for entry in entries])
        return
    rows = [(entry.occurred, entry.event, entry.about, _words(entry.outcome)) for entry in entries]
    print_table(("when", "event", "about", "what became of it"), rows)
    if not entries:
        say(f"None in the last {hours:g} hours.")


def _words(outcome: EventOutcome | None) -> str:
    if outcome is None:
        return ""
    return f"failed: {outcome.failed}" if outcome.failed else f"flow run {outcome.flow_run}"
