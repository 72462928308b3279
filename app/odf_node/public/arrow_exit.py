"""Delay the end of a program while threads of Arrow still release Python objects."""

from __future__ import annotations

import atexit
import gc
import sys
import time
from functools import cache

LONGEST_S = 0.2
"""Longest time in seconds that a program waits at its end while it still holds an Arrow dataset."""
_STEP_S = 0.005


@cache
def wait_for_arrow_at_exit() -> None:
    """Let Arrow release its fsspec file systems before Python ends.

    Arrow reads in its own threads. One of them releases the file system after the rows were
    returned, and needs Python for that. If Python has ended by then, the process aborts ("terminate
    called without an active exception"), although its work is done.
    """
    atexit.register(_wait)


def _wait() -> None:
    until = time.monotonic() + LONGEST_S
    while _is_held_by_arrow() and time.monotonic() < until:
        time.sleep(_STEP_S)


def _is_held_by_arrow() -> bool:
    arrow = sys.modules.get("pyarrow.fs")
    return arrow is not None and any(type(one) is arrow.FSSpecHandler for one in gc.get_objects())
