"""The program of the nursery: it has loaded what children need, and forks some ahead.

    python … odf_storage.runtime.nursery MODULE SPARES        (`children.py` starts it)

A newly started child would import for half a second; a forked one is ready in milliseconds, and
some always wait. The nursery imports `MODULE` and calls its `prepare()` once. A waiting child
receives one end of a connection, and one of a pipe, from the program that asks for children. It
tells the nursery, which forks another, sends its pidfd through the connection, calls
`MODULE.answer(connection)` and exits; the nursery writes its exit status to the pipe.

The nursery has an environment without secrets, and no open file but its standard streams. It ends
with the program that started it, and its children end with it.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from .processes import (
    EXIT_STATUS,
    PID,
    close_own_memory,
    end_with_parent,
    hide_pandas,
    own_folder,
    remove_dead,
)

FOLDER = "odf-children-"
PAUSE_S = 0.5
"""Seconds before a child is replaced that died without work, or that could not be forked."""
LINK = 3
"""The descriptor of a child's connection."""


def main(module: str, spares: int) -> None:
    """Serve until the other end of standard input is closed."""
    close_own_memory()
    hide_pandas()
    loaded = importlib.import_module(module)
    loaded.prepare()
    gc.collect()
    gc.freeze()  # a collection in a fork would write to the pages that all forks share
    base = Path(tempfile.gettempdir())
    remove_dead(base, FOLDER)
    with own_folder(base, FOLDER) as folder:  # for children, too, which may be killed
        tempfile.tempdir = str(folder)
        control = socket.socket(fileno=os.dup(0))
        _Nursery(control, spares, loaded.answer, keeps_log=loaded.KEEPS_LOG).run()


class _Nursery:
    """Keeps `spares` children waiting."""

    def __init__(
        self,
        control: socket.socket,
        spares: int,
        answer: Callable[[socket.socket], None],
        *,
        keeps_log: bool,
    ) -> None:
        self._control, self._spares = control, spares
        self._answer, self._keeps_log = answer, keeps_log
        self._told, self._tell = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._woken, self._wake = os.pipe()
        self._told.setblocking(False)  # `recv_fds` of Python 3.11 does not pass flags on
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        self._waiting: set[int] = set()
        self._ends: dict[int, int] = {}
        """Where to write the exit status of a child that has work, by its process."""

    def run(self) -> None:
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        for number in (signal.SIGINT, signal.SIGTERM):  # only the end of our parent ends us
            signal.signal(number, signal.SIG_IGN)
        events = select.poll()
        events.register(self._control, select.POLLRDHUP)
        events.register(self._told, select.POLLIN)
        events.register(self._woken, select.POLLIN)
        while True:
            while len(self._waiting) < self._spares and self._fork():
                pass
            is_short = len(self._waiting) < self._spares
            ready = {each for each, _ in events.poll(PAUSE_S * 1000 if is_short else None)}
            if self._control.fileno() in ready:
                break
            self._hear()
            if self._woken in ready:
                with suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._reap()
        for pid in (*self._waiting, *self._ends):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _fork(self) -> bool:
        try:
            pid = os.fork()
        except OSError:
            return False
        if pid == 0:
            self._live()
        self._waiting.add(pid)
        return True

    def _hear(self) -> None:
        """Learn which children have work now."""
        with suppress(BlockingIOError):
            while True:
                word, handles, _, _ = socket.recv_fds(self._told, PID.size, 1)
                (pid,) = PID.unpack(word)
                self._waiting.discard(pid)
                self._ends[pid] = handles[0]

    def _reap(self) -> None:
        died_waiting = False
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                if pid not in self._ends:
                    self._hear()  # it may have had work for a moment
                self._waiting.discard(pid)
                end = self._ends.pop(pid, None)
                if end is None:
                    died_waiting = True
                    continue
                with suppress(OSError):
                    os.write(end, EXIT_STATUS.pack(status))
                os.close(end)
        if died_waiting:
            time.sleep(PAUSE_S)

    def _live(self) -> NoReturn:
        """Be a child, from its fork to its exit."""
        code = 1
        try:
            end_with_parent()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            if self._take_work():
                self._answer(socket.socket(fileno=LINK))
            code = 0
        finally:
            os._exit(code)

    def _take_work(self) -> bool:
        """Wait for work, and keep nothing open but its connection. False: there is none any
        more."""
        word, handles, _, _ = socket.recv_fds(self._control, 1, 2)
        if not word or len(handles) != 2:
            return False
        link, tells = handles
        me = PID.pack(os.getpid())
        socket.send_fds(self._tell, [me], [tells])
        kept = os.dup(link)
        os.dup2(kept, LINK)
        os.closerange(LINK + 1, os.sysconf("SC_OPEN_MAX"))
        nothing = os.open(os.devnull, os.O_RDWR)
        for handle in (0, 1) if self._keeps_log else (0, 1, 2):
            os.dup2(nothing, handle)
        os.close(nothing)
        own = os.pidfd_open(os.getpid())
        with socket.socket(fileno=os.dup(LINK)) as connection:
            socket.send_fds(connection, [me], [own])
        os.close(own)
        return True


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal that only has to wake `poll`."""


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
