"""How the application is put on a socket: uvicorn with exactly the options the protocols need.

Smart transfer forbids WebSocket pings and compression, takes messages of 64 MiB, and gives a
peer five seconds to close; peers take frames below 16 MiB only, so larger messages leave in
fragments.
"""

from __future__ import annotations

from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from .settings import Settings
from .slow_headers import PatientHttp
from .ws.handshake import SUBPROTOCOL

FRAME_BYTES = 8 * 1024 * 1024
"""Longest frame sent; the reference peer takes up to 16 MiB."""
SWITCHING_PROTOCOLS = 101
KEEP_ALIVE_S = 30
BACKLOG = 2048
DENIED = "websocket.http.response.body"


class FragmentingWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with long messages cut into frames and a shorter goodbye."""

    close_wait_s = 5.0

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.close_timeout = self.close_wait_s
        self._in_parts = False

    def handle_connect(self, event: Any) -> None:
        """The subprotocol of the specification is no token by RFC 6455; it is let through."""
        offered = event.headers.get_all("Sec-WebSocket-Protocol") == [SUBPROTOCOL]
        if offered:
            del event.headers["Sec-WebSocket-Protocol"]
        super().handle_connect(event)
        if offered and self.response.status_code == SWITCHING_PROTOCOLS:
            self.scope["subprotocols"] = [SUBPROTOCOL]

    async def send(self, message: Any) -> None:
        """As ASGI has it; a text with `more` is continued by the next one."""
        text = message.get("text") if message["type"] == "websocket.send" else None
        more = message.get("more", False)
        short = text is None or (len(text) <= FRAME_BYTES and not more and not self._in_parts)
        if text is None or short or not self._is_open:
            await super().send(message)
            if message["type"] == DENIED and not message.get("more_body", False):
                # An answer, too; uvicorn would log an application that gave none.
                self.handshake_complete = True
            return
        content = text.encode()
        for start in range(0, max(1, len(content)), FRAME_BYTES):
            piece = content[start : start + FRAME_BYTES]
            await self._send_fragment(piece, last=not more and start + FRAME_BYTES >= len(content))

    @property
    def _is_open(self) -> bool:
        return self.handshake_complete and not self.close_sent and self.initial_response is None

    async def _send_fragment(self, piece: bytes, *, last: bool) -> None:
        await self.writable.wait()
        if self.disconnected or self.close_sent:
            raise ClientDisconnected
        try:
            if self._in_parts:
                self.conn.send_continuation(piece, fin=last)
            else:
                self.conn.send_text(piece, fin=last)
        except InvalidState:
            raise ClientDisconnected from None
        self._in_parts = not last
        self.transport.write(b"".join(self.conn.data_to_send()))


def server_config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    """uvicorn's options. Pings are off only by None, which its command line cannot say."""
    websocket = type(
        "NodeWebSocket", (FragmentingWebSocket,), {"close_wait_s": settings.close_wait_s}
    )
    http = type("NodeHttp", (PatientHttp,), {"header_wait_s": settings.header_wait_s})
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=http,
        ws=websocket,
        ws_max_size=settings.ws_max_message_bytes,
        ws_ping_interval=None,
        ws_ping_timeout=None,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.shutdown_s,
        backlog=BACKLOG,
    )


class NodeServer(uvicorn.Server):
    """uvicorn's server that says when it listens, and where."""

    on_listening: Any = None

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and self.on_listening is not None:
            self.on_listening(self.port)

    @property
    def port(self) -> int:
        """The port listened on, also when the settings left the choice to the system."""
        for server in self.servers:
            for socket in server.sockets:
                return int(socket.getsockname()[1])
        return self.config.port
