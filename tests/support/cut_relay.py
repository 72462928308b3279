"""A relay of TCP connections that can be cut, all at once, whatever is on its way."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PIECE_BYTES = 4096
RESET = struct.pack("ii", 1, 0)
"""A socket that lingers for no time is closed by a reset."""


class CutRelay:
    """To `port` of this machine; `asked` holds what clients sent."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.asked: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    @property
    def is_used(self) -> bool:
        with self._lock:
            return bool(self._pairs)

    def cut(self) -> int:
        """End the connections there are; return how many."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                _end(end)
        return len(pairs)

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:  # nobody listens there for now
                    near.close()
                    continue
                pair = (near, far)
                with self._lock:
                    self._pairs.append(pair)
                for one, other in (pair, pair[::-1]):
                    threading.Thread(
                        target=self._pass, args=(one, other, pair), daemon=True
                    ).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def _pass(
        self, one: socket.socket, other: socket.socket, pair: tuple[socket.socket, socket.socket]
    ) -> None:
        with suppress(OSError):
            while piece := one.recv(PIECE_BYTES):
                if one is pair[0]:
                    self.asked.append(piece)
                other.sendall(piece)
        with self._lock:
            if pair in self._pairs:
                self._pairs.remove(pair)
        for end in pair:
            _end(end)


def _end(connection: socket.socket) -> None:
    """The peer sees the end at once: a close alone waits for the thread that still reads."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def cut_relay(port: int) -> Iterator[CutRelay]:
    relay = CutRelay(port)
    thread = threading.Thread(target=relay.serve, daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        relay.close()
        thread.join(5)
