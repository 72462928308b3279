"""Children of a nursery: asked for, born by a fork, watched by their handle, and ended.

The nursery (`nursery.py`) is a process that has loaded what its children need. Who asks for a child
gets a connection to it, its pidfd, and a pipe that brings its exit status. What they say to each
other, and what a child may do, is theirs to say.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from .processes import PID, end_forked, ending_signal, import_places

START_S = 120.0
"""Seconds that a child may take to be born; the first one waits until all is loaded."""
STOP_S = 5.0
_RUN = (
    "import os, runpy, sys; _, places, *sys.argv = sys.argv; "
    "sys.path[:0] = places.split(os.pathsep); "
    "runpy.run_module(sys.argv[0], run_name='__main__')"
)


@dataclass(slots=True)
class Born:
    """A child. Whoever asked for it ends it by `kill` or `leave`."""

    link: socket.socket
    pid: int
    handle: int
    """Its pidfd; negative once it was ended."""
    status: int
    """The pipe that brings its exit status."""

    def kill(self) -> None:
        """Kill it, and wait until it is gone; afterwards its files can be removed."""
        if self.handle >= 0:
            end_forked(self.handle, self.status)
            self._close()

    def leave(self) -> None:
        """Close all ends, without waiting; a child ends when its connection does."""
        if self.handle >= 0:
            os.close(self.handle)
            self._close()

    def ending_signal(self) -> int | None:
        """Return the signal that ended it, or None. Waits a moment for its end."""
        return ending_signal(self.status)

    def _close(self) -> None:
        self.handle = -1
        self.link.close()
        os.close(self.status)


class Nursery:
    """A nursery, started when a child is first asked for, and again if it died. It ends with this
    object, and with this process."""

    def __init__(
        self,
        module: str,
        environment: Mapping[str, str],
        *,
        spares: int = 1,
    ) -> None:
        """
        Args:
            module: has `prepare()`, `answer(connection)`, and `KEEPS_LOG`: whether its children
                write to the standard error of this process.
            environment: the whole environment of the nursery.
            spares: children that wait ahead.
        """
        places = os.pathsep.join(import_places(module.partition(".")[0]))
        words = (places, "odf_storage.runtime.nursery", module, str(spares))
        self.command = [sys.executable, "-P", "-c", _RUN, *words]
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._end: weakref.finalize[..., Nursery] | None = None

    @property
    def pid(self) -> int | None:
        """The process of the nursery, if it was started."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the nursery, without waiting for it."""
        with self._lock:
            self._started()

    def born(self, wait_s: float = START_S) -> Born:
        """Have a child be born. Blocks until it is.

        Raises:
            ChildProcessError: none was born within `wait_s` seconds, as the nursery does not start,
                or cannot fork.
        """
        for _ in range(2):  # the nursery may have been killed, also while it was asked
            with suppress(OSError):
                return self._asked(wait_s)
        raise ChildProcessError

    def stop(self) -> None:
        """End the nursery, and so its children. The next child starts another one."""
        with self._lock:
            self._stopped()

    def _asked(self, wait_s: float) -> Born:
        """Return a child. Raises `OSError`."""
        ours, theirs = socket.socketpair()
        told, tells = os.pipe()
        try:
            with theirs:
                try:
                    with self._lock:
                        socket.send_fds(self._started(), [b"1"], [theirs.fileno(), tells])
                finally:
                    os.close(tells)
            ours.settimeout(wait_s)
            word, handles, _, _ = socket.recv_fds(ours, PID.size, 1)
            if not handles:
                raise ConnectionResetError
        except OSError:
            ours.close()
            os.close(told)
            raise
        return Born(ours, PID.unpack(word)[0], handles[0], told)

    def _started(self) -> socket.socket:
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._stopped()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                self.command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=self._environment,
                cwd="/",
                start_new_session=True,
            )
        self._end = weakref.finalize(self, _ended, self._process, self._control)
        return self._control

    def _stopped(self) -> None:
        if self._end is not None:
            self._end()
        self._control = self._process = self._end = None


def _ended(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
