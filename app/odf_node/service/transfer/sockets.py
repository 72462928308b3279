"""WebSocket upgrades of smart transfers: refuse them with an HTTP response, or run the exchange."""

from __future__ import annotations

from functools import partial

from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from odf_protocol.errors import NodeError
from odf_protocol.transfer.messages import COMPACT_ENCODING, PAYLOAD_HEADER

from ..auth.access import Unauthenticated, Unauthorized
from ..auth.actors import Actor
from ..errors import status_of
from ..http.addresses import DATASET, SOCKET, Route, path_of
from ..http.answers import JsonAnswer, error_answer
from ..limits.shares import Slots, Turns, caller_of
from ..settings import Settings
from .conversation import Conversation
from .handshake import (
    PULL,
    PUSH,
    SUBPROTOCOL,
    Exchange,
    Handshake,
    IncompatibleVersion,
    encoding,
    shake,
)

MAX_THREADS = 16
"""Limit of steps of all transfers that run at once; reading a large batch takes about 200 MB."""
CALLER_THREADS = 4
"""Limit of steps that run at once for one caller, so that its slow steps delay no other caller."""
PLAIN = (Unauthenticated, Unauthorized, IncompatibleVersion)
"""Errors whose response body is only `{"message": …}`, as in the reference implementation."""


class Transfers:
    """ASGI application for WebSocket upgrades to the addresses of smart transfer."""

    def __init__(self, handshake: Handshake, settings: Settings) -> None:
        self.handshake, self.settings = handshake, settings
        self.threads = Turns("steps of transfers", most=MAX_THREADS, each=CALLER_THREADS)
        self.open = Slots(
            "smart transfers",
            most=settings.max_transfers,
            each=settings.share_of(settings.max_transfers),
            setting="ODF_NODE_MAX_TRANSFERS",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        caller = caller_of(scope)
        try:
            exchange = await self._shake(scope)
            self.open.take(caller)  # before the upgrade, while we can still refuse by HTTP
        except NodeError as error:
            # the framework sends headers and body separately; the server joins them in one write
            await WebSocket(scope, receive, send).send_denial_response(_refusal(error))
            return
        try:
            await send(
                {
                    "type": "websocket.accept",
                    "subprotocol": _subprotocol(scope),
                    "headers": _agreed(scope),
                }
            )
            run = partial(self.threads.run, caller)
            await Conversation(exchange, receive, send, self.settings, run).hold()
        finally:
            self.open.give_back(caller)

    def routes(self) -> list[Route]:
        """Return the entries of the routing table."""
        return [Route(f"{DATASET}/{word}", self, (SOCKET,)) for word in (PULL, PUSH)]

    async def _shake(self, scope: Scope) -> Exchange:
        actor: Actor = scope["state"]["actor"]
        return await to_thread.run_sync(shake, self.handshake, actor, path_of(scope), scope)


def _refusal(error: NodeError) -> Response:
    if isinstance(error, PLAIN):
        return JsonAnswer({"message": error.message}, int(status_of(error)))
    return error_answer(error)


def _agreed(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Return the response headers that grant the client's optional extensions."""
    compact = encoding(scope) == COMPACT_ENCODING
    return [(PAYLOAD_HEADER.encode(), COMPACT_ENCODING.encode())] if compact else []


def _subprotocol(scope: Scope) -> str | None:
    return SUBPROTOCOL if SUBPROTOCOL in scope.get("subprotocols", ()) else None
