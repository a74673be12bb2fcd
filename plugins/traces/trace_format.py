"""Traces as a format of datasets: each conversation in them is a row, each of its turns is scored."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Set
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, Final

from leadline.plugins.traces import langfuse, mlflow
from leadline.plugins.traces.flat import stand_alone
from leadline.plugins.traces.otlp import SECTIONS
from leadline.plugins.traces.read import conversations, exported
from leadline.plugins.traces.sessions import LOOKED_AT, is_of_session
from leadline.plugins.traces.span import TraceCounts
from leadline.tasks.load.columns import Columns
from leadline.tasks.load.faults import Place
from leadline.tasks.load.formats.base import FileFormat
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.source import SourceFile

_NAMES: Final = (
    *sorted(SECTIONS),
    "observations",
    "parentObservationId",
    "parent_observation_id",
    "dotted_order",
    "parent_run_id",
    "child_runs",
    "context.trace_id",
    "spanContext",
)
_MARK: Final = re.compile(rb'(?<!\\\\)"(?:' + b"|".join(name.encode() for name in _NAMES) + rb')"\s*:')
"""A member that no other dataset has; in a text within JSON its quotation marks would be escaped."""

_OF_MLFLOW: Final = re.compile(rb'[\s\[{]*(?:"traces"\s*:[\s\[{]*)?"(?:info|data)"\s*:\s*\{')
"""The beginning of MLflow's traces; a row of an evaluation set with a trace beside its answer begins otherwise."""

_LOOKED_FOR: Final = "Looked for messages of calls of models, and for what agents and chains were asked and answered"


def _is_protobuf(head: bytes) -> bool:
    """Return whether bytes begin a message whose first field has a length, as OTLP's do, and are no text."""
    if not head.startswith(b"\n"):
        return False
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head[:LOOKED_AT])
    except UnicodeDecodeError:  # ids of traces are random bytes
        return True
    return "\0" in text


def _is_of_traces(head: bytes) -> bool:
    """Return whether a file that begins so, packed or not, is one of traces."""
    if head.startswith(b"\x1f\x8b"):
        with suppress(zlib.error):
            head = zlib.decompressobj(wbits=31).decompress(head, LOOKED_AT)
    of_mlflow = _OF_MLFLOW.match(head) and b'"mlflow.' in head[:LOOKED_AT]
    return bool(of_mlflow or _MARK.search(head[:LOOKED_AT])) or is_of_session(head) or _is_protobuf(head)


@register
class Traces(FileFormat):
    """Reads what applications record: OpenTelemetry in JSON and protobuf, Langfuse, MLflow, LangSmith, Phoenix.

    The sessions of Claude Code and Codex are conversations, too.

    A trace that has not ended, or whose content was not captured, is counted and said, and is no row.
    """

    name = "traces"
    title = "Traces"
    recognised_by = (
        "`resourceSpans` or `resourceLogs` (OTLP, also protobuf), `observations` (Langfuse, also its scores and CSV), "
        "`info` beside `data` or a column `trace` (MLflow), `dotted_order` (LangSmith), a column `context.trace_id` "
        "(Phoenix), `parentUuid` (Claude Code), `session_meta` (Codex); files, folders and patterns of them"
    )
    answer_column = "messages"
    columns: ClassVar[Columns] = {}
    is_flat = False

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that records are spans, or attributes of some that stand alone."""
        alone = langfuse.recognises_names(names) or stand_alone(names)
        if "context.trace_id" in names or (alone and not sections):
            return 0.97
        return 0.75 if mlflow.recognises_names(names) and not sections else 0

    @classmethod
    def reads(cls, source: SourceFile) -> bool:
        """Return whether a file, or one in a folder, is of traces."""
        parts = [part for _, part in source.parts]
        if any(_is_of_traces(each.head) for each in parts or [source]):
            return True
        return any(exported(part.path, TraceCounts()) is not None for part in parts)

    def read_source(self) -> None:
        """Stage the conversations of all traces."""
        counts, source = TraceCounts(), self.source
        paths = [source.path] if source.path.is_dir() else [part.path for _, part in source.parts] or [source.path]
        for number, conversation in enumerate(conversations(paths, counts=counts, corpus=self.corpus), start=1):
            model = conversation.model or self.models.fallback  # of agents whose calls of a model are not recorded
            self.stage_conversation(Place(number, ""), replace(conversation, model=model))
            self.batches.end_of_record(sum(len(message["content"]) for message in conversation.messages))
        for sentence in counts.sentences():
            self.warn(sentence.rstrip("."))
        if not counts.conversations:
            self.faults.stop(None, "", f"the traces hold no conversation: {' '.join(counts.sentences())} {_LOOKED_FOR}")
