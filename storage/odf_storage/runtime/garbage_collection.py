"""Pauses the garbage collector while very many values are created that are all kept.

A chain of a hundred thousand blocks is a million small values without any cycle. Traversing them
again and again takes a fifth of the time of decoding them.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_at_work = 0
_was_enabled = False


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause collections in this process; they resume when the last of several threads leaves."""
    global _at_work, _was_enabled
    with _lock:
        if _at_work == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _at_work += 1
    try:
        yield
    finally:
        with _lock:
            _at_work -= 1
            if _at_work == 0 and _was_enabled:
                gc.enable()
