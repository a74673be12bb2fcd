"""The command line as a whole: help, versions, exit codes, and what goes to which stream."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import duckdb
import pytest

from leadline.cli.command_tree import CommandTree
from leadline.cli.main import run
from leadline.evaluators.ground import DatasetError, Fault, StoreError, UsageError
from leadline.flows.command import session
from tests.support.docs.commands import all_commands

HEAVY = {"prefect", "duckdb", "pandas", "pyarrow", "torch", "transformers", "nltk", "numpy", "pydantic", "rich"}
FROM_MODELS = set(
    "ci,collect,compare,evaluate,init,data generate,data perturb,data rgb,evaluators check,evaluators list,"
    "evaluators models,evaluators show,evaluators suites,evaluators trust,labels sample,rescore,service check-version,"
    "service deploy,service emit,service events,service notify,service versions,service worker".split(",")
)
"""Commands whose modules import Pydantic: their options are those of a form, or they are about evaluators."""


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))


def raising(error: BaseException) -> click.Command:
    @click.command()
    def boom() -> None:
        raise error

    return boom


def run_raising(monkeypatch: pytest.MonkeyPatch, error: BaseException, *options: str) -> int:
    monkeypatch.setattr(CommandTree, "get_command", lambda *_: raising(error))
    return run([*options, "runs"])


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["--help"], set()),
        (["--help", "--all"], set()),
        (["store", "--help"], set()),
        (["evaluate", "--help"], {"pydantic"}),
        (["rescore", "--help"], {"pydantic"}),
        (["service", "check-version", "--help"], {"pydantic"}),
        (["store", "sql", "--help"], set()),
        (["service", "server", "start", "-h"], set()),
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str], needed: set[str]) -> None:
    script = (
        "import sys\n"
        "from leadline.cli.main import run\n"
        f"code = run({arguments!r})\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Usage: leadline" in done.stdout
    assert set(done.stderr.split()) & HEAVY == needed


def imported_by(script: str, folder: Path) -> set[str]:
    """Run a script that uses the command line in a folder, and return which heavy packages it imported."""
    told = "\nprint(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nfrom leadline.cli.main import run\n{script}{told}"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stderr.splitlines()[-1].split()) & HEAVY


def test_the_help_of_commands_without_forms_imports_nothing_heavy(tmp_path: Path) -> None:
    """One process shows them all, those apart whose options or sub-commands are made of Pydantic's models."""
    light = [list(path) for path in all_commands() if not {" ".join(path[:n]) for n in (1, 2)} & FROM_MODELS]
    assert len(light) > 25
    script = f"for path in {light!r}:\n    assert run([*path, '--help']) == 0"
    assert imported_by(script, tmp_path) == set()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["store", "runs"], 0),
        (["store", "tag"], 0),
        (["labels", "list"], 0),
        (["show", "latest"], 2),
    ],
)
def test_what_tells_of_an_empty_store_imports_nothing_heavy(arguments: list[str], code: int, tmp_path: Path) -> None:
    assert imported_by(f"assert run({arguments!r}) == {code}", tmp_path) == set()


def test_no_command_shows_the_help_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "Usage: leadline" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["zzz"], "leadline --help"),
        (["show"], "Missing argument"),
        (["store", "runs", "--nonsense"], "No such option"),
        (["evaluators", "list", "--family", "x"], "Families:"),
        (["evaluators", "show", "bleau"], "bleu"),
        (["show", "nothing"], "leadline store runs"),
        (["store", "sql", "SELEC"], "syntax error"),
    ],
)
def test_wrong_usage_is_said_in_a_line_on_standard_error(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert said in streams.err
    assert "Traceback" not in streams.err


def test_the_version_is_that_of_leadline_and_of_its_main_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    versions = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:])
    assert versions["leadline"] == version("leadline")
    assert versions["python"].startswith("3.")
    assert versions["prefect"] == version("prefect")


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("No.", hint="Yes."), 2), (StoreError("Locked."), 3), (KeyboardInterrupt(), 130)]
)
def test_errors_on_purpose_end_in_their_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    assert run_raising(monkeypatch, error) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    assert len(streams.err.splitlines()) == 1


def test_a_refused_dataset_lists_its_faults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [Fault("a.json", 3, "question", "missing"), Fault("a.json", None, "", "not JSON")]
    assert run_raising(monkeypatch, DatasetError(faults)) == 2
    error = capsys.readouterr().err
    assert "a.json, row 3, question: missing" in error
    assert "Traceback" not in error


def test_an_error_of_its_own_is_one_line_that_names_a_log_with_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run_raising(monkeypatch, ZeroDivisionError("odd\nthing")) == 3
    error = capsys.readouterr().err
    assert error.startswith("Error [LL-RUN-04]: leadline hit an error of its own: ZeroDivisionError: odd thing, see ")
    assert len(error.splitlines()) == 1
    log = Path(error.split("see ")[1].strip())
    assert tmp_path in log.parents
    assert "Traceback" in log.read_text()


def caused(by: Exception) -> Exception:
    error = RuntimeError("a step failed")
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/proc/x"), "The disk is full: /proc/x, with 0 MiB left."),
        (OSError(errno.EROFS, "Read-only file system", "/x"), "The file system is read-only: /x."),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "Permission is denied: /x."),
        (OSError(errno.EMFILE, "Too many open files"), "This process may open no more files, which `ulimit -n`"),
        (OSError(errno.ENOSPC, "No space left on device"), "The disk is full: /"),
        (duckdb.IOException("Cannot write: No space left on device"), "The disk is full: Cannot write: No space left"),
        (
            duckdb.IOException(f'{"a" * 400} Could not write file "/proc/x": No space left on device","errno":"28"'),
            "The disk is full: /proc/x, with 0 MiB left."
        ),
        (caused(OSError(errno.EIO, "Input/output error", "/x")), "The disk fails to read or write: /x."),
    ]
)  # fmt: skip
def test_what_the_machine_refuses_is_said_as_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    assert run_raising(monkeypatch, error) == 3
    line = capsys.readouterr().err
    assert line.startswith(f"Error [LL-RUN-05]: {said}")
    assert line.endswith("goes on from there.\n")
    assert len(line.splitlines()) == 1


def test_a_disk_that_is_full_of_files_is_said_to_be_out_of_inodes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    block, blocks, free, inodes, left = 4096, 1 << 20, 20_480, 65_536, 12
    monkeypatch.setattr(
        "os.statvfs", lambda _: os.statvfs_result((block, block, blocks, free, free, inodes, left, left, 0, 255))
    )
    assert run_raising(monkeypatch, OSError(errno.ENOSPC, "No space left on device", "/proc/x")) == 3
    assert "/proc/x, with 80 MiB and 12 inodes, of which each file takes one, left." in capsys.readouterr().err


def test_where_no_log_can_be_written_the_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert run_raising(monkeypatch, ZeroDivisionError("odd")) == 3
    assert "no log could be written" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--debug", "store", "runs"], ["store", "runs", "--debug"]])
def test_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    from leadline.tasks.store.store import Store

    def fail(_: Store) -> list[Any]:
        raise StoreError("Broken.")

    monkeypatch.setattr(Store, "runs", fail)
    assert run(options) == 3
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.rstrip().endswith("Error [LL-STORE-01]: Broken.")


@pytest.mark.parametrize("path", list(all_commands()), ids=" ".join)
@pytest.mark.parametrize("error", [StoreError("The disk is full."), ZeroDivisionError("made\nup")])
def test_a_failure_of_any_command_is_one_line_and_a_traceback_with_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: tuple[str, ...], error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    command = all_commands()[path]
    monkeypatch.setattr(command, "callback", fail)
    monkeypatch.setattr(command, "params", [option for option in command.params if not option.expose_value])
    monkeypatch.setattr(command, "invoke_without_command", True, raising=False)
    monkeypatch.setattr(command, "no_args_is_help", False)
    assert run(path) == 3
    streams = capsys.readouterr()
    assert streams.out == ""
    assert len(streams.err.splitlines()) == 1
    assert str(error).split()[0] in streams.err
    assert run([*path, "--debug"]) == 3
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_wrong_usage_is_one_line_and_a_traceback_with_debug(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "d.json", "--fail-on", "x"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error")
    assert error.endswith("See: leadline evaluate --help\n")
    assert len(error.splitlines()) == 1
    assert run(["evaluate", "d.json", "--debug", "--fail-on", "x"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_has_enough_is_no_failed_gate(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "leadline.cli.main", "store", "sql", "FROM range(200_000)", "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "range\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_what_the_terminal_cannot_show_is_escaped_not_an_error(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "leadline.cli.main",
        "store",
        "sql",
        "SELECT '\u2713 \U0001f600' AS x",
        "--format",
        "csv",
    ]
    import os

    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert done.stdout == b"x\n\\u2713 \\U0001f600\n"


def test_a_warning_that_nobody_reads_any_more_does_not_end_what_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    def unread(message: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(session, "say", unread)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    session._Relay().handle(logging.makeLogRecord({"levelno": logging.WARNING, "msg": "The API does not answer."}))
