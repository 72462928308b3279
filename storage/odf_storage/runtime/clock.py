"""What a program takes from its machine: time, randomness, pauses of the garbage collector.

Durations in the form that users write: `90m`, `24h`, `2d`, `45s`.

The clock of the store, for the times of log lines, leases and revocations.

The source of randomness of a program: `os.urandom`, except in tests.

Pauses the garbage collector while very many values are created that are all kept.

A chain of a hundred thousand blocks is a million small values without any cycle. Traversing them
again and again takes a fifth of the time of decoding them.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(text: str) -> timedelta:
    """Parse `90m`, `24h`, `2d` or `45s`. Raises `UnreadableDuration`."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) <= 6 and unit in SECONDS):
        raise BadInput(
            "UnreadableDuration", f"a time is written as 90m, 24h or 2d; not {text[:50]!r}"
        )
    return timedelta(seconds=int(number) * SECONDS[unit])


Clock = Callable[[], Instant]


def system_clock() -> Instant:
    return Instant(time.time_ns())


Random = Callable[[int], bytes]
"""Returns that many bytes that nobody can guess."""


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
