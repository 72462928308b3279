"""uvicorn's HTTP with an end to waiting for headers.

A client may take its time between requests (keep-alive) and within a body; but who sends the
header of a request byte by byte, or connects and says nothing, would hold a connection for ever.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class PatientHttp(HttpToolsProtocol):
    """The header of a request has to be here `header_wait_s` seconds after its first byte; that
    of the first one so long after the connection was made."""

    header_wait_s = 30.0
    _waiting: asyncio.TimerHandle | None = None
    _in_header = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_header and self._waiting is None:
            self._wait()

    def on_message_begin(self) -> None:
        self._in_header = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_header = False
        self._wait_no_more()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.header_wait_s, self._give_up)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
            self.transport.close()
