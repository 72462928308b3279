"""The parent of Spark's Python workers, behind the one port that its confined JVM may connect to.

Spark starts it with the first stage that runs Python. PySpark's own lets the system choose a port,
which no rule of the JVM's confinement could name before.
"""

from __future__ import annotations

import os
import socket

PORT = "ODF_PYTHON_PORT"
"""The variable that names the port; without it the system chooses one, as on other machines."""


class _AtPort(socket.socket):
    """A socket that is bound to the named port where any would do."""

    def bind(self, address: object, /) -> None:
        if isinstance(address, tuple) and address[1] == 0:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            address = (address[0], int(os.environ[PORT]))
        super().bind(address)  # type: ignore[arg-type]


def free_port() -> int:
    """A port of this machine that nobody listens at now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


if __name__ == "__main__":
    from pyspark import daemon

    if PORT in os.environ:
        socket.socket = _AtPort  # type: ignore[misc]
    daemon.manager()
