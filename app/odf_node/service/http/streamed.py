"""Streaming responses, which produce no body for HEAD."""

from __future__ import annotations

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from .answers import HEADERS_ONLY


class StreamedAnswer(StreamingResponse):
    """A streaming response that sends only headers to HEAD. It always calls `finished`, which
    releases the resources of the body."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. Resources are released even if the client left before the first
        byte."""
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
        """Release the resources of the body, which is not read any further."""
