"""A relay whose connections a test cuts, in front of a server that it may exchange."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit

PIECE = 64 * 1024


class Relay:
    """Stands at `url`. Without a target it ends each connection at once."""

    def __init__(self, target: str | None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.target = target
        self._open: set[socket.socket] = set()
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End the connections there are."""
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
                self.cuts += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with closing(client):
            if self.target is None:
                return
            place = urlsplit(self.target)
            with closing(socket.create_connection((place.hostname or "", place.port or 80))) as far:
                self._open.add(client)
                back = threading.Thread(target=_pour, args=(far, client), daemon=True)
                back.start()
                _pour(client, far)
                back.join()
                self._open.discard(client)


def _pour(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(PIECE):
            sink.sendall(piece)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def relaying_with_cuts(target: str) -> Iterator[Relay]:
    """In front of `target` until the block ends."""
    with closing(Relay(target)) as relay:
        yield relay
