"""``leadline service notify``: who is told of what goes wrong."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import click

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError
from leadline.flows.command.output import print_json, print_table
from leadline.flows.command.session import Session, say, session_options
from leadline.flows.prefect.report_links import ui_address
from leadline.flows.prefect.server import configured_api, lasting_api
from leadline.flows.shared.logs import log_to_stderr
from leadline.plugins.ops.notify.recipients import Kind, Notice, Recipient, find_recipients, send, service_of
from leadline.tasks.ground.files import locked, state_folder


@click.group()
@session_options
def notify() -> None:
    """Tell people by chat, mail or webhook what goes wrong.

    Recipients stand in leadline.toml as [[notify]], and their addresses in environment variables.
    """


@notify.command()
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@session_options
def test(names: tuple[str, ...], as_json: bool) -> None:
    """Send a message to all recipients, or to those named."""
    chosen = [one for one in _recipients() if not names or one.name in names]
    unknown = sorted(set(names) - {one.name for one in chosen})
    if unknown:
        raise UsageError(
            f"There is no [[notify]] of the name {unknown[0]!r} in leadline.toml.", code=ErrorCode.CONFIG_CONTENT
        )
    lines = ("This is a test: here you will read which run fails its gate, and why.",)
    rows = []
    for one in chosen:
        notice = Notice("test", Kind.TEST, f"Leadline can reach {one.name}", lines, ui_address())
        rows.append({"name": one.name, "service": service_of(one), "refused": send(one, notice)})
    if as_json:
        print_json(rows)
    else:
        table = [(row["name"], row["service"], row["refused"] or "sent") for row in rows]
        print_table(("name", "service", "what became of it"), table)
    failed = [row["name"] for row in rows if row["refused"]]
    if failed:
        raise LeadlineError(f"{', '.join(failed)}: not sent.", code=ErrorCode.NOTIFY_NOT_SENT)


@notify.command()
@click.option("--every", type=click.FloatRange(1, 3600), default=10, show_default=True, help="Seconds between looks.")
@click.option("--once", is_flag=True, help="Look once, send, and end.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Its memory.  [default: leadline/notify in the user's folder for state]",
)
@session_options
@click.pass_obj
def watch(session: Session, every: float, once: bool, folder: Path | None) -> None:
    """Watch the Prefect server and the store, and tell each thing once.

    What was told is remembered across restarts; what a service does not take is sent again for three days.
    """
    from leadline.plugins.ops.notify.watching import Watcher, prefect_ui  # Prefect takes more than a second

    recipients = _recipients()
    services = [f"{one.name} ({service_of(one)})" for one in recipients]
    log_to_stderr("leadline.notify")
    folder = folder or state_folder() / "notify"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = locked(folder / "lock", wait=False)
    try:
        lock.acquire()
    except TimeoutError:
        raise UsageError(f"Another process watches already, with {folder}.", code=ErrorCode.SERVER_RUNNING) from None
    with lock, ExitStack() as stack:
        # A configured server that does not answer now is waited for.
        api = configured_api() or stack.enter_context(lasting_api()).url
        watcher = Watcher(folder, recipients, session.open_store(), prefect_ui(api))
        if once:
            sent = watcher.look()
            say(f"{sent} told.")
            return
        say(f"Watching {api.removesuffix('/api')} for {', '.join(services)}. Ctrl-C ends it.")
        ended = threading.Event()
        before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            watcher.watch(every, ended)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _recipients() -> tuple[Recipient, ...]:
    found = find_recipients()
    if not found:
        raise UsageError(
            "leadline.toml names nobody to notify.",
            hint='Write: [[notify]] and name = "…", url_env = "…" below.',
            code=ErrorCode.CONFIG_CONTENT,
        )
    return found
