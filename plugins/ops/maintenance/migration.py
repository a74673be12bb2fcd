"""Bringing a store of an earlier format up to date, file by file.

Each file is replaced at once, and the format's number is written last: killed at any moment, the next one goes on.
No score, key or page changes: a segment gets its digest, a dataset's manifest and a run those of their files.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from leadline.plugins.ops.maintenance.contents import Contents, alone
from leadline.plugins.ops.maintenance.integrity import read_through
from leadline.tasks.ground.files import replacing
from leadline.tasks.store.digests import file_digest, is_sealed, seal
from leadline.tasks.store.store import MANIFEST, Store
from leadline.tasks.store.store_format import write_format

SEGMENTS: Final = ("scores", "vectors")


def migrate(store: Store) -> Iterator[tuple[str, str]]:
    """Give digests to all that has none, and yield each such file with what is wrong with it, ``""`` if nothing.

    What is damaged stays as it is: ``leadline store verify`` says what to do about it.

    Raises:
        StoreError: Another process cleans, backs up or migrates the store, or it cannot be written.
    """
    with alone(store):
        contents = Contents(store)
        for folder in SEGMENTS:
            for name in contents.files(folder):
                if name.endswith(".parquet"):
                    yield from _segment(contents, name)
        for dataset in contents.folders("datasets"):
            yield from _dataset(contents, f"datasets/{dataset}")
        write_format(store.root, store.remote)


def _segment(contents: Contents, name: str) -> Iterator[tuple[str, str]]:
    try:
        with contents.opened(name) as path:
            if is_sealed(path):
                return
            read_through(path)  # damage that is there must not get a digest
            if contents.store.remote:
                seal(path)
                contents.replace(name, path)
            else:
                _replace(path)
    except FileNotFoundError:  # merged meanwhile
        return
    except Exception as error:  # whatever a damaged file makes of its reader
        yield name, " ".join(str(error).split())[:300] or type(error).__name__
    else:
        yield name, ""


def _replace(path: Path) -> None:
    """Put a copy with a digest in the place of a segment; it keeps its time, from which retention counts."""
    with replacing(path) as temporary:
        shutil.copyfile(path, temporary)
        seal(temporary)
        facts = path.stat()
        os.utime(temporary, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _dataset(contents: Contents, folder: str) -> Iterator[tuple[str, str]]:
    manifest = _manifest(contents, folder)
    if manifest is None or "sha256" in manifest:
        return
    digests = {}
    try:
        for name in contents.files(folder):
            if name.endswith(".parquet"):
                with contents.opened(name) as path:
                    read_through(path)
                    digests[name.removeprefix(f"{folder}/")] = file_digest(path)
    except Exception as error:  # whatever a damaged file makes of its reader
        yield folder, " ".join(str(error).split())[:300] or type(error).__name__
        return
    _write_manifest(contents.store, folder, manifest | {"sha256": digests})
    yield folder, ""


def _write_manifest(store: Store, folder: str, manifest: Mapping[str, Any]) -> None:
    """Replace a dataset's manifest; a working copy without the dataset gets no part of it."""
    target, text = store.root / folder / MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1) + "\n"
    if store.remote is None:
        used = target.stat().st_mtime
        with replacing(target) as temporary:
            temporary.write_text(text, "utf-8")
            os.utime(temporary, (used, used))
        return
    with tempfile.TemporaryDirectory(prefix="leadline-") as room:
        path = Path(room) / MANIFEST
        path.write_text(text, "utf-8")
        store.remote.bucket.put(path, f"{folder}/{MANIFEST}")
    if target.exists():
        store.remote.fetch([target])


def _manifest(contents: Contents, folder: str) -> dict[str, Any] | None:
    try:
        with contents.opened(f"{folder}/{MANIFEST}") as path:
            return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
