"""The program that forks query processes; the service starts it when needed, and again if it died.

The service knows only its command (`odf_workers/query/main.py`) and its protocol: over a socket the
service passes one end of a connection and one end of a pipe, which reports how the process ended.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
from importlib.util import find_spec

STOP_S = 5.0
_COMMAND = (sys.executable, "-P", "-m", "odf_workers.query.main")
_ENVIRONMENT = {
    # The memory limit of a process also counts memory that an allocator only reserves.
    "MIMALLOC_ARENA_EAGER_COMMIT": "0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    # Threads do not survive a fork.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONUTF8": "1",
}
"""The whole environment of the program, apart from `PYTHONPATH`; nothing is inherited."""


def is_installed() -> bool:
    """Return whether this installation has the query engine."""
    return find_spec("datafusion") is not None


class Spawner:
    """The one forking program of a service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        atexit.register(self.stop)

    def start(self) -> None:
        """Start the program, which loads the engine. Does not wait for it."""
        with self._lock:
            self._started()

    def ask(self, connection: int, tells: int) -> None:
        """Have a new process serve the connection; `tells` reports its end. Raises `OSError`."""
        with self._lock:
            try:
                socket.send_fds(self._started(), [b"1"], [connection, tells])
            except OSError:  # the program has died since
                self._end()
                socket.send_fds(self._started(), [b"1"], [connection, tells])

    def stop(self) -> None:
        with self._lock:
            self._end()

    def _started(self) -> socket.socket:
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._end()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                _COMMAND,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
                cwd="/",
                start_new_session=True,
            )
        return self._control

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_S)
            self._process = None
