"""A proxy that counts: how many requests a reader makes of a server, and how many bytes it gets.

Speaks just enough HTTP/1.1 for readers of files: one request at a time, bodies by length.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Counted:
    """What went through: request lines with their Range, and bytes of bodies."""

    url: str = ""
    requests: list[str] = field(default_factory=list)
    bytes: int = 0

    def reset(self) -> None:
        self.requests, self.bytes = [], 0


@contextmanager
def counting(target: str) -> Iterator[Counted]:
    """Stand in front of the server at `target`."""
    counted = Counted()
    place = urlsplit(target)
    listener = socket.create_server(("127.0.0.1", 0))
    counted.url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    def serve(client: socket.socket) -> None:
        server = socket.create_connection((place.hostname, place.port))
        with (
            closing(client),
            closing(server),
            client.makefile("rb") as ask,
            server.makefile("rb") as answer,
        ):
            while _relay(ask, server, answer, client, counted):
                pass

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield counted
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _relay(ask, server, answer, client, counted) -> bool:
    """One request and its answer; False when the connection ends."""
    try:
        first, head = _head(ask)
        if not first:
            return False
        counted.requests.append(f"{first} {head.get('range', '')}".strip())
        server.sendall(head["raw"])
        status, back = _head(answer)
        client.sendall(back["raw"])
        method, code = first.split()[0], status.split()[1]
        if method == "HEAD" or code in ("204", "304"):
            return True
        left = int(back.get("content-length", 0))
        while left:
            piece = answer.read1(min(left, 1 << 16))
            if not piece:
                return False
            left -= len(piece)
            counted.bytes += len(piece)
            client.sendall(piece)
        return back.get("connection", "").lower() != "close"
    except OSError:
        return False


def _head(stream) -> tuple[str, dict]:
    """First line, and the headers by lower-case name; `raw` is all of it."""
    raw = stream.readline()
    first, fields = raw.decode("latin-1").strip(), {}
    while raw and (line := stream.readline()):
        raw += line
        if line in (b"\r\n", b"\n"):
            break
        name, _, value = line.decode("latin-1").partition(":")
        fields[name.strip().lower()] = value.strip()
    return first, {**fields, "raw": raw}
