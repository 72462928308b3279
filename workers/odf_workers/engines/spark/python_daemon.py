"""The parent of Spark's Python workers, at the one port to which the confined JVM may connect.

Spark starts it with the first stage that runs Python. PySpark's own daemon lets the system choose
the port, so the rules of the JVM's confinement could not name it in advance.
"""

from __future__ import annotations

import os
import socket

PORT = "ODF_PYTHON_PORT"
"""The variable with the port. Without it, as on other machines, the system chooses one."""


class _AtPort(socket.socket):
    """A socket that binds to the given port when the caller requests any free port."""

    def bind(self, address: object, /) -> None:
        if isinstance(address, tuple) and address[1] == 0:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            address = (address[0], int(os.environ[PORT]))
        super().bind(address)  # type: ignore[arg-type]


def free_port() -> int:
    """Return a port of this machine that is not in use now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


if __name__ == "__main__":
    from pyspark import daemon

    if PORT in os.environ:
        socket.socket = _AtPort  # type: ignore[misc]
    daemon.manager()
