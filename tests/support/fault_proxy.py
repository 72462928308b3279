"""An HTTP proxy that does what networks do: refuses, breaks off, cuts short, is slow.

Stands between a client and a real server. Each request takes the next fault of the plan;
when the plan is empty, requests pass.
"""

from __future__ import annotations

import http.client
import socket
import socketserver
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

SLOW_DOWN = (
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
PAGE = b"<html><body>There is no such site.</body></html>"
DELAY_S = 1.5


@dataclass(frozen=True)
class Answer:
    """What the server behind the proxy said."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def raw(self) -> bytes:
        kept = [
            (k, v) for k, v in self.headers if k.lower() not in ("transfer-encoding", "connection")
        ]
        if not any(k.lower() == "content-length" for k, _ in kept):
            kept.append(("Content-Length", str(len(self.body))))
        head = "".join(f"{k}: {v}\r\n" for k, v in kept)
        return f"HTTP/1.1 {self.status} -\r\n{head}\r\n".encode("latin-1") + self.body


Forward = Callable[[], Answer]
Send = Callable[[bytes], None]


class Reset(Exception):
    """End the connection with a reset."""


class Close(Exception):
    """End the connection in the ordinary way."""


def _pass(forward: Forward, send: Send) -> None:
    send(forward().raw())


def _busy(_forward: Forward, send: Send) -> None:
    send(Answer(503, [("Content-Type", "application/xml")], SLOW_DOWN).raw())


def _fails_after_doing(forward: Forward, send: Send) -> None:
    forward()
    send(Answer(500, [], b"").raw())


def _stranger(_forward: Forward, send: Send) -> None:
    send(Answer(404, [("Content-Type", "text/html")], PAGE).raw())


def _page(
    status: int, server: str, *, does: bool, **headers: str
) -> Callable[[Forward, Send], None]:
    """A proxy's own page, before or after the server behind it has done what was asked."""
    told = [("Server", server), ("Content-Type", "text/html"), *headers.items()]
    body = f"<html>\r\n<head><title>{status}</title></head></html>".encode()

    def fault(forward: Forward, send: Send) -> None:
        if does:
            forward()
        send(Answer(status, told, body).raw())

    return fault


def _empty_504(forward: Forward, send: Send) -> None:
    forward()
    send(Answer(504, [], b"").raw())


def _json(status: int, message: str) -> Callable[[Forward, Send], None]:
    """What gateways of clouds answer after the server behind them has done what was asked."""
    body = f'{{"message":"{message}"}}'.encode()

    def fault(forward: Forward, send: Send) -> None:
        forward()
        send(Answer(status, [("Content-Type", "application/json")], body).raw())

    return fault


def _reset(_forward: Forward, _send: Send) -> None:
    raise Reset


def _reset_after_doing(forward: Forward, _send: Send) -> None:
    forward()
    raise Reset


def _cut_short(forward: Forward, send: Send) -> None:
    answer = forward()
    raw = answer.raw()
    send(raw[: len(raw) - (len(answer.body) + 1) // 2])
    raise Close


def _reset_in_between(forward: Forward, send: Send) -> None:
    answer = forward()
    raw = answer.raw()
    send(raw[: len(raw) - (len(answer.body) + 1) // 2])
    time.sleep(0.05)
    raise Reset


def _slow(_forward: Forward, _send: Send) -> None:
    time.sleep(DELAY_S)
    raise Close


FAULTS: dict[str, Callable[[Forward, Send], None]] = {
    "busy": _busy,
    "fails after doing": _fails_after_doing,
    "reset": _reset,
    "reset after doing": _reset_after_doing,
    "cut short": _cut_short,
    "reset in between": _reset_in_between,
    "slow": _slow,
}
"""What may go wrong on the way to a server that is alive."""
STRANGER = "a stranger's 404"
GATEWAYS = {
    "502": _page(502, "nginx", does=False),
    "502 after doing": _page(502, "nginx", does=True),
    "503": _page(503, "Caddy", does=False),
    "504 after doing": _page(504, "nginx/1.26", does=True),
    "504 without a body": _empty_504,
    "504 in JSON": _json(504, "Endpoint request timed out"),
    "503 in JSON": _json(503, "Service Unavailable"),
    "200 in JSON": _json(200, "ok"),
    "500 after doing": _page(500, "nginx", does=True),
    "408": _page(408, "haproxy", does=False),
    "413": _page(413, "nginx", does=False),
    "429": _page(429, "cloudflare", does=False, **{"Retry-After": "1"}),
    "308": _page(308, "nginx", does=False, Location="https://node.example/rows/ingest"),
}
"""What proxies of the public network answer in place of the node behind them."""
_ALL = {**FAULTS, **GATEWAYS, STRANGER: _stranger, "pass": _pass}


class FaultProxy:
    """The proxy's address, and what it will do next."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.always: str | None = None
        self.seen: list[str] = []
        self.agents: list[str] = []
        """Who asked, beside what was `seen`."""
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        """Bytes of bodies of requests and of answers that passed, by who asked."""
        self._plan: deque[str] = deque()

    def then(self, *faults: str) -> None:
        """The next requests meet these."""
        self._plan.extend(faults)

    def clear(self) -> None:
        self._plan.clear()
        self.always = None
        self.seen.clear()
        self.agents.clear()
        self.sent.clear()
        self.received.clear()

    def take(self, request: str, agent: str = "") -> Callable[[Forward, Send], None]:
        self.seen.append(request)
        self.agents.append(agent)
        try:
            return _ALL[self.always or self._plan.popleft()]
        except IndexError:
            return _pass


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = cast("_Server", self.server)
        try:
            while self._one(server):
                pass
        except Reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (Close, OSError):
            return

    def _one(self, server: _Server) -> bool:
        line = self.rfile.readline(65536).decode("latin-1").split()
        if len(line) != 3:
            return False
        headers = http.client.parse_headers(self.rfile)
        if headers.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        chunked = headers.get("transfer-encoding", "") == "chunked"
        body = self._chunks() if chunked else self.rfile.read(int(headers.get("content-length", 0)))
        if chunked:
            del headers["transfer-encoding"]

        agent = headers.get("user-agent", "")

        def forward() -> Answer:
            answer = _ask(server.upstream, line[0], line[1], headers.items(), body)
            server.proxy.sent[agent] += len(body)
            server.proxy.received[agent] += len(answer.body)
            return answer

        server.proxy.take(f"{line[0]} {line[1]}", agent)(forward, self._send)
        return True

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(100), 16):
            body += self.rfile.read(size)
            self.rfile.readline(100)
        self.rfile.readline(100)
        return body

    def _send(self, raw: bytes) -> None:
        self.wfile.write(raw)


def _ask(upstream: str, method: str, path: str, headers: Any, body: bytes) -> Answer:
    connection = http.client.HTTPConnection(upstream, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            if name.lower() not in ("expect", "connection", "content-length"):
                connection.putheader(name, value)
        if body or method == "POST":
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return Answer(answer.status, answer.getheaders(), answer.read())
    finally:
        connection.close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128
    proxy: FaultProxy
    upstream: str

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken connections are what this is for."""


@contextmanager
def fault_proxy(endpoint: str) -> Iterator[FaultProxy]:
    """A proxy before `endpoint` (`http://host:port`), on a port of its own."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.upstream = endpoint.removeprefix("http://")
        server.proxy = FaultProxy(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.proxy
        finally:
            server.shutdown()
            thread.join()
