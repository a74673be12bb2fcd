"""Embedding for coroutines: whoever asks while the model is busy shares its next pass.

Hundreds of rows that a judge answers one after the other would otherwise go through the model three texts at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Embed: TypeAlias = "Callable[[Sequence[str]], npt.NDArray[np.float32]]"


class Passes:
    """One model's passes; belongs to one event loop, and blocks it at no time.

    Args:
        embed: Returns the vectors of texts, one row per text in order; called in a thread, never twice at once.
    """

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._waiting: list[tuple[list[str], asyncio.Future[npt.NDArray[np.float32]]]] = []
        self._work: asyncio.Task[None] | None = None

    async def of(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors of texts, one row per text in order; raises what embedding them alone raises."""
        future: asyncio.Future[npt.NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        self._waiting.append((list(texts), future))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await self._together(batch)
            except Exception:  # a text may be too long for the memory: find out whose
                for one in batch:
                    await self._alone(one)

    async def _together(self, batch: Sequence[tuple[list[str], asyncio.Future[npt.NDArray[np.float32]]]]) -> None:
        distinct = list(dict.fromkeys(text for texts, _ in batch for text in texts))
        matrix = await asyncio.to_thread(self._embed, distinct)
        place = {text: row for row, text in enumerate(distinct)}
        for texts, future in batch:
            if not future.done():
                future.set_result(matrix[[place[text] for text in texts]])

    async def _alone(self, one: tuple[list[str], asyncio.Future[npt.NDArray[np.float32]]]) -> None:
        try:
            await self._together([one])
        except Exception as error:
            if not one[1].done():
                one[1].set_exception(error)
