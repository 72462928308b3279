"""uvicorn's WebSocket with the frames and limits that smart transfer needs.

Long messages are sent in several frames, because peers accept only frames below 16 MiB. A close
takes up to five seconds. Received bytes are parsed in short slices. After a slice with
many frames the event loop gets a turn, since a frame of one byte costs as much as a long one.

Limits of bytes and frames that a peer may send before its message is complete.

The library limits the bytes of a message, but it keeps each fragment as a separate object and
answers any number of pings. We check the limits where the library parses frames, so that the
first frame above a limit ends the connection before the library keeps it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState, ProtocolError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.server import ServerProtocol

from .handshake import SUBPROTOCOL

CONTROL_WINDOW_S = 60.0
_DATA = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})


class FrameLimit(ProtocolError):
    """The peer sent more frames than a well-behaved peer sends."""


class BoundedProtocol(ServerProtocol):
    """The library's protocol of one connection, with additional limits.

    The first message of every peer is a request of some hundred bytes (limit `first`). The limit of
    later messages (`later`) depends on the address; it takes effect after the first message.
    """

    def __init__(
        self, *, first: int, later: int, max_frames: int, now: Callable[[], float]
    ) -> None:
        super().__init__(max_size=min(first, later), logger=logging.getLogger("uvicorn.error"))
        self.later = later
        self._max_frames, self._now = max_frames, now
        self._fragments = self._controls = 0
        self._window_ends = 0.0

    def recv_frame(self, frame: Frame) -> None:
        """Count a parsed frame. Raises `FrameLimit`, which ends the connection."""
        if frame.opcode in _DATA:
            self._fragments += 1
            if self._fragments > self._max_frames:
                raise FrameLimit(f"a message has {self._max_frames} frames at most")
            if frame.fin:
                self._fragments, self.max_message_size = 0, self.later
        else:
            self._count_control()
        super().recv_frame(frame)

    def fail(self, code: int, reason: str = "") -> None:
        """Fail as the library does, but report too many frames as a policy violation."""
        is_ours = code == CloseCode.PROTOCOL_ERROR and self._is_too_many()
        super().fail(CloseCode.POLICY_VIOLATION if is_ours else code, reason)

    def _is_too_many(self) -> bool:
        return self._fragments > self._max_frames or self._controls > self._max_frames

    def _count_control(self) -> None:
        if self._now() >= self._window_ends:
            self._controls, self._window_ends = 0, self._now() + CONTROL_WINDOW_S
        self._controls += 1
        if self._controls > self._max_frames:
            raise FrameLimit(f"a peer sends {self._max_frames} pings in a minute at most")


CLOSE_WAIT_S = 5.0
"""Seconds the node waits for a peer to close its WebSocket."""

FRAME_BYTES = 8 * 1024 * 1024
"""Length of the longest frame that we send; the reference peer accepts up to 16 MiB."""
SLICE_BYTES = 4096
SLICE_FRAMES = 32
"""After a slice with more frames than this the event loop gets a turn."""
SWITCHING_PROTOCOLS = 101
DENIED = "websocket.http.response.body"
BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
PUSH = "/push"


class _PeersFaults(logging.LoggerAdapter[logging.Logger]):
    """A log for our base, which takes a message that is no text for an exception of the program."""

    def exception(self, msg: object, *args: object, **_: Any) -> None:
        self.warning(msg, *args)


class TransferSocket(WebSocketsSansIOProtocol):
    """One connection. A subclass sets the limit of pushes from the settings."""

    first_message_bytes = 1024 * 1024
    """Of the first message; until it is here nobody knows that the peer means it."""
    pull_message_bytes = 16 * 1024 * 1024
    """Of a client that pulls; it names the objects it lacks, in some 130 bytes each."""
    push_message_bytes = 64 * 1024 * 1024
    max_frames = 16_384
    """Frames of one message, and pings of a peer in a minute."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.conn: BoundedProtocol = BoundedProtocol(
            first=self.first_message_bytes,
            later=self.pull_message_bytes,
            max_frames=self.max_frames,
            now=time.monotonic,
        )
        self.close_timeout = CLOSE_WAIT_S
        self._in_parts = False
        self._arrived: deque[memoryview] = deque()
        """Received slices that are not parsed yet."""
        self._held = False
        """Whether reading from the transport is paused because of waiting slices."""

    def data_received(self, data: bytes) -> None:
        was_idle, view = not self._arrived, memoryview(data)
        self._arrived.extend(view[at : at + SLICE_BYTES] for at in range(0, len(data), SLICE_BYTES))
        if was_idle:
            self._parse()
        else:
            self._hold()  # the application has resumed reading in between

    def _parse(self) -> None:
        while self._arrived and not self.disconnected:
            self.conn.receive_data(bytes(self._arrived.popleft()))
            frames = len(self.conn.events)
            self.handle_events()
            if self.conn.handshake_exc is not None and not self.handshake_initiated:
                self._refuse()
            elif self.conn.parser_exc is not None:
                self._arrived.clear()
                self.handle_parser_exception()
            elif frames > SLICE_FRAMES and self._arrived:
                self._hold()
                self.loop.call_soon(self._parse)
                return
        if self._held and not (self.read_paused or self.transport.is_closing()):
            self._held = False
            self.transport.resume_reading()

    def send_receive_event_to_app(self) -> None:
        own: Any = self.logger
        self.logger = _PeersFaults(own, {})  # type: ignore[assignment]
        try:
            super().send_receive_event_to_app()
        finally:
            self.logger = own

    def _refuse(self) -> None:
        """Respond to an upgrade that the library cannot read, such as one with long lines. uvicorn
        would say nothing and keep the connection for ever."""
        self._arrived.clear()
        self.transport.write(b"".join(self.conn.data_to_send()) or BAD_REQUEST)
        self.transport.close()

    def _hold(self) -> None:
        self._held = True
        self.transport.pause_reading()

    def handle_connect(self, event: Any) -> None:
        """Accept the subprotocol of the specification, although it is no token by RFC 6455."""
        if event.path.partition("?")[0].endswith(PUSH):
            self.conn.later = self.push_message_bytes
        offered = event.headers.get_all("Sec-WebSocket-Protocol") == [SUBPROTOCOL]
        if offered:
            del event.headers["Sec-WebSocket-Protocol"]
        super().handle_connect(event)
        if offered and self.response.status_code == SWITCHING_PROTOCOLS:
            self.scope["subprotocols"] = [SUBPROTOCOL]

    async def send(self, message: Any) -> None:
        """Send an ASGI message; the next message continues a text with `more`."""
        text = message.get("text") if message["type"] == "websocket.send" else None
        more = message.get("more", False)
        short = text is None or (len(text) <= FRAME_BYTES and not more and not self._in_parts)
        if text is None or short or not self._is_open:
            await super().send(message)
            if message["type"] == DENIED and not message.get("more_body", False):
                # This is a complete response, but uvicorn would log that the application gave none.
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
