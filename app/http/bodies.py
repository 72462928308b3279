"""Request bodies that arrive piece by piece, bounded in size and in silence."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
from anyio import from_thread
from starlette.requests import Request
from starlette.types import Receive

from protocol.errors import BadInput, LimitExceeded

CHUNK_BYTES = 1024 * 1024


class BodyBrokeOff(BadInput):
    """The client went away, or said nothing for too long, in the middle of a body."""


class BodyTooLong(LimitExceeded):
    """A body above its limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is longer than the {limit} bytes taken here", limit=limit)


async def small_body(request: Request, limit: int) -> bytes:
    """The whole of a body that is small. Raises `BodyTooLong`."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise BodyTooLong(limit)
    return bytes(body)


class Body:
    """A request body, read by a thread in pieces of about 1 MiB."""

    def __init__(self, receive: Receive, *, limit: int, idle_s: float) -> None:
        self._receive, self._limit, self._idle_s = receive, limit, idle_s
        self._done = False
        self.size = 0

    def chunks(self) -> Iterator[bytes]:
        """To be iterated in a thread started from the event loop.

        Raises:
            BodyBrokeOff: the client left or fell silent. BodyTooLong: more than the limit.
        """
        while chunk := from_thread.run(self._next):
            yield chunk

    async def _next(self) -> bytes:
        piece = bytearray()
        while not self._done and len(piece) < CHUNK_BYTES:
            try:
                with anyio.fail_after(self._idle_s):
                    message = await self._receive()
            except TimeoutError:
                raise BodyBrokeOff("the body stopped arriving") from None
            if message["type"] == "http.disconnect":
                raise BodyBrokeOff("the client left in the middle of the body")
            piece += message.get("body", b"")
            self._done = not message.get("more_body", False)
            if self.size + len(piece) > self._limit:
                raise BodyTooLong(self._limit)
        self.size += len(piece)
        return bytes(piece)
