"""Loading of a dataset: a file is recognised, read, checked, and written as Parquet tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.ground.files import digest
from leadline.tasks.load.columns import LABELS, ColumnMap, ColumnNames, map_columns
from leadline.tasks.load.corpus import DocumentTexts
from leadline.tasks.load.formats.base import FileFormat
from leadline.tasks.load.formats.registry import AUTO, get_format
from leadline.tasks.load.readers import Container, Layout
from leadline.tasks.load.sniff import format_of, layout_of, peek, reader_of
from leadline.tasks.load.source import IMPORT_VERSION, source_at, undated

if TYPE_CHECKING:
    from leadline.tasks.store.store import Store


@dataclass(frozen=True, slots=True)
class LoadedDataset:
    """A dataset in the store.

    Attributes:
        digest: What identifies its content.
        path: Folder of its Parquet files, see ``tasks/db/dataset.sql``.
        format: The format that was recognised or asked for.
        container: The container that was recognised: json, jsonl, csv or parquet.
        rows: Number of answers.
        cases: Number of cases.
        models: Keys of the models.
        name: Name of the dataset: what the document says, or the file's name without suffix and date.
        source: The file as the user named it.
        warnings: What the user should know, one sentence each, what concerns columns first.
        reused: Whether it had been loaded before, so that nothing was read.
        columns: The columns that fill a field, each with the field's name.
        metadata_columns: The columns that are kept as metadata; the first of them.
        column_warnings: Those of the warnings that concern columns.
        labels: Names of the metrics of which people say something, with the number of labels.
        cases_digest: Digest of the file of its cases, whatever the answers; "" where it is not known.
    """

    digest: str
    path: Path
    format: str
    container: str
    rows: int
    cases: int
    models: tuple[str, ...]
    name: str
    source: str
    warnings: tuple[str, ...]
    reused: bool
    columns: Mapping[str, str] = field(default_factory=dict)
    metadata_columns: tuple[str, ...] = ()
    column_warnings: tuple[str, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    cases_digest: str = ""

    def with_warnings(self, found: Sequence[str]) -> LoadedDataset:
        """Return the dataset with further warnings that concern columns."""
        if not found:
            return self
        return replace(self, warnings=(*found, *self.warnings), column_warnings=(*found, *self.column_warnings))

    def require_models(self, keys: Sequence[str]) -> None:
        """Refuse models that the dataset does not have.

        Raises:
            UsageError: It has none of some key.
        """
        unknown = sorted(set(keys) - set(self.models))
        if unknown:
            raise UsageError(
                f"The dataset has no model called {unknown[0]!r}.",
                hint=f"Its models: {', '.join(self.models)}.",
                code=ErrorCode.DATA_NO_MODEL,
            )


def load_dataset(
    store: Store,
    path: str | Path,
    *,
    format: str = "auto",  # noqa: A002
    cases_only: bool = False,
    columns: ColumnMap | None = None,
    default_columns: ColumnMap | None = None,
    model_name: str = "",
    shared: bool = True,
    corpus: str | Path | None = None,
) -> LoadedDataset:
    """Load a file of cases and answers into the store; a file that was loaded before is not read again.

    Args:
        store: Where to keep it.
        path: The file: JSON, JSON Lines, CSV or Parquet; a manifest or folder of COCO files.
        format: Name of its format; ``auto`` recognises it.
        cases_only: Take the questions alone, to put them to models: answers need not be there and are ignored, and the
            dataset has no rows.
        columns: The column of a field, for fields whose column has another name.
        default_columns: The same for any file; columns that this one does not have are a warning.
        model_name: The model whose answers name none; by default it is called after the file.
        shared: Give it to the other hosts, and tell them that it is used now.
        corpus: A file with the texts of documents that retrievals recorded by their ids.

    Raises:
        DatasetError: The file cannot be evaluated; the error lists every fault found, and nothing was written.
        UsageError: The format is none that is known.
    """
    asked = None if format == AUTO else get_format(format)
    source = source_at(path)
    recognised = asked or reader_of(source)
    if recognised is not None and issubclass(recognised, FileFormat):
        layout, named = Layout(Container.FILES), ColumnNames()
    else:
        layout = layout_of(source)
        peeked = peek(source, layout)
        named = map_columns(peeked.columns, columns or {}, default_columns, file=source.name)
        recognised = asked or format_of(source, replace(peeked, columns=named))
    texts = DocumentTexts(corpus) if corpus else None
    identity = digest(
        {
            "bytes": source.fingerprint(),
            "import": IMPORT_VERSION,
            "format": recognised.name,
            "container": layout.container.value,
            "name": undated(source.path.stem),
        }
        | ({"cases_only": True} if cases_only else {})
        | ({"columns": dict(named.asked)} if recognised.is_changed_by(named) else {})
        | ({"warnings": named.warnings} if named.warnings else {})
        | ({"model": model_name} if model_name else {})
        | ({"corpus": texts.source.fingerprint()} if texts else {})
        | ({"labels": 1} if LABELS in named.names else {})
        | (
            {"conversations": 4 if cases_only else 3}
            if recognised.may_hold_conversations(frozenset(named.names))
            else {}
        )
    )
    folder = store.dataset(identity)
    reused = store.use_dataset(identity)
    if not reused:
        from leadline.tasks.load.importing import import_file  # Arrow, which a file that was loaded before needs not

        import_file(
            store, folder, source, layout, recognised, named, model_name=model_name, cases_only=cases_only, corpus=texts
        )
    if shared:
        store.share_dataset(identity)
    return _kept(store, identity, source.name, reused=reused)


def kept_dataset(store: Store, identity: str, source: str) -> LoadedDataset:
    """Return a dataset that was loaded before, whatever became of its file.

    Args:
        identity: The digest of its content.
        source: The file as the user named it.

    Raises:
        UsageError: It is no longer in the store.
    """
    if not store.use_dataset(identity):
        raise UsageError(
            f"The dataset {source} ({identity[:12]}) is no longer in the store.",
            hint="Evaluate its file; nothing that the store has is computed twice.",
            code=ErrorCode.STORE_NO_DATASET,
        )
    return _kept(store, identity, source, reused=True)


def _kept(store: Store, identity: str, source: str, *, reused: bool) -> LoadedDataset:
    folder = store.dataset(identity)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return LoadedDataset(
        digest=identity,
        path=folder,
        format=manifest["format"],
        container=manifest["container"],
        rows=manifest["rows"],
        cases=manifest["cases"],
        models=tuple(manifest["models"]),
        name=manifest["name"],
        source=source,
        columns=manifest["columns"],
        metadata_columns=tuple(manifest["metadata_columns"]),
        column_warnings=tuple(manifest["column_warnings"]),
        warnings=tuple(manifest["warnings"]),
        labels=manifest.get("labels", {}),
        cases_digest=manifest.get("sha256", {}).get("cases.parquet", ""),
        reused=reused,
    )
