"""A WebSocket client as strict as the reference client: text messages, no extensions, no pings.

The module makes and reads frames itself, because a library would answer, compress or tolerate some
of them. While the client waits for a message, any frame but text is an error, even a Ping.
Source: RFC 6455; transfer protocol, framing and limits of the reference client.
"""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

from .http import Headers, head_of, read_head
from .wire import BULK_BYTES, TIMEOUT_S, Disconnected, Origin, Portion, Scissors, Wire

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
class Frame:
    opcode: int
    last: bool
    content: bytes


class WebSocket:
    """An open connection. `longest_frame` and `longest_message` are received sizes in bytes."""

    def __init__(self, wire: Wire, rest: bytes) -> None:
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
        origin = Origin.of(url)
        wire = Wire(origin, scissors=scissors, timeout=timeout)
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

    def read_frame(self) -> Frame:
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
        return Frame(opcode, last, self._take(size))

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
            with suppress(Disconnected, BrokenFraming):
                while self.read_frame().opcode != CLOSE:
                    pass
        self._wire.close()

    def drop(self) -> None:
        """Close the connection without a Close frame."""
        self._wire.close()

    def patience(self, seconds: float) -> None:
        self._wire.patience(seconds)

    def _answer_close(self, frame: Frame) -> None:
        if len(frame.content) == 1 or len(frame.content) > 2 + MAX_REASON:
            raise BrokenFraming("a Close frame of impossible length")
        code = struct.unpack("!H", frame.content[:2])[0] if frame.content else None
        reason = _utf8(frame.content[2:])
        if not self.close_sent:
            self.close_sent = True
            with suppress(Disconnected):
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
