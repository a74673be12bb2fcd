"""Whatever ids and times the samples of other tools have, nothing of them is scored again."""

from __future__ import annotations

import base64
import gzip
import random
import re
from pathlib import Path
from typing import Final

from leadline.api import evaluate
from leadline.evaluators.core.user_evaluators import metric
from leadline.evaluators.data import Row
from leadline.plugins.traces.read import conversations
from leadline.tasks.db import attach_dataset, connect
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
OTHERS: Final = (ROOT / "plugins/formats/tests/samples", ROOT / "tests/tasks/load/conversations")
CASES: Final = ("bfcl", "tau2", "deepeval_goldens")
"""Samples that are no traces, and those of them that have questions only."""

UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
ID: Final = re.compile(rf"\b(?:(?:call_|toolu_|adk-)[\w-]+|{UUID}|[0-9a-f]{{32}}|[0-9a-f]{{16}})\b")
BASE64_ID: Final = re.compile(r'(?<=_id": ")(?:[A-Za-z0-9+/]{11}=|[A-Za-z0-9+/]{22}==)(?=")')
DAY: Final = re.compile(r"\b202[5-6]-[01]\d-[0-3]\d(?=[T ]\d\d:)")
NANOSECONDS: Final = re.compile(r"\b1[78]\d{17}\b")
LATER: Final = 86_400 * 10**9


def redrawn(text: str, chance: random.Random) -> str:
    """Return a sample with other ids, and times of another day."""
    new: dict[str, str] = {}

    def drawn(found: re.Match[str]) -> str:
        old = found[0]
        if old.endswith("="):
            data = chance.randbytes(len(base64.b64decode(old)))
            return new.setdefault(old, base64.b64encode(data).decode())
        kept = re.match("(?:call_|toolu_|adk-)?", old)
        head = kept[0] if kept else ""
        hexed = "".join(chance.choice("0123456789abcdef") if c.isalnum() else c for c in old[len(head) :])
        return new.setdefault(old, head + (hexed if hexed != old[len(head) :] else hexed + "0"))

    text = DAY.sub("2031-02-03", BASE64_ID.sub(drawn, ID.sub(drawn, text)))
    return NANOSECONDS.sub(lambda found: str(int(found[0]) + LATER), text)


def write(sources: list[Path], folder: Path, *, anew: bool) -> int:
    """Write samples into a folder, each with a session of its own; return how many have other ids or times."""
    folder.mkdir()
    changed = 0
    for number, source in enumerate(sources):
        data = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
        text = data.decode().replace("lisbon", f"lisbon{number}")
        written = redrawn(text, random.Random(number)) if anew else text
        changed += written != text
        (folder / f"{number:02}_{source.name.removesuffix('.gz')}").write_text(written)
    return changed


@metric(inputs=("tool_calls",), unit="conversation")
def calls(row: Row) -> float:
    """Return how many tools are called in a conversation."""
    return float(len(row.tool_calls or ()))


def share_of_1000(row: Row) -> float:
    """Return how long an answer is, as a share of 1,000 characters."""
    return len(row.actual_answer or "") / 1000


def test_every_sample_of_traces_is_the_same_conversations_with_other_ids_and_times(tmp_path: Path) -> None:
    sources = sorted(path for path in HERE.rglob("*") if path.suffix in (".json", ".jsonl", ".gz"))
    bare = {"openinference_genai": 3, "minimal": 2}  # attributes alone, and ids that are words
    write(sources, tmp_path / "first", anew=False)
    assert write(sources, tmp_path / "again", anew=True) == len(sources) - sum(bare.values()) > 20
    for first in (tmp_path / "first").iterdir():
        assert list(conversations([first])) == list(conversations([tmp_path / "again" / first.name])), first.name


def test_no_recorded_conversation_is_scored_again_for_other_ids_and_times(tmp_path: Path) -> None:
    sources = sorted((HERE / "instrumentors").glob("*.gz"))
    write(sources, tmp_path / "first", anew=False)
    assert write(sources, tmp_path / "again", anew=True) == len(sources) == 15
    first, again = (
        evaluate(tmp_path / name, metrics=[share_of_1000, calls], store=tmp_path / "store", progress=False)
        for name in ("first", "again")
    )
    assert (again.computed, again.reused) == (0, first.computed + first.reused)
    assert first.computed > 0


def digests(store: Store, path: Path) -> list[tuple[object, ...]]:
    loaded = load_dataset(store, path)
    with connect() as connection:
        attach_dataset(connection, loaded.path)
        views = ("all_digests", "turn_digests")
        return [
            line
            for view in views
            for line in connection.execute(f"SELECT COLUMNS(* EXCLUDE row_id) FROM {view} ORDER BY ALL").fetchall()
        ]


def test_other_conversations_are_equal_with_other_ids_and_times(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    found = [path for folder in OTHERS for path in sorted(folder.glob("*.json*"))]
    sources = [path for path in found if not path.name.startswith(CASES)]
    write(sources, tmp_path / "first", anew=False)
    assert write(sources, tmp_path / "again", anew=True) >= 4
    for source, again in zip(*(sorted((tmp_path / name).iterdir()) for name in ("first", "again")), strict=True):
        assert digests(store, again) == digests(store, source) != []
