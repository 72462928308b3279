"""A server that never ends the head of its response."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def dripping() -> Iterator[int]:
    """A server that sends a byte of a header five times a second, for ever; its port."""
    ended = threading.Event()

    def drip(link: socket.socket) -> None:
        with link:
            try:
                link.sendall(b"HTTP/1.1 200 OK\r\nx: ")
                while not ended.wait(0.2):
                    link.sendall(b"x")
            except OSError:
                pass

    def accept(listening: socket.socket) -> None:
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(link,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        threading.Thread(target=accept, args=(listening,), daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)
