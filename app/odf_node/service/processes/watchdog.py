"""Notice that the event loop stands still, and end a process whose loop does not come back.

While it stands still nobody is answered, and signals are not heeded. A thread logs where, if the
interpreter lets it run. One call in C may keep every thread of Python out, so the process is ended
by a timer of the kernel. `faulthandler` answers its signal, SIGALRM, without the interpreter: it
writes the stack of the interrupted thread to the standard error (nothing if that thread is not one
of Python, as can be after a pause of the whole process) and lets the signal end the process. Its
own timer is no use: it reads the stacks of all threads while these run on, and a process that was
merely paused then ended by a segmentation fault. Whoever runs the service starts it again; nothing
that was acknowledged is lost by a kill.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import signal
import sys
import threading
import time
import traceback

from ..observe.metrics import Counters

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
        """Begin to watch. Call it in the loop of the main thread, and once per process."""
        self._beaten = time.monotonic()
        if self._ends_after_s:
            faulthandler.register(signal.SIGALRM, all_threads=False, chain=True)
        self._task = asyncio.get_running_loop().create_task(self._beat())
        args = (threading.get_ident(),)
        threading.Thread(target=self._watch, args=args, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop to watch. Call it from any thread; the loop may have ended."""
        self._ended.set()
        self._end_after(0)

    async def _beat(self) -> None:
        while not self._ended.is_set():
            self._end_after(self._ends_after_s)
            await asyncio.sleep(BEAT_S)
            paused = time.monotonic() - self._beaten - BEAT_S
            self._beaten = time.monotonic()
            if paused >= NOTICED_S:
                self._counters.stood_still(paused)
                _log.warning("the event loop stood still for %.1f s", paused)
        self._end_after(0)

    def _end_after(self, seconds: float) -> None:
        """Set the timer anew; 0 takes it away. Nothing else in this process has a timer."""
        if self._ends_after_s:
            signal.setitimer(signal.ITIMER_REAL, seconds)

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
