"""The program that forks readers: it has imported what they need, and forks some ahead.

A newly started reader would import for half a second; a forked one is ready in milliseconds, and
some always wait. A waiting reader takes the next socket from the service's control socket and
notifies the nursery, which forks another. The nursery ends with the service, and idle readers with
the nursery.

    python -P -m odf_node.service.reader_process.nursery DESCRIPTOR SPARES
"""

from __future__ import annotations

import gc
import io
import os
import select
import signal
import socket
import struct
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf_storage.datasets.read.formats import Format, encoded
from odf_storage.runtime.logs import set_up
from odf_storage.runtime.processes import own_folder, remove_dead

from .child import serve

PID = struct.Struct("!I")
FOLDER = "odf-readers-"
PAUSE_S = 0.5
"""Seconds to wait before replacing a reader that died without a task."""


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    set_up("warning", "text")
    _warm_up()
    gc.collect()
    gc.freeze()  # keep the pages of these objects shared with the forks
    base = Path(tempfile.gettempdir())
    remove_dead(base, FOLDER)
    with own_folder(base, FOLDER) as folder:  # for readers, too, which may be killed
        tempfile.tempdir = str(folder)
        _Nursery(control, int(sys.argv[2])).run()


class _Nursery:
    """Keeps `spares` idle readers waiting."""

    def __init__(self, control: socket.socket, spares: int) -> None:
        self._control, self._spares = control, spares
        self._taken, self._take = os.pipe()
        self._wakes, self._wake = os.pipe()
        for end in (self._wakes, self._wake):
            os.set_blocking(end, False)
        self._waiting: set[int] = set()

    def run(self) -> None:
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM):  # only the end of the service ends us
            signal.signal(number, signal.SIG_IGN)
        events = select.poll()
        events.register(self._control, select.POLLRDHUP)
        events.register(self._taken, select.POLLIN)
        events.register(self._wakes, select.POLLIN)
        while True:
            while len(self._waiting) < self._spares:
                self._fork()
            ready = {descriptor for descriptor, _ in events.poll()}
            if self._control.fileno() in ready:
                break
            if self._taken in ready:
                self._waiting.discard(PID.unpack(os.read(self._taken, PID.size))[0])
            if self._wakes in ready:
                self._reap()
        for pid in self._waiting:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _fork(self) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                self._be_a_reader()
            finally:
                os._exit(0)
        self._waiting.add(pid)

    def _be_a_reader(self) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        for end in (self._taken, self._wakes, self._wake):
            os.close(end)
        raw, files, *_ = socket.recv_fds(self._control, 1, 1)
        if not raw or not files:
            return
        os.write(self._take, PID.pack(os.getpid()))
        os.close(self._take)
        self._control.close()
        with socket.socket(fileno=files[0]) as link:
            serve(link)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wakes, 4096)
        died_waiting = False
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                died_waiting |= found[0] in self._waiting
                self._waiting.discard(found[0])
        if died_waiting:
            select.select([], [], [], PAUSE_S)


def _warm_up() -> None:
    """Read and encode a small table before the first fork, so that readers inherit the caches."""
    table = pa.table({"n": [1, 2], "text": ["a", "b"]})
    file = io.BytesIO()
    pq.write_table(table, file)
    batches = list(pq.ParquetFile(file, pre_buffer=False).iter_batches(use_threads=False))
    for form in Format:
        list(encoded(table.schema, iter(batches), form))


if __name__ == "__main__":
    main()
