"""A relay in front of a server: counts what clients send, as slowly as it is told to."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

REQUEST = re.compile(rb"\b(GET|HEAD|PUT|POST|PATCH) /[^ \r\n]* HTTP/1\.1\r\n")
PIECE = 64 * 1024


@dataclass
class Relayed:
    """Bytes from clients to the server, and the methods of their requests."""

    url: str = ""
    sent: int = 0
    methods: list[str] = field(default_factory=list)


@contextmanager
def relaying(target: str, *, bytes_per_s: float | None = None) -> Iterator[Relayed]:
    """Stand in front of the server at `target`."""
    relayed, place = Relayed(), urlsplit(target)
    where = (place.hostname or "", place.port or 80)
    listener = socket.create_server(("127.0.0.1", 0))
    relayed.url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    def serve(client: socket.socket) -> None:
        with closing(client), closing(socket.create_connection(where)) as server:
            back = threading.Thread(target=pour, args=(server, client), daemon=True)
            back.start()
            pour(client, server, count=True)
            back.join()

    def pour(source: socket.socket, sink: socket.socket, *, count: bool = False) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE):
                if count:
                    relayed.methods += [name.decode() for name in REQUEST.findall(piece)]
                    if bytes_per_s is not None:
                        time.sleep(len(piece) / bytes_per_s)
                sink.sendall(piece)
                if count:
                    relayed.sent += len(piece)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield relayed
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
