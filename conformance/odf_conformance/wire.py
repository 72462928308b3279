"""TCP connections of the checks, and scissors that cut a connection at a chosen step.

All higher layers use `Wire`, so that a test can end the connection before, in the middle of, or
after any message. Each message has a step name; `Scissors.passed` collects the names.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urlsplit

READ_BYTES = 4096
"""Number of bytes that the reference client reads at a time during the handshake."""
BULK_BYTES = 1 << 18
TIMEOUT_S = 30.0


class Disconnected(Exception):
    """The peer closed the connection, or sent nothing for too long."""


class Cut(Exception):
    """The scissors cut the connection, as the test requested."""


class Portion(Enum):
    """How much of a message passes before the cut."""

    NOTHING = "nothing"
    FIRST_BYTE = "the first byte"
    HALF = "half"
    ALL_BUT_ONE = "all but one byte"
    WHOLE = "all"

    def of(self, size: int) -> int:
        return {
            Portion.NOTHING: 0,
            Portion.FIRST_BYTE: min(1, size),
            Portion.HALF: size // 2,
            Portion.ALL_BUT_ONE: max(0, size - 1),
            Portion.WHOLE: size,
        }[self]


@dataclass
class Scissors:
    """A single cut of a connection: the step, the portion of it that passes, and close or reset."""

    step: str
    portion: Portion
    reset: bool
    done: bool = False
    passed: list[str] = field(default_factory=list)

    def at(self, step: str) -> Portion | None:
        self.passed.append(step)
        return self.portion if step == self.step and not self.done else None


@dataclass(frozen=True)
class Origin:
    """Scheme, host and port of an address."""

    secure: bool
    host: str
    port: int
    authority: str

    @classmethod
    def of(cls, url: str) -> Origin:
        parts = urlsplit(url)
        secure = parts.scheme in ("https", "wss")
        host = parts.hostname or ""
        authority = parts.netloc.rpartition("@")[2]
        return cls(secure, host, parts.port or (443 if secure else 80), authority)


class Wire:
    """One connection. A read returns bytes, or raises `Disconnected` or `Cut`."""

    def __init__(
        self, origin: Origin, *, scissors: Scissors | None = None, timeout: float = TIMEOUT_S
    ) -> None:
        self.scissors = scissors
        try:
            plain = socket.create_connection((origin.host, origin.port), timeout=timeout)
        except OSError as failed:
            raise Disconnected(f"no connection to {origin.authority}: {failed}") from None
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain
        if origin.secure:
            context = ssl.create_default_context()
            self._socket = context.wrap_socket(plain, server_hostname=origin.host)

    def send(self, content: bytes, step: str) -> None:
        """Send the content, or only the portion before a cut."""
        portion = self.scissors.at(step) if self.scissors else None
        try:
            self._socket.sendall(content[: portion.of(len(content))] if portion else content)
        except OSError as failed:
            if portion is None:
                raise Disconnected(f"the peer hung up during {step!r}: {failed}") from None
        if portion:
            self._cut()

    def receive(self, most: int = READ_BYTES) -> bytes:
        """Return some bytes. Raise `Disconnected` at the end of the stream."""
        try:
            content = self._socket.recv(most)
        except OSError as failed:
            raise Disconnected(f"nothing came: {failed}") from None
        if not content:
            raise Disconnected("the peer hung up")
        return content

    def heard(self, step: str, *portions: Portion) -> None:
        """Cut the connection if the scissors name this received step and one of these portions."""
        portion = self.scissors.at(step) if self.scissors else None
        if portion in portions:
            if portion is not Portion.NOTHING:
                self.receive(1)
            self._cut()

    def whole(self, step: str) -> None:
        """Cut the connection after a received message, if the scissors name this step."""
        if self.scissors and self.scissors.at(step) in (
            Portion.HALF,
            Portion.ALL_BUT_ONE,
            Portion.WHOLE,
        ):
            self._cut()

    def readable(self, patience: float, *others: socket.socket) -> bool:
        """Return whether bytes can be read in `patience` seconds. `others` also end the wait."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        ready, _, _ = select.select([self._socket, *others], [], [], max(0.0, patience))
        return self._socket in ready

    def patience(self, seconds: float) -> None:
        """Set how long reads wait from now on."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        self._socket.close()

    def _cut(self) -> None:
        scissors = self.scissors
        if scissors is None:
            raise Cut
        scissors.done = True
        if scissors.reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()
        raise Cut(f"{scissors.step}: {scissors.portion.value}")
