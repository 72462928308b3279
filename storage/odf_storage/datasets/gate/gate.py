"""The gate of a commit: it refuses received slices that are not what their blocks declare.

Objects are hashed when they arrive, which proves their bytes; here a process that may crash opens
the Parquet file. Columns, number of rows, offsets, operations and system times are always checked;
rows are hashed at once up to a size, and otherwise later by a job.

Processes that check slices: started on demand, reused, and killed if they hang.

There is one set for this process, whichever nodes are open in it. If a process dies, by its memory
limit or because its time is up, the socket just closes without an answer.
"""

from __future__ import annotations

import json
import logging
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, cast

from odf_protocol.errors import BadInput, NodeFault

from ...runtime.children import Nursery
from ...stores.ports.values import ObjectKind
from ..contents.claims import SliceClaim
from ..contents.slice_limits import CheckLimits, GateLimits
from ..contents.slices import UNSTORABLE
from ..dataset.dataset import Dataset
from . import wire
from .child import HEAD, MAX_FILES, MEMORY

MOST = 2
"""Limit of processes at a time: each check uses a processor."""
ENVIRONMENT = {"LANG": "C.UTF-8", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""The whole environment of the process. With the system's allocator, memory counts when it is
used."""
NURSERY = Nursery("odf_storage.datasets.gate.child", ENVIRONMENT)

_log = logging.getLogger("odf.transfer")

Answer = list[list[dict[str, str]]]


class ChildLost(Exception):
    """The process ended, or had to be killed, before it answered."""


class GateChild:
    """One process and the socket to it."""

    def __init__(self, memory: int) -> None:
        """Raises `ChildLost`: none can be started."""
        self.memory = memory
        try:
            self._born = NURSERY.born()
        except ChildProcessError as lost:
            raise ChildLost from lost
        self._socket = self._born.link
        self._socket.sendall(MEMORY.pack(memory))

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
            raise NodeFault("GateFailed", f"received slices could not be looked at: {answer}")
        return cast("Answer", answer)

    def end(self) -> None:
        self._born.kill()

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
        self._idle: list[GateChild] = []

    @contextmanager
    def lent(self, memory: int) -> Iterator[GateChild]:
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

    def _idle_or_new(self, memory: int) -> GateChild:
        with self._lock:
            fitting = [child for child in self._idle if child.memory == memory]
            if fitting:
                self._idle.remove(fitting[-1])
                return fitting[-1]
            other = self._idle.pop() if self._idle else None
        if other is not None:
            other.end()
        return GateChild(memory)


CHILDREN = Children()


BATCH_BYTES = 1 << 30
"""Limit of the bytes of slices that are checked together; a larger one is checked alone."""
GIB = 1 << 30
COPY_BYTES = 1 << 20


class DataDoesNotMatchMetadata(BadInput):
    """A slice is not what its block declares, or has a value that readers cannot take. Facts:
    `block`, `sequence_number`, `object`, `reason` (as verification names it)."""

    def __init__(self, claim: SliceClaim, reason: str, message: str) -> None:
        what = "has a value that cannot be stored here"
        if reason != UNSTORABLE:
            what = "is not what it declares"
        super().__init__(
            f"block {claim.sequence_number} ({claim.block}) names a slice that {what}: {message}",
            block=str(claim.block),
            sequence_number=claim.sequence_number,
            object=str(claim.declared.physical_hash),
            reason=reason,
        )
        self.sequence_number, self.reason = claim.sequence_number, reason


class SliceGate:
    """Checks slices against their blocks, and judges their values unless they are in the chain
    already."""

    def __init__(
        self, limits: GateLimits, children: Children = CHILDREN, *, judges_values: bool = True
    ) -> None:
        self.limits, self._children, self._judges_values = limits, children, judges_values

    def hashes_rows(self, claims: Sequence[SliceClaim]) -> bool:
        """Return whether the rows of these slices are hashed before the head moves."""
        most = self.limits.hashed_at_once
        return most is None or sum(claim.declared.size for claim in claims) <= most

    def hold(self, dataset: Dataset, claims: Sequence[SliceClaim]) -> None:
        """Check slices that are stored with the declared size.

        Raises:
            DataDoesNotMatchMetadata: for the first slice that does not match its block.
            ObjectDamaged, ObjectHealing: the bytes of a slice do not match its hash.
        """
        how = CheckLimits(
            ratio=self.limits.ratio, rows=self.hashes_rows(claims), values=self._judges_values
        )
        for batch in _batches(claims):
            try:
                self._check(dataset, batch, how)
            except ChildLost:
                self._check_singly(dataset, batch, how)

    def _check_singly(
        self, dataset: Dataset, batch: Sequence[SliceClaim], how: CheckLimits
    ) -> None:
        """Find the slice of a batch that crashes the process."""
        for claim in batch:
            try:
                self._check(dataset, [claim], how)
            except ChildLost:
                message = (
                    f"looking at it takes more than {self.limits.memory} bytes of memory or "
                    f"{self._seconds([claim]):.0f} seconds"
                )
                raise DataDoesNotMatchMetadata(claim, "SliceTooLarge", message) from None

    def _check(self, dataset: Dataset, batch: Sequence[SliceClaim], how: CheckLimits) -> None:
        """Check one batch. Raises `ChildLost` and the same errors as `hold`."""
        with ExitStack() as opened:
            files = [opened.enter_context(_file(dataset, claim)).fileno() for claim in batch]
            with self._children.lent(self.limits.memory) as child:
                answer = child.ask(wire.dump(batch, how), files, self._seconds(batch))
        _refuse(batch, answer)

    def _seconds(self, batch: Sequence[SliceClaim]) -> float:
        return self.limits.seconds * (1 + sum(one.declared.size for one in batch) // GIB)


def _refuse(batch: Sequence[SliceClaim], answer: Answer) -> None:
    for claim, findings in zip(batch, answer, strict=True):
        for found in findings:
            raise DataDoesNotMatchMetadata(claim, found["reason"], found["message"])


def _batches(claims: Sequence[SliceClaim]) -> Iterator[list[SliceClaim]]:
    batch: list[SliceClaim] = []
    size = 0
    for claim in claims:
        if batch and (len(batch) == MAX_FILES or size + claim.declared.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(claim)
        size += claim.declared.size
    if batch:
        yield batch


@contextmanager
def _file(dataset: Dataset, claim: SliceClaim) -> Iterator[BinaryIO]:
    """Open the slice as a file: the stored file, or a private copy."""
    with dataset.open_whole(ObjectKind.DATA, claim.declared.physical_hash) as stream:
        try:
            stream.fileno()
            stream.flush()
        except OSError:
            with tempfile.TemporaryFile() as copy:
                shutil.copyfileobj(stream, copy, COPY_BYTES)
                copy.flush()
                yield copy
            return
        yield stream
