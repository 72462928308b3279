"""Programs that end while threads of Arrow still drop objects of Python."""

from __future__ import annotations

import atexit
import gc
import sys
import time
from functools import cache

LONGEST_S = 0.2
"""What a program waits at its end that still holds a dataset of Arrow."""
_STEP_S = 0.005


@cache
def wait_for_arrow_at_exit() -> None:
    """Let Arrow drop its file systems over fsspec before Python ends.

    Arrow reads by threads of its own. One of them drops the file system after the rows were given
    out, and needs Python for that; when Python has ended meanwhile, the process aborts ("terminate
    called without an active exception"), although all it was to do is done.
    """
    atexit.register(_wait)


def _wait() -> None:
    until = time.monotonic() + LONGEST_S
    while _is_held_by_arrow() and time.monotonic() < until:
        time.sleep(_STEP_S)


def _is_held_by_arrow() -> bool:
    arrow = sys.modules.get("pyarrow.fs")
    return arrow is not None and any(type(one) is arrow.FSSpecHandler for one in gc.get_objects())
