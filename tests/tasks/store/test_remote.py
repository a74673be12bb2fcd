"""A store in a bucket: what one host finished, every other one has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from pyarrow import parquet

from leadline.evaluators.ground import StoreError
from leadline.evaluators.settings import Settings
from leadline.tasks import pipeline
from leadline.tasks.ground.files import write_json
from leadline.tasks.judges.drift.epochs import judge_files, keep
from leadline.tasks.judges.labels.certificates import Certificate, keep_certificate, kept_certificates
from leadline.tasks.judges.labels.known_labels import known_labels
from leadline.tasks.judges.labels.label_sets import LabelSample, LabelSet, SampledRow
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.load.label import Label
from leadline.tasks.plan.jobs import Chunk
from leadline.tasks.plan.selection import Choice
from leadline.tasks.plan.trial_rows import ALL_ROWS
from leadline.tasks.score.chunk import score_chunk
from leadline.tasks.store.object_storage import Bucket
from leadline.tasks.store.store import Run, Store
from leadline.tasks.store.vectors import ParquetVectors
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.judges.judged_run import EVALUATORS, evaluate, judge_at, register, reply, write_rows
from tests.support.processes.waiting import kill_once
from tests.support.stores.object_server import serving_objects
from tests.support.stores.s3 import S3, Host, environment, use

pytestmark = pytest.mark.e2e


def planned(store: Store, rows: Path, url: str, *, trials: int = 1, trial_rows: str = ALL_ROWS) -> pipeline.Planned:
    register()
    loaded = load_dataset(store, rows)
    choice = Choice(tuple(kind() for kind in EVALUATORS), {})
    settings = Settings(judges=(judge_at(url),))
    return pipeline.plan_run(
        store, loaded, choice, settings, model_keys=(), processes=1, config={}, trials=trials, trial_rows=trial_rows
    )


def test_a_run_that_cannot_be_planned_is_failed_on_all_hosts(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise StoreError("The network is down.")

    store = host("one")
    monkeypatch.setattr(Store, "share_plan", fails)
    with pytest.raises(StoreError, match="network is down"):
        planned(store, write_rows(tmp_path / "rows.jsonl", 2), "http://127.0.0.1:9/v1")
    (run,) = store.runs()
    assert not run.own
    (seen,) = host("two").runs()
    assert seen.read()["status"] == "failed"


def test_a_run_equals_that_of_a_local_store_and_another_host_computes_nothing(
    host: Host, s3: S3, tmp_path: Path
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 20)
    with serving(JudgeEndpoint(reply)) as endpoint:
        local = evaluate(Store.open(tmp_path / "local"), rows, [judge_at(endpoint.url)])
        first = evaluate(host("one"), rows, [judge_at(endpoint.url)])
        asked = len(endpoint.log)
        other = evaluate(host("two"), rows, [judge_at(endpoint.url)])
        assert len(endpoint.log) == asked
    assert first["to_compute"] == local["to_compute"] == 40
    assert other["to_compute"] == 0
    assert first["scores"] == other["scores"] == local["scores"]
    assert first["evidence"] == other["evidence"]
    names = s3.names()
    assert not any("/." in name or name.endswith((".tmp", ".sqlite")) for name in names)
    assert sum(name.startswith("scores/") for name in names) == 2 * 2, "one segment and one config.json each"


def test_two_hosts_score_the_chunks_of_one_run(host: Host, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 120)
    with serving(JudgeEndpoint(reply)) as endpoint:
        plan = planned(host("parent"), rows, endpoint.url)
        assert len(plan.chunks) == 3
        for number, chunk in enumerate(plan.chunks):
            store = host(f"worker{number % 2}")
            travelled = Chunk(**json.loads(json.dumps({name: getattr(chunk, name) for name in Chunk.__slots__})))
            assert score_chunk(travelled).scored == chunk.scores
            assert not store.run(plan.run).database.exists()
        store = host("parent")
        run = store.run(plan.run)
        assert pipeline.gather_scores(store, run) == 240
        assert pipeline.count_scores(store, run)["scored"] == 240
        assert planned(host("later"), rows, endpoint.url).chunks == ()


def test_a_host_that_has_a_runs_plan_gets_its_later_part(host: Host, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 40)
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    for number in range(20, 40):
        source = {"type": "perturbation_source", "target": f"c{number - 20}", "perturbation": "typo"}
        lines[number]["relationships"] = [source]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with serving(JudgeEndpoint(reply)) as endpoint:
        store = host("parent")
        plan = planned(store, rows, endpoint.url, trials=2, trial_rows="auto")
        host("worker")
        for chunk in plan.chunks:
            score_chunk(chunk)
        store = host("parent")
        again = pipeline.plan_further_trials(store, store.run(plan.run), processes=1)
        assert again.to_compute > 0
        worker = host("worker")
        assert sum(score_chunk(chunk).scored for chunk in again.chunks) == again.to_compute
        assert not worker.run(plan.run).database.exists()
        store = host("parent")
        assert pipeline.gather_scores(store, store.run(plan.run)) == 2 * 40
        other = planned(host("later"), rows, endpoint.url, trials=2, trial_rows="auto")
        later = host("later")
        repeated = pipeline.plan_further_trials(later, later.run(other.run), processes=1)
        assert (repeated.chunks, repeated.reused) == ((), again.to_compute)


def test_what_a_retry_could_score_is_unscored_nowhere(host: Host, s3: S3, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 10)
    with serving(JudgeEndpoint(lambda question: "neither of the words")) as endpoint:
        plan = planned(host("parent"), rows, endpoint.url)
        (chunk,) = plan.chunks
        host("worker")
        assert score_chunk(chunk).unscored == 20
        assert any("/unscored/" in name for name in s3.names())
        parent = host("parent")
        pipeline.gather_scores(parent, parent.run(plan.run))
        assert pipeline.count_scores(parent, parent.run(plan.run))["unscored"] == 20
        endpoint.reply = reply
        host("another worker")
        score_chunk(chunk)
    assert not any("/unscored/" in name for name in s3.names())
    parent = host("parent")
    pipeline.gather_scores(parent, parent.run(plan.run))
    assert pipeline.count_scores(parent, parent.run(plan.run))["scored"] == 20


def test_kill_9_loses_nothing_that_was_finished(s3: S3, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", 120)
    variables = os.environ | environment(s3.endpoint, tmp_path / "killed")
    with serving(JudgeEndpoint(reply, latency=0.1)) as endpoint:
        command = [sys.executable, "-m", "tests.support.judges.judged_run", s3.url, str(rows), endpoint.url]
        process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, start_new_session=True)
        kill_once(lambda: any(name.endswith(".parquet") for name in s3.names("scores/")), process)
        endpoint.latency = 0.0
        finished = [name for name in s3.names("scores/") if name.endswith(".parquet")]
        variables |= environment(s3.endpoint, tmp_path / "elsewhere")
        done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True, timeout=100)
        result = json.loads(done.stdout)
        whole = evaluate(Store.open(tmp_path / "local"), rows, [judge_at(endpoint.url)])
    assert result["scores"] == whole["scores"]
    kept = sum(
        parquet.read_metadata(path).num_rows
        for path in (tmp_path / "killed").rglob("*.parquet")
        if any(name.endswith(f"/{path.parent.name}/{path.name}") for name in finished)
    )
    assert 0 < kept < 240
    assert result["to_compute"] == 240 - kept
    assert set(finished) <= set(s3.names("scores/"))


def test_what_was_not_uploaded_before_a_kill_is_uploaded_by_the_next_look(host: Host, s3: S3) -> None:
    store = host("one")
    folder = store.scores("bleu", "0" * 32)
    write_json(folder / "orphan.json", 1)
    (folder / ".half.tmp").write_text("never finished")
    store.sync([folder])
    assert s3.names("scores/") == [f"scores/bleu/{'0' * 32}/orphan.json"]
    other = host("two")
    other.sync([other.scores("bleu", "0" * 32)])
    assert (other.scores("bleu", "0" * 32) / "orphan.json").read_text() == "1\n"


def test_embeddings_are_shared(host: Host) -> None:
    text, vector = b"0123456789abcdef", np.ones((1, 3), dtype=np.float32)
    ParquetVectors(host("one")).put("model", [text], vector)
    assert ParquetVectors(host("two")).get("model", [text])[text].tolist() == [1, 1, 1]


def finished_run(store: Store, answers: str) -> Run:
    run = store.new_run()
    run.update({"status": "running"})
    run.database.write_text(f"tables of {answers}")
    (run.results / "evaluator").mkdir(parents=True)
    (run.results / "report.html").write_text(f"<p>{answers}")
    (run.results / "evaluator" / f"{answers}.json").write_text("{}")
    store.share_results(run)
    run.update({"status": "completed"})
    return run


def test_a_finished_run_is_read_on_another_host_as_it_is_now(host: Host, s3: S3) -> None:
    store = host("one")
    run = finished_run(store, "first")
    other = host("two")
    (found,) = other.runs()
    assert found.read()["status"] == "completed"
    other.fetch_database(found)
    other.fetch_results(found)
    assert found.database.read_text() == "tables of first"
    inode = found.database.stat().st_ino
    other.fetch_database(found)
    assert found.database.stat().st_ino == inode, "what did not change is not downloaded again"

    run.database.write_text("tables of othe2")  # as long as before
    (run.results / "evaluator" / "first.json").rename(run.results / "evaluator" / "second.json")
    store.share_results(run)
    run.update({"status": "failed"})
    (found,) = other.runs()
    assert found.read()["status"] == "failed"
    other.fetch_database(found)
    other.fetch_results(found)
    assert found.database.read_text() == "tables of othe2"
    assert sorted(path.name for path in found.results.rglob("*.*")) == ["report.html", "second.json"]
    assert f"{run.results.relative_to(store.root)}/evaluator/first.json" not in s3.names()


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_google_and_azure_hold_a_store_too(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_objects(scheme) as server:
        use(monkeypatch, server.environment | {"LEADLINE_CACHE": str(tmp_path / "one")})
        run = finished_run(Store.open(server.url), "first")
        assert run.report == f"{Bucket.at(server.url).page('runs')}/{run.id}/results/report.html"
        assert server.objects[f"a/store/runs/{run.id}/results/report.html"].kind == "text/html; charset=utf-8"
        monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "two"))
        other = Store.open(server.url)
        (found,) = other.runs()
        other.fetch_database(found)
        other.fetch_results(found)
    assert (found.path != run.path, found.read()["status"]) == (True, "completed")
    assert found.database.read_text() == "tables of first"
    assert (found.results / "report.html").read_text() == "<p>first"


def test_a_run_is_not_overwritten_where_it_was_made(host: Host) -> None:
    store = host("one")
    run = store.new_run()
    run.update({"status": "running"})
    run.database.write_text("not yet pushed")
    write_json(run.path / "run.json", {"id": run.id, "status": "newer"})
    (found,) = store.runs()
    store.fetch_database(found)
    assert found.read()["status"] == "newer"
    assert found.database.read_text() == "not yet pushed"


def test_a_run_that_has_ended_can_be_changed_by_any_host(host: Host) -> None:
    store = host("one")
    run = finished_run(store, "first")
    inode = run.database.stat().st_ino
    store.fetch_database(run)
    assert run.database.stat().st_ino == inode, "where it was made it is not downloaded"
    other = host("two")
    other.runs()[0].update({"tags": {"a": "1"}})
    run.update({"note": "b"})
    record = host("three").runs()[0].read()
    assert (record["tags"], record["note"], record["status"]) == ({"a": "1"}, "b", "completed")
    assert store.runs()[0].read() == record


def test_the_report_can_be_opened_from_the_bucket(host: Host, s3: S3) -> None:
    run = finished_run(host("one"), "first")
    name = f"a/store/runs/{run.id}/results/report.html"
    assert run.report == f"{s3.endpoint}/{s3.bucket}/{name}"
    head = s3.client().head_object(Bucket=s3.bucket, Key=name)
    assert head["ContentType"] == "text/html; charset=utf-8"
    for file, kind in (("run.duckdb", "application/octet-stream"), ("run.json", "application/json")):
        key = f"a/store/runs/{run.id}/{file}"
        assert s3.client().head_object(Bucket=s3.bucket, Key=key)["ContentType"] == kind


_KILLED: Final = """
import os, signal
from leadline.tasks.store.remote import Remote
from leadline.tasks.store.store import Store
from tests.tasks.store import test_remote

Remote.push = lambda remote, paths: os.kill(os.getpid(), signal.SIGKILL) if list(paths) else None
test_remote.keep_{what}(Store.open())
"""
"""A process that ends after a file is written here, and before it is in the bucket."""


def keep_check(store: Store) -> None:
    keep(store, "judge", "checks", "0000-2026-01-01", {"state": "steady"})


def keep_labels(store: Store) -> None:
    LabelSet(store).add([Label("0" * 32, "toy.value", 1.0, "ann", "2026-01-01")])


def keep_sample(store: Store) -> None:
    rows = (SampledRow("0" * 32, "case", "bot", "", 0.5),)
    LabelSet(store).keep_sample(LabelSample("sample", "run", "toy.value", "uniform", 1, "config", 2, rows))


def keep_earned(store: Store) -> None:
    told = ("toy.value", "config", None, "valid", "run", "2026-01-01", False, ("labels",), "digest", 60, 1, "", "")
    keep_certificate(LabelSet(store), Certificate(*told))


@pytest.mark.parametrize(
    ("what", "again"),
    [
        ("check", keep_check),
        ("check", lambda store: list(judge_files(store, "judge", "checks"))),
        ("labels", keep_labels),
        ("labels", known_labels),
        ("sample", keep_sample),
        ("sample", known_labels),
        ("earned", keep_earned),
        ("earned", lambda store: kept_certificates(LabelSet(store), "toy.value")),
    ],
)
def test_what_a_killed_process_did_not_push_the_next_one_pushes(
    host: Host, s3: S3, what: str, again: Callable[[Store], object]
) -> None:
    store = host("one")
    command = [sys.executable, "-c", _KILLED.format(what=what)]
    place = {**os.environ, "LEADLINE_STORE": s3.url, "PYTHONPATH": str(Path.cwd())}
    assert subprocess.run(command, env=place, check=False, timeout=120).returncode == -signal.SIGKILL
    kept = [path for folder in ("judges", "labels") for path in (store.root / folder).rglob("*.*") if path.is_file()]
    assert len(kept) == 1
    name = kept[0].relative_to(store.root).as_posix()
    assert name not in s3.names()
    again(store)
    assert name in s3.names()
