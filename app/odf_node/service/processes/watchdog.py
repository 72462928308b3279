"""Notice that the event loop stands still, and end a process whose loop does not come back.

While it stands still nobody is answered, and signals are not heeded. A thread logs where, if the
interpreter lets it run. One call in C may keep every thread of Python out, so the process is ended
by a timer of `faulthandler`, which needs no interpreter: it writes the stacks of all threads to the
standard error and ends the process at once. Whoever runs the service starts it again; nothing that
was acknowledged is lost by a kill.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import sys
import threading
import time
import traceback

from ..observe.counters import Counters

BEAT_S = 0.5
NOTICED_S = 2.0
"""Pauses from which on they are logged and counted, in seconds."""
_log = logging.getLogger("odf.node")


class Watchdog:
    """Watches the loop in which `start` is called, until `stop`."""

    def __init__(self, counters: Counters, *, ends_after_s: float) -> None:
        """`ends_after_s` is the pause after which the process ends; 0 means never."""
        self._counters, self._ends_after_s = counters, ends_after_s
        self._beaten = time.monotonic()
        self._ended = threading.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch. Call it in the loop, and once per process."""
        self._beaten = time.monotonic()
        self._task = asyncio.get_running_loop().create_task(self._beat())
        args = (threading.get_ident(),)
        threading.Thread(target=self._watch, args=args, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop to watch. Call it from any thread; the loop may have ended."""
        self._ended.set()
        faulthandler.cancel_dump_traceback_later()

    async def _beat(self) -> None:
        while not self._ended.is_set():
            if self._ends_after_s:
                faulthandler.dump_traceback_later(self._ends_after_s, exit=True)
            await asyncio.sleep(BEAT_S)
            paused = time.monotonic() - self._beaten - BEAT_S
            self._beaten = time.monotonic()
            if paused >= NOTICED_S:
                self._counters.stood_still(paused)
                _log.warning("the event loop stood still for %.1f s", paused)
        faulthandler.cancel_dump_traceback_later()

    def _watch(self, loop_thread: int) -> None:
        told = 0.0
        while not self._ended.wait(BEAT_S):
            since = self._beaten
            if time.monotonic() - since < NOTICED_S + BEAT_S or since == told:
                continue
            told = since
            frame = sys._current_frames().get(loop_thread)
            stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
            _log.warning("the event loop stands still:\n%s", stack)
