"""The set of objects that the chain of a dataset names, with eight bytes for each object.

Only the first eight bytes of a digest are kept, so one unnamed object in 10^13 may count as named
and stay; a named object never counts as unnamed. A block of a newer version may name any slice or
checkpoint, so behind such a block all of them count as named.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

import numpy as np

from odf_protocol.metadata.block import HashedBlock, UnknownEvent
from odf_protocol.multihash import Multihash

from ...stores.ports.values import ObjectKind
from ..contents.named_objects import named_objects

NAMED_BY_EVENTS = (ObjectKind.DATA, ObjectKind.CHECKPOINT)


class Marks:
    """A growing set. `has` finds added objects after the next `settle`."""

    def __init__(self) -> None:
        self._marks = {kind: array("Q") for kind in ObjectKind}
        self.unknown: HashedBlock | None = None
        """A block whose event this version does not understand, if there is one."""

    def add(self, kind: ObjectKind, object_hash: Multihash) -> None:
        self._marks[kind].append(_short(object_hash))

    def add_block(self, block: HashedBlock) -> None:
        """Add a block and the objects it names."""
        self.add(ObjectKind.BLOCK, block.hash)
        if isinstance(block.event, UnknownEvent):
            self.unknown = block
        for named in named_objects(block.event):
            self.add(named.kind, named.hash)

    def settle(self) -> None:
        for marks in filter(len, self._marks.values()):
            np.frombuffer(marks, dtype=np.uint64).sort()

    def has(self, kind: ObjectKind, object_hash: Multihash) -> bool:
        if self.unknown is not None and kind in NAMED_BY_EVENTS:
            return True
        marks, short = self._marks[kind], _short(object_hash)
        index = bisect_left(marks, short)
        return index < len(marks) and marks[index] == short

    def count(self, kind: ObjectKind) -> int:
        return len(self._marks[kind])


def _short(object_hash: Multihash) -> int:
    return int.from_bytes(object_hash.digest[:8], "little")
