"""The socket loop of a smart transfer: decode a message, advance the phase, answer, encode.

Every blocking step runs in a thread. While a push uploads, the server requests the client's
progress every `upload_progress_s` seconds, but not after the client has sent `Complete`: the
next `{}` must be the confirmation. A commit runs to its end even if the client has disconnected.

WebSocket upgrades of smart transfers: refuse them with an HTTP response, or run the exchange.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from uvicorn.protocols.utils import ClientDisconnected

from odf_protocol.errors import NodeError
from odf_protocol.transfer.messages import (
    CLOSE_INTERNAL,
    CLOSE_NORMAL,
    COMPACT_ENCODING,
    PAYLOAD_HEADER,
    DatasetPushObjectsUploadProgressRequest,
    MalformedMessage,
    Message,
    close_reason,
    decode,
    encode,
)
from odf_protocol.transfer.phases import (
    MAY_CLOSE,
    Branch,
    PullState,
    PushState,
    Side,
    State,
    advance,
    awaited,
    branch,
)

from ..auth.actors import Actor
from ..errors import status_of
from ..http.addresses import DATASET, SOCKET, Route, path_of
from ..http.answers import JsonAnswer, error_answer
from ..limits.shares import Slots, Turns, caller_of
from ..settings import Settings
from .handshake import (
    PULL,
    PUSH,
    SUBPROTOCOL,
    Exchange,
    Handshake,
    encoding,
    shake,
)
from .pull import BlockBatch
from .server_socket import CLOSE_WAIT_S

PULL_IDLE_S = 600.0
"""Seconds a client that pulls may stay silent before it is ended."""

TRANSFER_FIRST_S = 60.0
"""Seconds within which a smart transfer has to begin to speak."""

UPLOAD_PROGRESS_S = 10.0
"""Seconds between progress requests while a push uploads objects."""

UPLOADING = frozenset({PushState.UPLOADING, PushState.UPLOADING_TRUNCATED})
ENDS = frozenset({state for state in MAY_CLOSE if state.value == "end"})
_PROGRESS = DatasetPushObjectsUploadProgressRequest()
_log = logging.getLogger("odf.transfer")


class PeerLeft(Exception):
    """The client closed its side, or the connection broke."""


class Conversation:
    """One accepted socket and the exchange that runs on it."""

    def __init__(
        self,
        exchange: Exchange,
        receive: Receive,
        send: Send,
        settings: Settings,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._exchange, self._send, self._settings = exchange, send, settings
        self._receive, self._run = receive, in_thread
        self._state: State = exchange.start
        self._incoming: asyncio.Task[Any] | None = None

    async def hold(self) -> None:
        """Run the exchange from the first message to the close of the socket. Never raises."""
        try:
            failed = await self._exchange_messages()
            await self._part(failed)
        except (PeerLeft, ClientDisconnected):
            if self._state not in MAY_CLOSE:
                _log.info("peer left in the state %s", self._state.value)
        except NodeError as error:
            _log.warning(
                "transfer refused: %s: %s (%s)",
                error.code,
                error.message,
                self._state.value,
            )
            await self._fail(error)
        except Exception as error:
            _log.exception("transfer crashed in the state %s", self._state.value)
            await self._fail(error)
        finally:
            if self._incoming is not None:
                self._incoming.cancel()

    async def _exchange_messages(self) -> bool:
        """Run until the phase table ends. Return whether the last answer was a refusal."""
        failed = False
        while self._state not in ENDS:
            message = await self._next()
            self._state = advance(self._state, message)
            reply, pieces = await self._in_thread(self._answer, message)
            del message  # a batch of blocks is large
            if reply is None:
                continue
            failed = branch(reply) is Branch.FAILED
            await self._say(pieces)
            self._state = advance(self._state, reply)
            await self._in_thread(self._exchange.settle)
        return failed

    def _answer(self, message: Message) -> tuple[Message | None, Iterator[str]]:
        """Return the reply and its JSON text in pieces."""
        reply = self._exchange.answer(message)
        if isinstance(reply, BlockBatch):
            return reply.message, reply.text()
        return reply, iter(() if reply is None else (encode(reply),))

    async def _next(self) -> Message:
        """Return the client's next message. Request its progress meanwhile if it uploads."""
        kind = awaited(self._state, Side.CLIENT)
        deadline = time.monotonic() + self._patience()
        tick = UPLOAD_PROGRESS_S
        while True:
            uploading = self._state in UPLOADING
            left = deadline - time.monotonic()
            event = await self._event(min(tick, left) if uploading else left)
            if event is not None:
                read = partial(decode, max_bytes=self._settings.ws_max_message_bytes)
                message: Message = await self._in_thread(read, _text(event), kind)
                return message
            if time.monotonic() >= deadline:
                raise NodeError("PeerSilent", "the peer was silent for too long")
            self._state = advance(self._state, _PROGRESS)
            await self._say(iter((encode(_PROGRESS),)))

    def _patience(self) -> float:
        """Return the limit in seconds for the next message; it is long if the client uploads."""
        if self._state is self._exchange.start:
            return TRANSFER_FIRST_S
        is_pull = isinstance(self._state, PullState)
        return PULL_IDLE_S if is_pull else self._settings.transfer_idle_s

    async def _event(self, patience: float) -> Any | None:
        """Return the next event of the socket, or None after `patience` seconds. Loses no event."""
        if self._incoming is None:
            self._incoming = asyncio.ensure_future(self._receive())
        done, _ = await asyncio.wait({self._incoming}, timeout=max(0.0, patience))
        if not done:
            return None
        event = self._incoming.result()
        self._incoming = None
        return event

    async def _part(self, failed: bool) -> None:
        """Wait after the last message for the client to close; close at once after a refusal."""
        if not failed:
            patience = time.monotonic() + CLOSE_WAIT_S
            while (left := patience - time.monotonic()) > 0:
                event = await self._event(left)
                if event is not None and event["type"] == "websocket.disconnect":
                    return
        await self._close(CLOSE_NORMAL, "")

    async def _fail(self, error: Exception) -> None:
        reason = close_reason(self._exchange.failure(self._state, error))
        await self._close(CLOSE_INTERNAL, reason)

    async def _close(self, code: int, reason: str) -> None:
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except (ClientDisconnected, RuntimeError):
            _log.debug("peer was gone before it could be told")

    async def _say(self, pieces: Iterator[str]) -> None:
        """Send a message in pieces; `more` is an extension of `server_socket.py`."""
        piece = next(pieces)
        while True:
            following = await self._in_thread(next, pieces, None)
            more = following is not None
            await self._send({"type": "websocket.send", "text": piece, "more": more})
            if following is None:
                return
            piece = following

    async def _in_thread(self, work: Any, *arguments: Any) -> Any:
        return await self._run(partial(work, *arguments))


def _text(event: Any) -> str:
    """Return the text of a message. Raises `PeerLeft`, and `MalformedMessage` for a binary one."""
    if event["type"] == "websocket.disconnect":
        raise PeerLeft
    text = event.get("text")
    if text is None:
        raise MalformedMessage("Message is not in text format")
    return str(text)


MAX_THREADS = 16
"""Limit of steps of all transfers that run at once; reading a large batch takes about 200 MB."""
CALLER_THREADS = 4
"""Limit of steps that run at once for one caller, so that its slow steps delay no other caller."""
PLAIN = frozenset({"Unauthenticated", "Unauthorized", "IncompatibleVersion"})
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
    if error.code in PLAIN:
        return JsonAnswer({"message": error.message}, int(status_of(error)))
    return error_answer(error)


def _agreed(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Return the response headers that grant the client's optional extensions."""
    compact = encoding(scope) == COMPACT_ENCODING
    return [(PAYLOAD_HEADER.encode(), COMPACT_ENCODING.encode())] if compact else []


def _subprotocol(scope: Scope) -> str | None:
    return SUBPROTOCOL if SUBPROTOCOL in scope.get("subprotocols", ()) else None
