"""One host evaluates into a bucket; on another, every command that reads shows the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.cli.main import run
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.tasks.store.object_storage import Bucket
from tests.support.processes.terminal import Terminal
from tests.support.stores.s3 import S3, SECRET, environment

pytestmark = pytest.mark.e2e


def test_a_run_in_a_bucket_is_evaluated_here_and_read_there(
    s3: S3, api: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = tmp_path / "answers.jsonl"
    lines = [
        {
            "case": f"c{n}",
            "model": "m",
            "question": "?",
            "expected_answer": f"tide {n}",
            "actual_answer": f"tide {n % 7}",
        }
        for n in range(10)
    ]
    dataset.write_text("".join(json.dumps(line) + "\n" for line in lines))
    here = Terminal(tmp_path, api, **environment(s3.endpoint, tmp_path / "here"), LEADLINE_STORE=s3.url)
    outcome = here.json("evaluate", str(dataset), "-e", "bleu,rouge")
    assert outcome["computed"] == 20
    results = f"runs/{outcome['run']}/results"
    assert outcome["report_url"] == f"{s3.endpoint}/{s3.bucket}/a/store/{results}/report.html"
    assert outcome["report_uri"] == outcome["report_url"]

    monkeypatch.setenv("LEADLINE_STORE", s3.url)
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "there"))

    def said(*arguments: str) -> str:
        assert run(arguments) == 0
        return capsys.readouterr().out

    (listed,) = json.loads(said("store", "runs", "--json"))
    assert (listed["run"], listed["status"], listed["report"]) == (outcome["run"], "completed", outcome["report_url"])
    assert "bleu_1" in said("show", "latest")
    assert "tide 3" in said("show", "latest", "--case", "c3")
    assert said("store", "sql", "SELECT count(*) AS n FROM cases", "--format", "csv").split() == ["n", "10"]
    assert int(said("store", "sql", "SELECT count(*) FROM scores", "--format", "csv").split()[1]) == outcome["scored"]
    said("store", "export", "latest", "--format", "all", "-o", str(tmp_path / "out"))
    exported = [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*")]
    files = {name for name in exported if (tmp_path / "out" / name).is_file()}
    assert {f"{results}/{name}" for name in files} == set(s3.names(f"{results}/"))
    assert "20 row scores are reused, 0 are to compute" in said("evaluate", "--plan", str(dataset), "-e", "bleu,rouge")

    for name in s3.names():
        body = s3.client().get_object(Bucket=s3.bucket, Key=f"a/store/{name}")["Body"].read()
        assert SECRET.encode() not in body, name


def test_a_rerun_that_computes_nothing_uploads_the_record_the_report_and_the_tables(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = tmp_path / "answers.jsonl"
    lines = [{"question": f"{n}?", "expected_answer": f"tide {n}", "actual_answer": f"tide {n % 7}"} for n in range(40)]
    dataset.write_text("".join(json.dumps(line) + "\n" for line in lines))
    uploaded: list[str] = []
    put = Bucket._put

    def counted(self: Bucket, path: Path, name: str, mode: Any) -> None:
        uploaded.append(name)
        put(self, path, name, mode)

    monkeypatch.setattr(Bucket, "_put", counted)
    config = EvaluateConfig(dataset=str(dataset), evaluators=["bleu", "rouge", "exact_match"], store=s3.url)
    assert Evaluate()(config).computed == 120
    uploaded.clear()
    again = Evaluate()(config)
    assert (again.computed, again.reused) == (0, 120)
    assert len(set(uploaded)) <= 15
    assert len(uploaded) <= 17
    here = json.loads((again.folder / "run.json").read_text())
    body = s3.client().get_object(Bucket=s3.bucket, Key=f"a/store/runs/{again.run}/run.json")["Body"].read()
    assert json.loads(body) == here
    assert {"gate", "questions", "counts", "problems", "slices", "workers"} <= here.keys()

    uploaded.clear()
    Evaluate()(config.model_copy(update={"results": "sonar"}))
    assert any(f"/{name}_" in path for path in uploaded for name in ("bleu", "rouge")), "asked for, it is there"
