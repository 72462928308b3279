"""Answers that come from a reader: streamed, and given back whatever becomes of the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..http.answers import HEADERS_ONLY
from ..readers.pool import Answer


class Rows(StreamingResponse):
    """The bytes of a reader, between others that are known already."""

    def __init__(
        self, answer: Answer, *, before: bytes = b"", behind: bytes = b"", **more: Any
    ) -> None:
        super().__init__(_joined(before, answer, behind), **more)
        self._answer = answer
        if answer.size is not None:
            length = len(before) + answer.size + len(behind)
            self.headers["content-length"] = str(length)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As any; also a client that left before the first byte leaves no reader behind."""
        try:
            if scope.get("state", {}).get(HEADERS_ONLY):
                start = {"type": "http.response.start", "status": self.status_code}
                await send({**start, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": b""})
                return
            await super().__call__(scope, receive, send)
        finally:
            self._answer.close()


async def _joined(before: bytes, answer: Answer, behind: bytes) -> AsyncIterator[bytes]:
    if before:
        yield before
    async for piece in answer:
        yield piece
    if behind:
        yield behind
