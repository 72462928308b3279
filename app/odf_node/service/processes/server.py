"""Serve the application on a socket: uvicorn with the options that our protocols need.

Smart transfer forbids WebSocket pings and compression. Two protocol classes (`slow_headers.py`,
`transfer/server_socket.py`) limit headers and messages.
"""

from __future__ import annotations

from typing import Any

import uvicorn
from starlette.types import ASGIApp

from ..settings import Settings
from ..transfer.server_socket import TransferSocket
from .slow_headers import PatientHttp

KEEP_ALIVE_S = 30
BACKLOG = 2048


def server_config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    """Return uvicorn's options. Only None disables pings, which its command line cannot express."""
    most = {"push_message_bytes": settings.ws_max_message_bytes}
    websocket = type("NodeWebSocket", (TransferSocket,), most)
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=PatientHttp,
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
    """uvicorn's server that reports when it listens, and on which port."""

    on_listening: Any = None
    on_stopping: Any = None
    """Called before the server waits for open requests."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and self.on_listening is not None:
            self.on_listening(self.port)

    async def shutdown(self, sockets: Any = None) -> None:
        if self.on_stopping is not None:
            self.on_stopping()
        await super().shutdown(sockets=sockets)

    @property
    def port(self) -> int:
        """The port on which the server listens, also if the system has chosen it."""
        for server in self.servers:
            for socket in server.sockets:
                return int(socket.getsockname()[1])
        return self.config.port
