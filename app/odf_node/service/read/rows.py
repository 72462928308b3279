"""Responses that stream from a reader, and release it even if the client disconnects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ..http.streamed import StreamedAnswer
from ..readers.pool import Answer


class Rows(StreamedAnswer):
    """Streams the bytes of a reader, between given bytes."""

    def __init__(
        self, answer: Answer, *, before: bytes = b"", behind: bytes = b"", **more: Any
    ) -> None:
        super().__init__(_joined(before, answer, behind), **more)
        self._answer = answer
        if answer.size is not None:
            length = len(before) + answer.size + len(behind)
            self.headers["content-length"] = str(length)

    async def finished(self) -> None:
        self._answer.close()


async def _joined(before: bytes, answer: Answer, behind: bytes) -> AsyncIterator[bytes]:
    if before:
        yield before
    async for piece in answer:
        yield piece
    if behind:
        yield behind
