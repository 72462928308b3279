"""What a process that forks others for questions says about each, to whoever asked for it."""

from __future__ import annotations

import os
import select
import signal
import struct
from contextlib import suppress

BIRTH = struct.Struct("=q")
"""The number of a new process, which comes with a handle of it before anything else."""
ENDING = struct.Struct("=i")
"""How it ended, as `waitpid` has it."""
ENDING_S = 10.0
"""The end of a process that was killed is told within this time."""


def end_forked(handle: int, told: int) -> None:
    """Kill the process of this handle, which is closed, and wait until its end is told."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    _is_told(told)
    os.close(handle)


def ending_signal(told: int) -> int | None:
    """The signal that ended the process of this pipe, if one did."""
    if not _is_told(told):
        return None
    said = os.read(told, ENDING.size)
    if len(said) < ENDING.size or not os.WIFSIGNALED(ENDING.unpack(said)[0]):
        return None
    return os.WTERMSIG(ENDING.unpack(said)[0])


def _is_told(told: int) -> bool:
    """Whether the end of a process is told by this pipe; waits a while."""
    return bool(select.select([told], [], [], ENDING_S)[0])
