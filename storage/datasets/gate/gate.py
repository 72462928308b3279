"""The gate of a commit: slices that were received are what their blocks declare, or stay out.

Objects are hashed when they come, which proves their bytes; here Parquet is opened, by a process
that may die of it. Columns, number of rows, offsets, operations and system times are looked at
always; rows are hashed at once up to a size, and otherwise by a job afterwards.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from odf_node.protocol.errors import BadInput

from ...stores.ports.values import ObjectKind
from ..contents.claims import SliceClaim
from ..contents.slice_limits import CheckLimits, GateLimits
from ..dataset.dataset import Dataset
from . import wire
from .child import MAX_FILES
from .children import CHILDREN, Answer, ChildLost, Children

BATCH_BYTES = 1 << 30
"""Slices that are looked at together, or one that is larger."""
GIB = 1 << 30
COPY_BYTES = 1 << 20


class DataDoesNotMatchMetadata(BadInput):
    """A slice is not what its block declares. Facts: `block`, `sequence_number`, `object`,
    `reason` (as verification names it)."""

    def __init__(self, claim: SliceClaim, reason: str, message: str) -> None:
        super().__init__(
            f"block {claim.sequence_number} ({claim.block}) names a slice that is not what it "
            f"declares: {message}",
            block=str(claim.block),
            sequence_number=claim.sequence_number,
            object=str(claim.declared.physical_hash),
            reason=reason,
        )
        self.sequence_number, self.reason = claim.sequence_number, reason


class SliceGate:
    """Holds slices to their blocks."""

    def __init__(self, limits: GateLimits, children: Children = CHILDREN) -> None:
        self.limits, self._children = limits, children

    def hashes_rows(self, claims: Sequence[SliceClaim]) -> bool:
        """Whether rows of so much are hashed before the head moves."""
        most = self.limits.hashed_at_once
        return most is None or sum(claim.declared.size for claim in claims) <= most

    def hold(self, dataset: Dataset, claims: Sequence[SliceClaim]) -> None:
        """Look at slices that are here, of the declared size.

        Raises:
            DataDoesNotMatchMetadata: for the first that is not what it should be.
            ObjectDamaged, ObjectHealing: one is not the bytes of its name.
        """
        how = CheckLimits(ratio=self.limits.ratio, rows=self.hashes_rows(claims))
        for batch in _batches(claims):
            try:
                self._check(dataset, batch, how)
            except ChildLost:
                self._check_singly(dataset, batch, how)

    def _check_singly(
        self, dataset: Dataset, batch: Sequence[SliceClaim], how: CheckLimits
    ) -> None:
        """Of several that cannot be looked at, find the one."""
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
        """Raises `ChildLost` and as `hold`."""
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
    """The slice as an open file: as it lies there, or a copy that nobody else sees."""
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
