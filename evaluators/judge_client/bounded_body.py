"""Reading what a server sends, however much that is and however slowly it comes: no wire reads a body without this.

The limit is one of decoded bytes, so that a compressed body cannot grow beyond it either. Compression is not asked for;
what comes by gzip or deflate all the same is read, and what comes in any other form is not.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable
from typing import Final

from leadline.evaluators.judge_client.deadline import Deadline
from leadline.evaluators.judge_client.transport import Transient, Unusable
from leadline.evaluators.settings.judge_config import MEBIBYTE

SAID: Final = 64 * 1024
"""Bytes that are read of an error's body: its status says what matters."""

NOT_COMPRESSED: Final = {"Accept-Encoding": "identity"}
"""The header by which servers are asked to send no compressed replies."""

_DEFLATED: Final = frozenset({"gzip", "x-gzip", "deflate"})


async def read_body(
    parts: AsyncIterable[bytes], *, encoding: str, most: int, timeout_s: float, shorten: bool = False
) -> bytes:
    """Read a body.

    Args:
        parts: Its parts, as they come.
        encoding: The header ``Content-Encoding``.
        most: Decoded bytes that it may have.
        timeout_s: Longest time for all of it.
        shorten: Return the beginning of a body that is too long or broken, instead of raising.

    Raises:
        Unusable: It has more bytes, or is compressed in another way than by gzip or deflate.
        Transient: It is broken.
        TimeoutError: It took longer.
    """
    received = bytearray()
    try:
        async with Deadline(timeout_s):
            decoder = _Decoder(encoding)
            async for part in parts:
                received += decoder.decode(part, most + 1 - len(received))
                if len(received) > most:
                    raise Unusable(f"the reply has more than {in_mebibytes(most)}")
            decoder.finish()
    except (Unusable, Transient):
        if not shorten:
            raise
        del received[most:]
    return bytes(received)


def in_mebibytes(size: int) -> str:
    """Return a number of bytes in words."""
    return f"{size / MEBIBYTE:.3g} MiB"


class _Decoder:
    """Undoes a body's compression, if it has one.

    Args:
        encoding: The header ``Content-Encoding``.

    Raises:
        Unusable: It names another form than gzip and deflate.
    """

    def __init__(self, encoding: str) -> None:
        form = encoding.strip().lower()
        if form not in _DEFLATED and form not in ("", "identity"):
            raise Unusable(f"the reply is compressed by {form[:40]}, which was not asked for")
        self._inflating = zlib.decompressobj(zlib.MAX_WBITS | 32) if form in _DEFLATED else None
        self._begun = False

    def decode(self, part: bytes, most: int) -> bytes:
        """Return what a part stands for.

        Args:
            part: The next part.
            most: Bytes to return at most.
        """
        self._begun = self._begun or bool(part)
        if self._inflating is None:
            return part[:most]
        try:
            decoded = self._inflating.decompress(part, most)
        except zlib.error as error:
            raise Transient(f"the reply cannot be decompressed: {error}") from None
        if self._inflating.unused_data:  # zlib would keep all of it
            raise Transient("the reply goes on after the end of its compressed data")
        return decoded

    def finish(self) -> None:
        """Check that the body is whole; an empty one is, whatever form was announced."""
        if self._inflating is not None and self._begun and not self._inflating.eof:
            raise Transient("the reply ends in the middle of its compressed data")
