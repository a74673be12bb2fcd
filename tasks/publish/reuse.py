"""Files of rows that an earlier run wrote from the same rows and scores are copied instead of written anew.

Of a results tree the files with a line per row are nearly all bytes, and a rerun that computes nothing would write the
same bytes again. A run therefore remembers, in ``runs/<run>/rows_files.json``, what its files of rows were made of: a
digest of the dataset, of the scores and evidence that stand in them, of everything else that their writer is given
(thresholds, parameters, models), and of the writer's own code. A later run that would write from the same copies them.
The single cases of the page are such a file too; it lies beside the results, since the page repeats it.

A copy is taken only if it has the digest that the file had when it was written; one that was cut, damaged or edited
since is written anew. Files are copied and not linked, so that editing one run's results changes no other's.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.core import jsonio
from leadline.tasks.db.statements import sql
from leadline.tasks.store.files import digest, replacing, write_json
from leadline.tasks.store.store import Run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

INDEX: Final = "rows_files.json"
MOST_RUNS: Final = 20
"""The number of latest runs that are searched for copies."""
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RowsFiles:
    """The files of rows of one run: those that were there, and those that it makes.

    Attributes:
        run: The run that is published.
        common: Digest of what all of its files depend on.
        inputs: By evaluator id, a digest of its scores and evidence.
        earlier: By key, a folder and its files' SHA-256 by name.
        made: By key, the same of this run, the folder relative to the run's.
    """

    run: Run
    common: str
    inputs: Mapping[int, str]
    earlier: Mapping[str, tuple[Path, Mapping[str, str]]]
    made: dict[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)

    def put(self, place: tuple[Path, str], names: Sequence[str], parts: Any, make: Callable[[], None]) -> None:
        """Copy files of an earlier run, or have them made.

        Args:
            place: The folder of results that is being filled, and the folder in it that the names start from.
            names: The files.
            parts: All that they are made of beside what :attr:`common` covers.
            make: Writes all of them.
        """
        results, folder = place
        key = self._key(names, parts)
        digests = self._copied(key, results / folder, names)
        if not digests:
            make()
            digests = {name: _sha256(results / folder / name) for name in names}
        self.made[key] = (f"{self.run.results.name}/{folder}", digests)

    def remember(self, name: str, parts: Any, make: Callable[[], bytes]) -> bytes:
        """Return what a file of the run's folder contains, read from an earlier run or made.

        Args:
            name: The file.
            parts: All that it is made of beside what :attr:`common` covers.
            make: Makes its content.
        """
        key = self._key([name], parts)
        source, digests = self.earlier.get(key, (self.run.path, {}))
        content = _read(source / name, digests.get(name))
        if content is None:
            content = make()
        with replacing(self.run.path / name) as temporary:
            temporary.write_bytes(content)
        self.made[key] = (".", {name: hashlib.sha256(content).hexdigest()})
        return content

    def _key(self, names: Sequence[str], parts: Any) -> str:
        return digest([self.common, list(names), jsonio.plain(parts)])

    def save(self) -> None:
        """Remember what the files of this run were made of, once its results are in their place."""
        made = {key: {"folder": folder, "files": dict(digests)} for key, (folder, digests) in self.made.items()}
        write_json(self.run.path / INDEX, made)

    def _copied(self, key: str, folder: Path, names: Sequence[str]) -> Mapping[str, str]:
        """Return the digests of the files that an earlier run has, after copying them: of all, or of none."""
        source, digests = self.earlier.get(key, (folder, {}))
        if set(digests) != set(names):
            return {}
        with ThreadPoolExecutor(min(len(names), os.cpu_count() or 1)) as pool:
            intact = all(pool.map(lambda name: _copy(source / name, folder / name, digests[name]), names))
        return digests if intact else {}


def rows_files(connection: DuckDBPyConnection, run: Run, dataset: str | None) -> RowsFiles:
    """Find what earlier runs wrote, and what this one's files are made of.

    Args:
        connection: The run's database.
        run: The run.
        dataset: The digest of its dataset; without one, no other run's files are taken.
    """
    import duckdb

    inputs = dict(connection.execute(sql("publish/eval_inputs")).fetchall())
    common = digest({"dataset": dataset or ["of", run.id], "writer": _writer(), "duckdb": duckdb.__version__})
    return RowsFiles(run, common, inputs, dict(_earlier(run)))


@cache
def _writer() -> str:
    """Return a digest of the code that writes results: every module of this room, and its statements."""
    code = hashlib.sha256(sql("publish").encode())
    for path in (Path(jsonio.__file__), *sorted(Path(__file__).parent.rglob("*.py"))):
        code.update(path.read_bytes())
    return code.hexdigest()


def _earlier(run: Run) -> Iterator[tuple[str, tuple[Path, Mapping[str, str]]]]:
    """Yield what the latest runs remember, the latest last; what cannot be read is not there."""
    indexes = sorted(run.path.parent.glob(f"*/{INDEX}"), reverse=True)
    for path in reversed(list(islice(indexes, MOST_RUNS))):
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))
            yield from [(key, (path.parent / entry["folder"], entry["files"])) for key, entry in entries.items()]
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue


def _read(path: Path, expected: str | None) -> bytes | None:
    """Return the content of a file if it has the expected digest."""
    try:
        content = path.read_bytes() if expected else None
    except OSError:
        return None
    return content if content is not None and hashlib.sha256(content).hexdigest() == expected else None


def _copy(source: Path, target: Path, expected: str) -> bool:
    """Copy a file and return whether it has the expected digest."""
    found = hashlib.sha256()
    try:
        with source.open("rb") as file, target.open("wb") as copy:
            while block := file.read(_BLOCK):
                found.update(block)
                copy.write(block)
    except OSError:  # if the target cannot be written, writing the file anew raises the error
        return False
    return found.hexdigest() == expected


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
