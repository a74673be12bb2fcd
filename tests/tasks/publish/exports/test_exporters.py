"""Output formats: one class adds one, by a decorator or an entry point of another package."""

from __future__ import annotations

import errno
import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from leadline.cli.main import run as leadline
from leadline.evaluators.ground import LeadlineError, UsageError
from leadline.tasks.db import open_run
from leadline.tasks.ground import plugins
from leadline.tasks.publish import run_results
from leadline.tasks.publish.exports import published_tables as frames
from leadline.tasks.publish.exports.exporter import EXPORTERS, Exporter, export_run, publish, register_exporter
from leadline.tasks.publish.run_results import RunResults
from leadline.tasks.store.store import Run, Store
from tests.tasks.publish.sample import make_sample


class Verdicts(Exporter):
    """The verdict of every metric and model, a line each, and how many there are in a second file."""

    name = "verdicts"
    files = ("verdicts.txt", "verdicts_count.txt")

    def write(self, results: RunResults, folder: Path) -> None:
        lines = [str(item.verdict) for item in results.facts.aggregates.values()]
        (folder / "verdicts.txt").write_text("\n".join(lines), encoding="utf-8")
        (folder / "verdicts_count.txt").write_text(str(len(lines)), encoding="utf-8")


@pytest.fixture
def sample(tmp_path: Path) -> tuple[Store, Run]:
    return make_sample(tmp_path / "store", cases=10)


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> type[Exporter]:
    """The format while a test runs."""
    EXPORTERS.all()
    monkeypatch.setattr(EXPORTERS, "_found", dict(EXPORTERS._found))
    return register_exporter(Verdicts)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            KeyError("model"),
            "[LL-RUN-07]: The exporter 'verdicts' (tests.tasks.publish.exports.test_exporters.",
        ),
        (OSError(errno.ENOSPC, "No space left on device", "/proc/x"), "[LL-RUN-05]: The disk is full: /proc/x"),
        (UsageError("It needs Excel."), "[LL-CONFIG-02]: It needs Excel."),
    ],
)
def test_a_format_that_fails_is_named_unless_the_fault_is_the_machines_or_told_on_purpose(
    sample: tuple[Store, Run],
    verdicts: type[Exporter],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    said: str,
) -> None:
    def write(self: Exporter, results: RunResults, folder: Path) -> None:
        raise error

    monkeypatch.setattr(Verdicts, "write", write)
    store, run = sample
    leadline(
        ["store", "export", run.id, "--store", str(store.root), "--as", "verdicts", "-o", str(tmp_path / "mine.txt")]
    )
    assert capsys.readouterr().err.startswith(f"Error {said}")
    if isinstance(error, KeyError):
        with open_run(store, run) as connection, pytest.raises(LeadlineError, match="The exporter 'verdicts'"):
            publish(connection, run, {"config": {"results": "verdicts"}})


def test_one_class_adds_a_format_to_the_command(
    sample: tuple[Store, Run], verdicts: type[Exporter], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, run = sample
    command = ["store", "export", run.id, "--store", str(store.root), "--as", "verdicts"]
    assert leadline([*command, "-o", str(tmp_path / "mine.txt")]) == 0
    lines = (tmp_path / "mine.txt").read_text().splitlines()
    assert {"pass", "fail"} <= set(lines)
    assert (tmp_path / "mine_count.txt").read_text() == str(len(lines))
    assert leadline([*command, "-o", str(tmp_path)]) == 0
    assert (tmp_path / "verdicts.txt").read_text().splitlines() == lines
    capsys.readouterr()
    assert leadline([*command, "-o", "-"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_a_format_can_be_chosen_by_the_name_of_the_file(
    sample: tuple[Store, Run], verdicts: type[Exporter], tmp_path: Path
) -> None:
    store, run = sample
    assert leadline(["store", "export", run.id, "--store", str(store.root), "-o", str(tmp_path / "mine.txt")]) == 0
    assert (tmp_path / "mine.txt").exists()


def test_a_published_format_stands_among_the_results(
    sample: tuple[Store, Run], verdicts: type[Exporter], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = sample
    monkeypatch.setattr(verdicts, "published", True)
    with open_run(store, run) as connection:
        folder = publish(connection, run, run.read()).folder
    assert (folder / "verdicts.txt").exists()
    assert json.loads((folder / "report.json").read_text("utf-8"))["files"][-2:] == list(Verdicts.files)
    assert "verdicts.txt" in (folder / "report.html").read_text("utf-8")


def test_an_unknown_format_is_refused_with_the_nearest_ones(sample: tuple[Store, Run], tmp_path: Path) -> None:
    store, run = sample
    with pytest.raises(UsageError, match="Did you mean markdown"):
        export_run(store, run, "markdwon", tmp_path / "x")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def publish_sample(store: Store, run: Run) -> dict[str, bytes]:
    with open_run(store, run) as connection:
        return contents(publish(connection, run, run.read()).folder)


SHORT = {
    "report.html", "report.json", "report.md", "scores.parquet", "aggregates.csv", "slices.csv", "problems.csv",
    "junit.xml",
}  # fmt: skip


def test_files_of_all_rows_are_written_for_small_runs_and_for_others_when_asked(
    sample: tuple[Store, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = sample
    row_scores = 10 * 3 * 6
    monkeypatch.setattr(run_results, "SMALL_RUN", row_scores)
    small = publish_sample(store, run)
    assert {"scores.csv", "flips.csv"} | SHORT == set(small)
    monkeypatch.setattr(run_results, "SMALL_RUN", row_scores - 1)
    large = publish_sample(store, run)
    assert set(large) == SHORT
    assert set(json.loads(large["report.json"])["files"]) == SHORT - {"report.json"}
    assert f"leadline store export {run.id} --as sonar" in large["report.html"].decode()


def test_what_was_left_out_is_exported_later_as_a_small_run_has_it_at_once(
    sample: tuple[Store, Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store, run = sample
    small = publish_sample(store, run)
    monkeypatch.setattr(run_results, "SMALL_RUN", 0)
    publish_sample(store, run)
    run.update({"status": "completed"})
    command = ["store", "export", run.id, "--store", str(store.root)]
    for table in ("scores", "flips"):
        assert leadline([*command, "--table", table, "-o", str(tmp_path / "mine.csv")]) == 0
        assert (tmp_path / "mine.csv").read_bytes() == small[f"{table}.csv"]
    assert set(contents(run.results)) == SHORT, "an export elsewhere leaves the results as they are"
    assert leadline([*command, "--as", "csv"]) == 0
    added = contents(run.results)
    assert {name: added[name] for name in set(small) - SHORT} == {
        name: small[name] for name in ("scores.csv", "flips.csv")
    }
    assert not list(run.path.glob(".results*"))
    assert leadline([*command, "--again"]) == 0
    assert set(contents(run.results)) == SHORT, "made anew as the run asked for them"


def test_another_package_registers_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    found: plugins.Plugins[Exporter] = plugins.Plugins("exporter", "leadline.tasks.ledger", "acme.exporters")
    entry = EntryPoint("verdicts", f"{__name__}:Verdicts", "acme.exporters")
    monkeypatch.setattr(EntryPoint, "load", lambda self: found.register(Verdicts))
    monkeypatch.setattr(plugins, "extensions", lambda group: [entry] if group == found.group else [])
    assert found.all() == [Verdicts]
    with pytest.raises(UsageError, match="Two exporters are called 'verdicts'"):
        found.register(type("Others", (Verdicts,), {}))


def test_the_tables_are_data_frames(sample: tuple[Store, Run]) -> None:
    store, run = sample
    scores, aggregates, problems = (table(store, run) for table in (frames.scores, frames.aggregates, frames.problems))
    means = scores[(scores.metric == "bleu_4") & (scores.status == "scored")].groupby("model").value.mean()
    given = aggregates[aggregates.metric == "bleu_4"].set_index("model").value
    assert means.to_dict() == pytest.approx(given.to_dict())
    assert len(scores) == 10 * 3 * 9
    assert scores.value[scores.status != "scored"].isna().all()
    assert set(problems.severity) <= {"high", "medium", "low"}
    assert problems.instrument.dtype == bool
