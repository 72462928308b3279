"""The spawner: a process that has loaded the engine, and forks a process for each query.

    python -P -m odf_workers.engines.datafusion.spawner MODULE

It starts with an environment without secrets, and no open handle but standard input, a socket. For
each query a worker sends one end of a connection and the write end of a pipe through that socket.
The spawner calls `MODULE.prepare()` once. Each fork calls `MODULE.answer(connection)` and exits;
the spawner writes its exit status to the pipe. So a process for a query costs a fork instead of
loading an engine, and serves one query only.
"""

from __future__ import annotations

import gc
import importlib
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from odf_storage.runtime.processes import EXIT_STATUS, PID

from ...confine import close_own_memory
from ...confine.landlock import SET_PARENT_DEATH_SIGNAL, prctl

Answer = Callable[[socket.socket], None]


class _Without:
    """Hides pandas: Arrow would import it if installed, which takes longer than all the rest."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def main(module: str) -> None:
    """Serve until standard input ends. The processes for queries end when this one ends."""
    close_own_memory()
    sys.meta_path.insert(0, _Without())
    loaded = importlib.import_module(module)
    loaded.prepare()
    gc.collect()
    gc.freeze()  # a collection in a fork would write to the pages that all forks share
    _serve(socket.socket(fileno=os.dup(0)), loaded.answer)


def _serve(asked: socket.socket, answer: Answer) -> None:
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    ends: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        for each in (asked, woken):
            selector.register(each, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(4096)
                _reap(ends)
            if asked in ready:
                word, handles, _, _ = socket.recv_fds(asked, 1, 2)
                if not word:
                    return
                _beget(socket.socket(fileno=handles[0]), handles[1], ends, answer)


def _beget(connection: socket.socket, end: int, ends: dict[int, int], answer: Answer) -> None:
    """Fork for a query. If that fails, close the connection without sending anything."""
    with connection:
        try:
            pid = os.fork()
        except OSError:
            os.close(end)
            return
        if pid == 0:
            _live(connection, answer)
        ends[pid] = end
        handle = os.pidfd_open(pid)
        try:
            socket.send_fds(connection, [PID.pack(pid)], [handle])
        except OSError:  # nobody waits for it any more
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _live(connection: socket.socket, answer: Answer) -> None:
    """Run the process of one query, from its fork to its exit. Does not return."""
    code = 1
    try:
        prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        kept = os.dup(connection.fileno())
        os.dup2(kept, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        nothing = os.open(os.devnull, os.O_RDWR)
        for handle in (0, 1, 2):
            os.dup2(nothing, handle)
        os.close(nothing)
        answer(socket.socket(fileno=3))
        code = 0
    finally:
        os._exit(code)


def _reap(ends: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        end = ends.pop(pid)
        with suppress(OSError):
            os.write(end, EXIT_STATUS.pack(status))
        os.close(end)


if __name__ == "__main__":
    main(sys.argv[1])
