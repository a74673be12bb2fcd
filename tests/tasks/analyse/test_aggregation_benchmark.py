"""The benchmark of aggregation runs, in a size that takes a second, so that it does not rot."""

from __future__ import annotations

import pytest

from benchmarks import aggregation


def test_the_benchmark_of_aggregation_runs_and_finds_flips(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--cases", "200", "--models", "2", "--metrics", "5", "--repeats", "1"]
    monkeypatch.setattr("sys.argv", ["aggregation", *sizes])
    aggregation.main()
    told = capsys.readouterr().out
    assert "2,000 scores, 10 aggregates, 5 flips, 420 slices" in told
    assert "times the bare group-by" in told
