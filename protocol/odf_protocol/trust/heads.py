"""The records of a log of heads: which block a head moved to, all heads at one time, a gap.

    odf-head/v1    dataset, kind of move, sequence number, block, time: a line each
    odf-map/v1     number of datasets, root over their newest records by id, time
    odf-gap/v1     size and root that the log had before a backup was restored, time

A private dataset is named by a salted hash of its id: who may read it gets the salt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ..errors import BadInput
from ..identity import DatasetId
from ..instant import Instant
from ..multihash import Multihash
from .merkle import HASH_BYTES, Nodes, leaf_hash, nodes_of, tree_root
from .notes import decimal, decoded, encoded

MAX_RECORD_BYTES = 2000
UNNAMED = "unnamed.invalid"
"""The host in the origin of a log whose node has no public address, beside a part of its key."""
SALTED = "salted:"
SALT_BYTES = 16


class HeadKind(StrEnum):
    """How a head moved."""

    COMMIT = "commit"
    RESET = "reset"
    COMPACTION = "compaction"
    DELETE = "delete"
    FOUND = "found"
    """The log did not see it move: it began later, or an older version moved it."""


@dataclass(frozen=True, slots=True)
class HeadRecord:
    """A head moved to `block`; from it, if the dataset was deleted."""

    HEADER = "odf-head/v1"
    name: str
    kind: HeadKind
    sequence: int
    block: Multihash
    at: Instant

    @classmethod
    def read(cls, name: str, kind: str, sequence: str, block: str, at: str) -> HeadRecord:
        number = decimal(sequence, "the sequence number")
        return cls(name, HeadKind(kind), number, Multihash.parse(block), Instant.parse(at))

    @property
    def entry(self) -> bytes:
        number, block = str(self.sequence), str(self.block)
        return _lines(self.HEADER, self.name, self.kind.value, number, block, str(self.at))


@dataclass(frozen=True, slots=True)
class MapRecord:
    """All heads at one time."""

    HEADER = "odf-map/v1"
    count: int
    root: bytes
    at: Instant

    @classmethod
    def read(cls, count: str, root: str, at: str) -> MapRecord:
        return cls(decimal(count, "the count"), _root(root), Instant.parse(at))

    @property
    def entry(self) -> bytes:
        return _lines(self.HEADER, str(self.count), encoded(self.root), str(self.at))


@dataclass(frozen=True, slots=True)
class GapRecord:
    """A backup was restored: the log had signed a larger tree, whose end is lost."""

    HEADER = "odf-gap/v1"
    size: int
    root: bytes
    at: Instant

    @classmethod
    def read(cls, size: str, root: str, at: str) -> GapRecord:
        return cls(decimal(size, "the size"), _root(root), Instant.parse(at))

    @property
    def entry(self) -> bytes:
        return _lines(self.HEADER, str(self.size), encoded(self.root), str(self.at))


Record = HeadRecord | MapRecord | GapRecord
_KINDS: dict[str, type[Record]] = {kind.HEADER: kind for kind in (HeadRecord, MapRecord, GapRecord)}


def read_record(entry: bytes) -> Record:
    """Read an entry of a log of heads. Raises `MalformedHeadRecord`."""
    try:
        header, *lines = entry[: MAX_RECORD_BYTES + 1].decode().split("\n")
        if len(entry) <= MAX_RECORD_BYTES and lines and lines.pop() == "":
            record: Record = _KINDS[header].read(*lines)
            if record.entry == entry:
                return record
    except (BadInput, KeyError, TypeError, ValueError):
        pass
    raise BadInput(
        "MalformedHeadRecord", "an entry of the log of heads is of no form that is known here"
    )


def logged_name(dataset: DatasetId, salt: bytes | None) -> str:
    """Return how the log names a dataset; only that of a private one has a salt."""
    if salt is None:
        return str(dataset)
    return SALTED + hashlib.sha256(salt + dataset.key).hexdigest()


def map_of(records: Iterable[bytes]) -> tuple[list[bytes], Nodes]:
    """Return leaf hashes and nodes of a map over the newest records, in the order of ids."""
    leaves = [leaf_hash(entry) for entry in records]
    return leaves, nodes_of(leaves)


def map_record(records: Iterable[bytes], at: Instant) -> MapRecord:
    leaves, nodes = map_of(records)
    return MapRecord(len(leaves), tree_root(len(leaves), nodes), at)


def _root(text: str) -> bytes:
    root = decoded(text, "the root")
    if len(root) != HASH_BYTES:
        raise BadInput("MalformedHeadRecord", f"a root has {HASH_BYTES} bytes")
    return root


def _lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
