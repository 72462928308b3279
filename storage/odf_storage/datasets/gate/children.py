"""Processes that check slices: started on demand, reused, and killed if they hang.

There is one set for this process, whichever nodes are open in it. If a process dies, by its memory
limit or because its time is up, the socket just closes without an answer.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from odf_protocol.errors import NodeFault

from ...runtime.import_places import import_places
from .child import HEAD

MOST = 2
"""Limit of processes at a time: each check uses a processor."""
ENVIRONMENT = {"LANG": "C.UTF-8", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""The whole environment of the process. With the system's allocator, memory counts when it is
used."""
START = (
    "import os, sys; sys.path[:0] = sys.argv[1].split(os.pathsep); "
    "from odf_storage.datasets.gate.child import main; main(sys.argv[2:])"
)

_log = logging.getLogger("odf.transfer")

Answer = list[list[dict[str, str]]]


class GateFailed(NodeFault):
    """Slices could not be checked, and they are not the reason."""


class ChildLost(Exception):
    """The process ended, or had to be killed, before it answered."""


class Child:
    """One process and the socket to it."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._socket, theirs = socket.socketpair()
        places = os.pathsep.join(import_places())
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", START, places, str(theirs.fileno()), str(memory)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=ENVIRONMENT,
            )

    def ask(self, request: bytes, files: Sequence[int], seconds: float) -> Answer:
        """Return what is wrong with each of the files.

        Raises:
            ChildLost: no answer arrived, and the process cannot be used any more.
            GateFailed: the fault is ours.
        """
        try:
            self._socket.settimeout(seconds)
            socket.send_fds(self._socket, [HEAD.pack(len(request))], files)
            self._socket.sendall(request)
            answer = json.loads(self._exactly(HEAD.unpack(self._exactly(HEAD.size))[0]))
        except (OSError, EOFError, ValueError) as lost:
            _log.warning("a process that looked at received slices was lost: %r", lost)
            raise ChildLost from lost
        if isinstance(answer, str):
            raise GateFailed(f"received slices could not be looked at: {answer}")
        return cast("Answer", answer)

    def end(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _exactly(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self._socket.recv(length - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)


class Children:
    """A pool that lends processes. A process that survived its use is lent again."""

    def __init__(self, most: int = MOST) -> None:
        self._room = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._idle: list[Child] = []

    @contextmanager
    def lent(self, memory: int) -> Iterator[Child]:
        """Lend one process to one thread."""
        with self._room:
            child = self._idle_or_new(memory)
            try:
                yield child
            except BaseException:
                child.end()
                raise
            with self._lock:
                self._idle.append(child)

    def end(self) -> None:
        """End the processes that are not lent."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _idle_or_new(self, memory: int) -> Child:
        with self._lock:
            fitting = [child for child in self._idle if child.memory == memory]
            if fitting:
                self._idle.remove(fitting[-1])
                return fitting[-1]
            other = self._idle.pop() if self._idle else None
        if other is not None:
            other.end()
        return Child(memory)


CHILDREN = Children()
