"""Messages about processes that a spawner process forks, one for each query."""

from __future__ import annotations

import os
import select
import signal
import struct
from contextlib import suppress

PID = struct.Struct("=q")
"""The process id of a new process, sent with its pidfd before anything else."""
EXIT_STATUS = struct.Struct("=i")
"""The exit status of the process, as `waitpid` returns it."""
ENDING_S = 10.0
"""Limit in seconds of the wait for the exit status of a killed process."""


def end_forked(handle: int, status_pipe: int) -> None:
    """Kill the process of this pidfd, wait until its exit status arrives, and close the pidfd."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    _has_status(status_pipe)
    os.close(handle)


def ending_signal(status_pipe: int) -> int | None:
    """Return the signal that ended the process, or None. `status_pipe` brings its exit status."""
    if not _has_status(status_pipe):
        return None
    said = os.read(status_pipe, EXIT_STATUS.size)
    if len(said) < EXIT_STATUS.size or not os.WIFSIGNALED(EXIT_STATUS.unpack(said)[0]):
        return None
    return os.WTERMSIG(EXIT_STATUS.unpack(said)[0])


def _has_status(status_pipe: int) -> bool:
    """Wait up to `ENDING_S` for the exit status in this pipe; return whether it is readable."""
    return bool(select.select([status_pipe], [], [], ENDING_S)[0])
