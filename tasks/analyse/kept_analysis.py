"""An analysis that an earlier run made of the same scores, taken over instead of made again.

Every run keeps the digest of all that its analysis reads in its record. A run with the same digest copies the tables of
the earlier one: means, slices and flips, and, where neither labels nor a baseline have a say in them, its findings. The
earlier run's database is all that is kept, so that this needs no room, and ends where clean-up drops its results.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb

from leadline.evaluators.ground import LeadlineError
from leadline.tasks.db import literal
from leadline.tasks.db.csv_files import is_guarded
from leadline.tasks.ground.files import digest
from leadline.tasks.plan.jobs import EvaluatorJob
from leadline.tasks.store.store import DROPPED, JUDGES, Run, Store

log = logging.getLogger("leadline.run")

ANALYSIS: Final = "analysis"
"""Field of a run's record: the ``digest``, the runs that its means (``of``) and findings (``findings_of``) are from,
whether these are ``plain``, as :func:`is_plain` has it, and the numbers of the cases in its ``page``."""

MEANS: Final = (
    "scores", "evidence", "turn_scores", "turn_evidence", "aggregates", "details", "trial_spread", "flips",
    "flip_rates", "slice_rows", "slices",
)  # fmt: skip
FINDINGS: Final = ("answer_shares", "problems", "insights")

_LOOKED_AT: Final = 50
"""Latest runs of a store among which one with the same digest is looked for."""
_READ: Final = (
    "schema", "dataset", "models", "settings", "splitter", "identities", "embedder", "left_out", "policy", "versions",
    "canary_dataset",
)  # fmt: skip
"""Fields of a run's record that its analysis depends on, beside what was asked for."""
_UNREAD: Final = ("dataset", "name", "output", "results", "store", "dispatch", "processes", "against")
"""What was asked for that no table of an analysis depends on; the dataset's contents are in its digest."""
_ROOMS: Final = ("evaluators", "tasks")


def analysis_digest(connection: duckdb.DuckDBPyConnection, store: Store, run: Run, jobs: Sequence[EvaluatorJob]) -> str:
    """Return the digest of all that a run's analysis and its tables as files read; ``""`` where it is always made anew.

    So it is where rows could not be scored or are judged again, in waves, or by enrolled judges, and where another
    package's evaluator may compute values: what these read is known only in the course of the run.

    Args:
        connection: The run's database, as planning left it.
        jobs: The run's evaluators; all that they compute is in the store.
    """
    record = run.read()
    asked: Mapping[str, Any] = record.get("config") or {}
    in_waves = asked.get("stop_when", "never") != "never"
    foreign = any(not type(job.build()).__module__.startswith("leadline.") for job in jobs)
    if in_waves or foreign or record.get(JUDGES) or any(job.samples for job in jobs):
        return ""
    if any(run.unscored.glob("*.parquet")):
        return ""
    planned = ("SELECT * EXCLUDE (reused, computed) FROM evaluators", "FROM metrics", "FROM rules")
    folders = [store.scores(job.evaluator, job.config) for job in jobs]
    return digest(
        {
            "record": {field: record.get(field) for field in _READ},
            "asked": {name: value for name, value in asked.items() if name not in _UNREAD},
            "planned": [repr(connection.execute(f"{query} ORDER BY ALL").fetchall()) for query in planned],
            "scores": _files(store.root, (path for folder in folders for path in folder.glob("*.parquet"))),
            "vectors": _files(store.root, (store.root / "vectors").glob("*/*.parquet")),
            "csv": is_guarded(),
            "code": [_code(room) for room in _ROOMS],
        }
    )


def _files(root: Path, paths: Iterable[Path]) -> list[list[str | int]]:
    """Return the names, sizes and times of files: those of a store are never changed, so that this tells them apart."""
    found = ((path.relative_to(root).as_posix(), path.stat()) for path in sorted(paths))
    return [[name, known.st_size, known.st_mtime_ns] for name, known in found]


@cache
def _code(room: str) -> list[list[str | int]]:
    """Return the same of what a room consists of: a version alone would not tell a developer's changes.

    A process looks once, when its code is imported all the same: a notebook or a worker makes many runs.
    """
    root = Path(__file__).parents[2] / room
    folders = (found for found in os.walk(root) if not found[0].endswith("__pycache__"))
    return _files(root, (Path(folder, name) for folder, _, names in folders for name in names))


@dataclass(frozen=True, slots=True)
class EarlierAnalysis:
    """A run whose analysis can be taken over, with its record as it was found."""

    run: Run
    record: Mapping[str, Any]


def earlier_analysis(store: Store, run: Run, digest_: str) -> EarlierAnalysis | None:
    """Return the latest completed run of a store that made, or took over, the analysis with a digest.

    Args:
        run: The run that looks for it.
        digest_: From :func:`analysis_digest`.
    """
    paths = sorted((store.root / "runs").glob("*/run.json"), reverse=True)[:_LOOKED_AT] if digest_ else []
    for path in paths:
        other = store.run(path.parent.name)
        try:
            record = other.read()
        except LeadlineError:  # whoever asks for that run is told that it is damaged
            continue
        ended = record.get("status") == "completed" and not record.get(DROPPED) and other.database.exists()
        if other.id != run.id and ended and known(record).get("digest") == digest_:
            return EarlierAnalysis(other, record)
    return None


def known(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run's record says of its analysis, empty where it says nothing."""
    return dict(record.get(ANALYSIS) or {})


def same_analysis(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the records of two runs say that their analyses are the same."""
    digests = {known(record).get("digest") for record in (one, other)}
    return len(digests) == 1 and all(digests)


def take_over(connection: duckdb.DuckDBPyConnection, earlier: Run, tables: Sequence[str]) -> bool:
    """Replace tables by those of an earlier run, all or none, and return whether that could be done.

    Args:
        connection: The run's database.
        earlier: From :func:`earlier_analysis`; a database that is damaged or in use is as none.
    """
    try:
        connection.execute(f"ATTACH {literal(earlier.database)} AS earlier (READ_ONLY)")
    except duckdb.Error as error:
        return _made_anew(earlier, error)
    connection.execute("BEGIN")
    try:
        for table in tables:
            connection.execute(f"DELETE FROM {table}; INSERT INTO {table} BY NAME FROM earlier.{table}")
        connection.execute("COMMIT")
    except duckdb.Error as error:
        connection.execute("ROLLBACK")
        return _made_anew(earlier, error)
    finally:
        connection.execute("DETACH earlier")
    return True


def _made_anew(earlier: Run, error: Exception) -> bool:
    log.info("The analysis of run %s cannot be taken over: %s", earlier.id, str(error).splitlines()[0])
    return False


def is_plain(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether neither people's labels nor rows that changed since a baseline have a say in a run's findings."""
    parts = ("corrections", "certificates", "question_labels", "row_changes")
    there = [f"EXISTS (FROM {table})" for table in parts]
    there.append("EXISTS (FROM model_changes WHERE verdict = 'fail')")
    ((found,),) = connection.execute(f"SELECT {' OR '.join(there)}").fetchall()
    return not found
