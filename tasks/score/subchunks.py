"""Scoring a large chunk of the cpu lane in parts on all cores of a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Final

from leadline.tasks.plan.chunks import Chunk
from leadline.tasks.score.chunk import MOST_SPANS, ChunkResult, score_chunk
from leadline.tasks.score.executor import POOL_WORTH, LocalLanes, default_processes, drive

PARTS: Final = 16
"""Parts of a chunk, however many cores there are: scoring it again elsewhere must write the same files."""


def score_on_all_cores(chunk: Chunk) -> ChunkResult:
    """Score a chunk that was cut for a worker; doing it again writes the same.

    Raises:
        JudgeDown: As :func:`leadline.tasks.score.chunk.score_chunk` raises it.
        BrokenProcessPool: A process died.
    """
    if chunk.lane != "cpu" or chunk.scores < POOL_WORTH:
        return score_chunk(chunk)
    parts, processes = subchunks(chunk), default_processes()
    results: list[ChunkResult] = []

    def finished(part: Chunk, future: Future[ChunkResult]) -> None:
        results.append(future.result())

    with LocalLanes(processes, parts) as lanes, ThreadPoolExecutor(processes) as threads:
        drive(parts, lanes.widths, lambda part: threads.submit(lanes.score, part), finished)
    return _combined(chunk, results)


def subchunks(chunk: Chunk) -> tuple[Chunk, ...]:
    """Return parts of a chunk, each with about as many rows, whose numbers no other chunk of the run has.

    A lane has fewer than 1,000 chunks, so the parts' numbers begin above.
    """
    width = chunk.last - chunk.first + 1
    bounds = [chunk.first + width * part // PARTS for part in range(PARTS + 1)]
    return tuple(
        replace(
            chunk,
            number=(chunk.number + 1) * 1_000 + part,
            first=first,
            last=after - 1,
            rows=-(-chunk.rows // PARTS),
            scores=-(-chunk.scores // PARTS),
        )
        for part, (first, after) in enumerate(pairwise(bounds))
        if first < after
    )


def _combined(chunk: Chunk, results: Sequence[ChunkResult]) -> ChunkResult:
    seconds: Counter[str] = Counter()
    for result in results:
        seconds.update(result.seconds)
    return ChunkResult(
        chunk.name,
        scored=sum(result.scored for result in results),
        unscored=sum(result.unscored for result in results),
        seconds={name: round(value, 3) for name, value in seconds.items()},
        spans=tuple(each for result in results for each in result.spans)[:MOST_SPANS],
    )
