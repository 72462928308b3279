"""Answers that stream: one that is asked for its headers only makes no body."""

from __future__ import annotations

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from .answers import HEADERS_ONLY


class StreamedAnswer(StreamingResponse):
    """As any, but for HEAD. What the body holds is given back by `finished`, always."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Also a client that left before the first byte leaves nothing behind."""
        try:
            if scope.get("state", {}).get(HEADERS_ONLY):
                start = {"type": "http.response.start", "status": self.status_code}
                await send({**start, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": b""})
                return
            await super().__call__(scope, receive, send)
        finally:
            await self.finished()

    async def finished(self) -> None:
        """Nobody will read on."""
