"""A WebSocket client as strict as the reference client: text messages, no extensions, no pings.

The module makes and reads frames itself, because a library would answer, compress or tolerate some
of them. While the client waits for a message, any frame but text is an error, even a Ping.
Source: RFC 6455; transfer protocol, framing and limits of the reference client.

Outcomes of a transfer for the reference client: updated, up to date, or an error.

A smart transfer as the reference client runs it: JSON texts in a fixed order.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from . import shapes
from .http import (
    BULK_BYTES,
    TIMEOUT_S,
    Answer,
    Headers,
    HttpOrigin,
    HttpWire,
    NotHttp,
    PeerDisconnected,
    Portion,
    Scissors,
    head_of,
    read_head,
)
from .shapes import BadShape, Notes, Shape, parsed

MAX_FRAME = 16 * 1024 * 1024
MAX_MESSAGE = 64 * 1024 * 1024
MAX_REASON = 123
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NOT_TEXT = "Message is not in text format"


class HandshakeRefused(Exception):
    """The server refused the upgrade by an HTTP response. `body` is the part in the first read."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        super().__init__(f"the upgrade was refused with {status}")
        self.status, self.body = status, body
        self.headers = dict(headers)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class BrokenFraming(Exception):
    """The peer did something that is a protocol error for the reference client."""


class Closed(Exception):
    """The peer sent a Close frame."""

    def __init__(self, code: int | None, reason: str) -> None:
        super().__init__(f"closed with {code}: {reason}")
        self.code, self.reason = code, reason


@dataclass(frozen=True)
class SocketFrame:
    opcode: int
    last: bool
    content: bytes


class WebSocket:
    """An open connection. `longest_frame` and `longest_message` are received sizes in bytes."""

    def __init__(self, wire: HttpWire, rest: bytes) -> None:
        self._wire, self._buffer = wire, bytearray(rest)
        self.longest_frame = self.longest_message = 0
        self.close_sent = False

    @classmethod
    def open(
        cls,
        url: str,
        headers: Headers = (),
        *,
        scissors: Scissors | None = None,
        timeout: float = TIMEOUT_S,
    ) -> WebSocket:
        """Shake hands at an `http(s)` address.

        Raises:
            HandshakeRefused: any status but 101. BrokenFraming: the response is no valid upgrade.
        """
        origin = HttpOrigin.of(url)
        wire = HttpWire(origin, scissors=scissors, timeout=timeout)
        try:
            key = base64.b64encode(os.urandom(16)).decode()
            wire.send(head_of("GET", url, origin, [*upgrade_headers(key), *headers]), "upgrade")
            wire.heard("upgrade answer", Portion.NOTHING, Portion.FIRST_BYTE)
            status, answered, rest = read_head(wire)
            if status != 101:
                raise HandshakeRefused(status, answered, rest)
            check_upgrade(dict(answered), key)
            wire.whole("upgrade answer")
        except BaseException:
            wire.close()
            raise
        return cls(wire, rest)

    def send(self, text: str, step: str = "", *, fragment: int | None = None) -> None:
        """Send a message in one frame, as the reference does, or in frames of `fragment` bytes."""
        content = text.encode()
        size = fragment or max(1, len(content))
        pieces = [content[at : at + size] for at in range(0, len(content), size)] or [b""]
        frames = [
            masked(TEXT if number == 0 else CONTINUATION, piece, last=number == len(pieces) - 1)
            for number, piece in enumerate(pieces)
        ]
        self._wire.send(b"".join(frames), step)

    def send_frame(self, opcode: int, content: bytes, *, last: bool = True) -> None:
        """Send any frame, for checks of how a node handles unusual frames."""
        self._wire.send(masked(opcode, content, last=last), "frame")

    def receive(self, step: str = "") -> str:
        """Return the next message.

        Raises:
            Closed: the peer sent a Close frame, and this client answered it.
            BrokenFraming: the message is no text, or exceeds the limits of the reference client.
            Disconnected: the connection ended without a Close.
        """
        self._wire.heard(f"{step} answer", Portion.NOTHING, Portion.FIRST_BYTE)
        content, opened = bytearray(), False
        while True:
            frame = self.read_frame()
            if frame.opcode == CLOSE:
                self._answer_close(frame)
            if frame.opcode not in (TEXT, CONTINUATION):
                raise BrokenFraming(NOT_TEXT)
            if (frame.opcode == CONTINUATION) is not opened:
                raise BrokenFraming("a fragment out of turn")
            opened = True
            content += frame.content
            if len(content) > MAX_MESSAGE:
                raise BrokenFraming(f"a message above {MAX_MESSAGE} bytes")
            if frame.last:
                break
        self._wire.whole(f"{step} answer")
        self.longest_message = max(self.longest_message, len(content))
        return _utf8(bytes(content))

    def read_frame(self) -> SocketFrame:
        """Return the next frame of any kind."""
        first, second = self._take(2)
        if first & 0x70:
            raise BrokenFraming("a reserved bit is set; no extension was agreed on")
        if second & 0x80:
            raise BrokenFraming("a node must not mask its frames")
        opcode, last, size = first & 0x0F, bool(first & 0x80), second & 0x7F
        if opcode >= CLOSE and (not last or size > 125):
            raise BrokenFraming("a control frame is fragmented or too long")
        if size == 126:
            (size,) = struct.unpack("!H", self._take(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self._take(8))
        if size > MAX_FRAME:
            raise BrokenFraming(f"a frame of {size} bytes; the reference takes {MAX_FRAME}")
        self.longest_frame = max(self.longest_frame, size)
        return SocketFrame(opcode, last, self._take(size))

    def silent_for(self, seconds: float) -> bool:
        """Return whether no frame at all arrives in that time."""
        return not self._buffer and not self._wire.readable(seconds)

    def waiting(self, patience: float, *others: socket.socket) -> bool:
        """Return whether a message has begun to arrive. `others` also end the wait."""
        return bool(self._buffer) or self._wire.readable(patience, *others)

    def close(self, code: int = 1000, reason: str = "", step: str = "close") -> None:
        """Send Close once, and read until the peer's Close; other frames are dropped."""
        if not self.close_sent:
            self.close_sent = True
            self._wire.send(masked(CLOSE, struct.pack("!H", code) + reason.encode()), step)
            with suppress(PeerDisconnected, BrokenFraming):
                while self.read_frame().opcode != CLOSE:
                    pass
        self._wire.close()

    def drop(self) -> None:
        """Close the connection without a Close frame."""
        self._wire.close()

    def patience(self, seconds: float) -> None:
        self._wire.patience(seconds)

    def _answer_close(self, frame: SocketFrame) -> None:
        if len(frame.content) == 1 or len(frame.content) > 2 + MAX_REASON:
            raise BrokenFraming("a Close frame of impossible length")
        code = struct.unpack("!H", frame.content[:2])[0] if frame.content else None
        reason = _utf8(frame.content[2:])
        if not self.close_sent:
            self.close_sent = True
            with suppress(PeerDisconnected):
                self._wire.send(masked(CLOSE, frame.content[:2]), "close")
        self._wire.close()
        raise Closed(code, reason)

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._buffer += self._wire.receive(BULK_BYTES)
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


def upgrade_headers(key: str) -> list[tuple[str, str]]:
    """Return the upgrade headers of the reference: no subprotocol, no extensions."""
    return [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", key),
    ]


def check_upgrade(headers: dict[str, str], key: str) -> None:
    """Raise `BrokenFraming` for an upgrade that the reference's library refuses."""
    digest = hashlib.sha1((key + GUID).encode(), usedforsecurity=False).digest()
    if headers.get("sec-websocket-accept") != base64.b64encode(digest).decode():
        raise BrokenFraming("the accept key does not answer ours")
    if headers.get("upgrade", "").lower() != "websocket":
        raise BrokenFraming("no Upgrade header in the answer")
    if "upgrade" not in headers.get("connection", "").lower():
        raise BrokenFraming("no Connection header in the answer")
    for name in ("sec-websocket-extensions", "sec-websocket-protocol"):
        if name in headers:
            raise BrokenFraming(f"{name} in the answer, though none was offered")


def masked(opcode: int, content: bytes, *, last: bool = True) -> bytes:
    """Return a frame with a mask, as clients must send it."""
    size, key = len(content), os.urandom(4)
    head = bytes([(0x80 if last else 0) | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack("!H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack("!Q", size)
    # one XOR of two large integers is much faster than a loop over bytes
    pad = (key * (size // 4 + 1))[:size]
    mixed = int.from_bytes(content, "big") ^ int.from_bytes(pad, "big")
    return head + key + mixed.to_bytes(size, "big")


def _utf8(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BrokenFraming("text that is no UTF-8") from None


class CloseReason(Enum):
    """The error kinds of the reference client, with its names for them."""

    NOT_FOUND = "dataset not found"
    UNAUTHENTICATED = "unauthenticated"
    UNAUTHORIZED = "unauthorized"
    DIVERGED = "diverged"
    AHEAD = "destination ahead"
    INVALID_INTERVAL = "invalid interval"
    OVERWRITE_SEED = "overwrite seed block"
    REF_COLLISION = "ref collision"
    NAME_COLLISION = "name collision"
    CORRUPTED = "corrupted source"
    DISCONNECTED = "client disconnected"
    INTERNAL = "internal error"


class GaveUp(Exception):
    """The client ends with an error. `facts` are the fields of the node's error."""

    def __init__(self, why: CloseReason, text: str = "", **facts: Any) -> None:
        super().__init__(f"{why.value}: {text}" if text else why.value)
        self.why, self.text, self.facts = why, text, facts


@dataclass(frozen=True)
class Result:
    """A transfer that succeeded. `num_blocks` 0 means up to date."""

    old_head: str | None
    new_head: str
    num_blocks: int = 0

    @property
    def up_to_date(self) -> bool:
        return self.num_blocks == 0


REFUSED = {
    401: CloseReason.UNAUTHENTICATED,
    403: CloseReason.UNAUTHORIZED,
    404: CloseReason.NOT_FOUND,
}
UNREADABLE = (BadShape, BrokenFraming, NotHttp)


def refused(refusal: HandshakeRefused) -> GaveUp:
    """Return the error for a refused handshake, with the part of the body in the first read."""
    why = REFUSED.get(refusal.status, CloseReason.INTERNAL)
    return GaveUp(why, refusal.text if refusal.status == 400 else "", status=refusal.status)


def hung_up(error: PeerDisconnected | Closed) -> GaveUp:
    return GaveUp(CloseReason.DISCONNECTED, str(error))


def unreadable(error: Exception) -> GaveUp:
    return GaveUp(CloseReason.INTERNAL, str(error))


def status_failure(answer: Answer, what: str) -> GaveUp:
    """Return the error for a status other than 2xx of an object or block."""
    return GaveUp(REFUSED.get(answer.status, CloseReason.INTERNAL), f"{what}: HTTP {answer.status}")


def error_in(reply: dict[str, Any]) -> GaveUp | None:
    """Return the client's error for an `Err` of any message, or None for `Ok`."""
    if "Err" not in reply:
        return None
    name, facts = next(iter(reply["Err"].items()))
    why = {
        "InvalidInterval": CloseReason.DIVERGED,
        "SeedBlockOverwriteRestricted": CloseReason.OVERWRITE_SEED,
        "RefCollision": CloseReason.REF_COLLISION,
        "NameCollision": CloseReason.NAME_COLLISION,
    }.get(name, CloseReason.INTERNAL)
    return GaveUp(why, name, **facts)


RUNNING = {"details": {"Running": {"uploaded_objects_count": 0}}}
COMPLETE = {"details": "Complete"}


class Exchange:
    """A smart transfer in progress. A Close has a meaning that depends on its position."""

    def __init__(
        self, url: str, headers: Headers, notes: Notes, scissors: Scissors | None, timeout: float
    ) -> None:
        self._notes = notes
        try:
            self.socket = WebSocket.open(url, headers, scissors=scissors, timeout=timeout)
        except HandshakeRefused as refusal:
            raise refused(refusal) from None
        except PeerDisconnected as gone:
            raise hung_up(gone) from None
        except UNREADABLE as broken:
            raise unreadable(broken) from None

    def say(self, message: Any, step: str = "", *, fragment: int | None = None) -> None:
        """Send one message, with JSON formatted as by the reference."""
        text = json.dumps(message, separators=(",", ":"))
        try:
            self.socket.send(text, step, fragment=fragment)
        except PeerDisconnected as gone:
            raise hung_up(gone) from None

    def hear(self, shape: Shape, step: str = "") -> Any:
        """Return the next message, or the reason of a Close with 1011, parsed as `shape`."""
        try:
            return parsed(self.socket.receive(step), shape, self._notes)
        except Closed as closed:
            if closed.code != 1011:
                raise hung_up(closed) from None
            return {"closed": True, **self._reason(closed, shape)}
        except PeerDisconnected as gone:
            raise hung_up(gone) from None
        except UNREADABLE as broken:
            raise unreadable(broken) from None

    def ask(self, message: Any, shape: Shape, step: str = "") -> Any:
        """Send a message and return the reply. Raise `GaveUp` for an `Err`."""
        self.say(message, step)
        reply = self.hear(shape, step)
        if failure := error_in(reply):
            self.socket.drop()
            raise failure
        return reply

    def close(self, reason: str) -> None:
        """End the transfer normally."""
        try:
            self.socket.close(1000, reason)
        except PeerDisconnected:
            self.socket.drop()

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.drop()

    def _reason(self, closed: Closed, shape: Shape) -> dict[str, Any]:
        try:
            reply: dict[str, Any] = parsed(closed.reason, shape, [])
        except shapes.BadShape as broken:
            raise GaveUp(CloseReason.INTERNAL, f"closed with {closed.reason!r}: {broken}") from None
        return reply
