"""HTTP/1.1 as the reference client uses it: one request, exact headers, no negotiation.

The module uses bare sockets, because a library would add headers, apply further rules, and hide
how the server split the response into writes.

TCP connections of the checks, and scissors that cut a connection at a chosen step.

All higher layers use `HttpWire`, so that a test can end the connection before, in the middle of, or
after any message. Each message has a step name; `Scissors.passed` collects the names.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urljoin, urlsplit

READ_BYTES = 4096
"""Number of bytes that the reference client reads at a time during the handshake."""
BULK_BYTES = 1 << 18
TIMEOUT_S = 30.0


class PeerDisconnected(Exception):
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
class HttpOrigin:
    """Scheme, host and port of an address."""

    secure: bool
    host: str
    port: int
    authority: str

    @classmethod
    def of(cls, url: str) -> HttpOrigin:
        parts = urlsplit(url)
        secure = parts.scheme in ("https", "wss")
        host = parts.hostname or ""
        authority = parts.netloc.rpartition("@")[2]
        return cls(secure, host, parts.port or (443 if secure else 80), authority)


class HttpWire:
    """One connection. A read returns bytes, or raises `PeerDisconnected` or `Cut`."""

    def __init__(
        self, origin: HttpOrigin, *, scissors: Scissors | None = None, timeout: float = TIMEOUT_S
    ) -> None:
        self.scissors = scissors
        try:
            plain = socket.create_connection((origin.host, origin.port), timeout=timeout)
        except OSError as failed:
            raise PeerDisconnected(f"no connection to {origin.authority}: {failed}") from None
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
                raise PeerDisconnected(f"the peer hung up during {step!r}: {failed}") from None
        if portion:
            self._cut()

    def receive(self, most: int = READ_BYTES) -> bytes:
        """Return some bytes. Raise `PeerDisconnected` at the end of the stream."""
        try:
            content = self._socket.recv(most)
        except OSError as failed:
            raise PeerDisconnected(f"nothing came: {failed}") from None
        if not content:
            raise PeerDisconnected("the peer hung up")
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


MAX_HEADER_BYTES = 64 * 1024
MAX_REDIRECTS = 10
REDIRECTS = frozenset((301, 302, 303, 307, 308))
Headers = Sequence[tuple[str, str]]


class NotHttp(Exception):
    """The server did not respond in HTTP."""


@dataclass(frozen=True)
class Answer:
    """A response. `first_read` is the part of the body that was read together with the headers."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    first_read: bytes = b""

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None if it is absent or repeated."""
        values = [value for key, value in self.headers if key == name.lower()]
        return values[0] if len(values) == 1 else None

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def request(
    method: str,
    url: str,
    headers: Headers = (),
    body: bytes | None = None,
    *,
    announce: bool = True,
    step: str = "",
    scissors: Scissors | None = None,
    timeout: float = TIMEOUT_S,
) -> Answer:
    """Send one request on a new connection, and return the response.

    Args:
        announce: whether a body is announced by Content-Length.
        step: the name of the request for `scissors`; the name of the response is `… answer`.

    Raises:
        Disconnected, NotHttp: no complete response arrived. Cut: the scissors cut the connection.
    """
    origin = HttpOrigin.of(url)
    wire = HttpWire(origin, scissors=scissors, timeout=timeout)
    try:
        length = [("content-length", str(len(body)))] if body is not None and announce else []
        wire.send(head_of(method, url, origin, [*headers, *length]) + (body or b""), step)
        wire.heard(f"{step} answer", Portion.NOTHING, Portion.FIRST_BYTE)
        answer = read_answer(wire, bodiless=method == "HEAD")
        wire.whole(f"{step} answer")
        return answer
    finally:
        wire.close()


def follow(method: str, url: str, headers: Headers = (), **more: float) -> Answer:
    """Send a request and follow redirects. Credentials are not sent to other origins."""
    for _ in range(MAX_REDIRECTS):
        answer = request(method, url, headers, timeout=more.get("timeout", TIMEOUT_S))
        target = answer.header("location")
        if answer.status not in REDIRECTS or target is None:
            return answer
        onwards = urljoin(url, target)
        if HttpOrigin.of(onwards) != HttpOrigin.of(url):
            headers = [pair for pair in headers if pair[0].lower() != "authorization"]
        url = onwards
    raise NotHttp(f"more than {MAX_REDIRECTS} redirects")


def head_of(method: str, url: str, origin: HttpOrigin, headers: Headers) -> bytes:
    """Return request line and headers; `accept: */*` and the host are as in the reference."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"host: {origin.authority}"]
    if not any(name.lower() == "upgrade" for name, _ in headers):
        lines.append("accept: */*")
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def read_head(wire: HttpWire) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
    """Return the status, headers with lower-case names, and the bytes that were read after them."""
    got = b""
    while b"\r\n\r\n" not in got:
        if len(got) > MAX_HEADER_BYTES:
            raise NotHttp("the header block does not end")
        got += wire.receive()
    head, _, rest = got.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not status[:3].isdigit():
        raise NotHttp(f"no status line: {first[:80]!r}")
    pairs = (line.partition(":") for line in lines)
    headers = tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)
    return int(status[:3]), headers, rest


def read_answer(wire: HttpWire, *, bodiless: bool) -> Answer:
    """Read a whole response."""
    status, headers, rest = read_head(wire)
    while status in (100, 102, 103):
        raise NotHttp(f"an interim answer {status} nobody asked for")
    if bodiless or status in (204, 304):
        return Answer(status, headers, rest, rest)
    fields = dict(headers)
    if fields.get("transfer-encoding", "").lower() == "chunked":
        body = _chunks(wire, rest)
    elif "content-length" in fields:
        body = _exactly(wire, rest, int(fields["content-length"]))
    else:
        body = _to_the_end(wire, rest)
    return Answer(status, headers, body, rest)


def _exactly(wire: HttpWire, got: bytes, size: int) -> bytes:
    body = bytearray(got)
    while len(body) < size:
        body += wire.receive(BULK_BYTES)
    return bytes(body[:size])


def _to_the_end(wire: HttpWire, got: bytes) -> bytes:
    body = bytearray(got)
    try:
        while True:
            body += wire.receive(BULK_BYTES)
    except PeerDisconnected:
        return bytes(body)


def _chunks(wire: HttpWire, got: bytes) -> bytes:
    buffer, body = bytearray(got), bytearray()
    while True:
        while b"\r\n" not in buffer:
            buffer += wire.receive()
        line, _, rest = bytes(buffer).partition(b"\r\n")
        size = int(line.split(b";")[0], 16)
        buffer = bytearray(rest)
        while len(buffer) < size + 2:
            buffer += wire.receive(BULK_BYTES)
        if size == 0:
            return bytes(body)
        body += buffer[:size]
        del buffer[: size + 2]
