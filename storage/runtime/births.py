"""Messages about processes that a spawner process forks, one for each query."""

from __future__ import annotations

import os
import select
import signal
import struct
from contextlib import suppress

BIRTH = struct.Struct("=q")
"""The process id of a new process, sent with its pidfd before anything else."""
ENDING = struct.Struct("=i")
"""The exit status of the process, as `waitpid` returns it."""
ENDING_S = 10.0
"""Limit in seconds of the wait for the exit status of a killed process."""


def end_forked(handle: int, told: int) -> None:
    """Kill the process of this pidfd, wait until its exit status arrives, and close the pidfd."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    _is_told(told)
    os.close(handle)


def ending_signal(told: int) -> int | None:
    """Return the signal that ended the process whose status pipe is `told`; None if none did."""
    if not _is_told(told):
        return None
    said = os.read(told, ENDING.size)
    if len(said) < ENDING.size or not os.WIFSIGNALED(ENDING.unpack(said)[0]):
        return None
    return os.WTERMSIG(ENDING.unpack(said)[0])


def _is_told(told: int) -> bool:
    """Wait up to `ENDING_S` for the exit status in this pipe; return whether it is readable."""
    return bool(select.select([told], [], [], ENDING_S)[0])
