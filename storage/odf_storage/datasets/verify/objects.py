"""Verify one object against its block: its size, its physical hash and, for a slice, its rows.

Only the first difference is reported. A derivative's slice may be encoded differently if its size
and its rows stay the same.

The bytes of an object under verification: read once, hashed on the way, kept for its rows.

Objects of usual size stay in memory, in buffers that are reused for later objects: the system
would first have to clear fresh memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa

from odf_protocol.errors import Damaged, NotFound
from odf_protocol.metadata.events import DatasetKind, DataSlice
from odf_protocol.multihash import SHA3_256, Multihash

from ...lanes import Stream, hash_all
from ...stores.index.named_objects import NamedObject
from ..contents.slices import Difference, SliceCheck
from .source import ObjectSource

CHUNK_BYTES = 1928 * 136
"""Bytes of a chunk: some 256 KiB fit into the cache of a core while they are hashed. It is a
multiple of the SHA3-256 block size, so that the hash has no partial blocks to buffer."""
HELD_BYTES = 64 << 20
"""Size in bytes of the largest object that is kept in memory; each thread keeps a few."""


class Buffers:
    """Pool of buffers for one object each, for all threads. Pickling it gives an empty pool."""

    def __init__(self) -> None:
        self._spare: list[bytearray] = []

    def __reduce__(self) -> tuple[type[Buffers], tuple[()]]:
        return Buffers, ()

    @contextmanager
    def lent(self, size: int) -> Iterator[memoryview]:
        buffer = self._spare.pop() if self._spare else bytearray()
        if len(buffer) < size:
            buffer = bytearray(size + size // 8)  # the next object may be a little larger
        yield memoryview(buffer)[:size]
        self._spare.append(buffer)


class Passing:
    """Counts the bytes that are read for a hash."""

    def __init__(self) -> None:
        self.size = 0

    def read(
        self, stream: BinaryIO, limit: int, keep: Callable[[bytes], object]
    ) -> Iterator[bytes]:
        """Yield the chunks of a stream to its end, or to one byte past the limit."""
        while self.size <= limit and (
            chunk := stream.read(min(CHUNK_BYTES, limit + 1 - self.size))
        ):
            yield chunk
            self.size += len(chunk)
            keep(chunk)


def filled(stream: Any, buffer: memoryview) -> int:
    """Fill the buffer from the stream; return the number of bytes. It is one more than the size of
    the buffer if more bytes follow."""
    size = 0
    while count := stream.readinto(buffer[size : size + CHUNK_BYTES]):
        size += int(count)
    return size + (size == len(buffer) and bool(stream.read(1)))


WRONG_SIZE = "SizeMismatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """How to check: with rows (`logical`), or bytes only. For a derivative, its rows decide."""

    kind: DatasetKind | None
    logical: bool = True
    buffers: Buffers = field(default_factory=Buffers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a block declares about one of its objects."""

    named: NamedObject
    rows: DataSlice | None
    """None if the object is not a slice."""
    offset_column: str | None
    """None if the vocabulary is not known; offsets are not checked then."""


@dataclass(frozen=True, slots=True)
class ObjectVerdict:
    """What is wrong with an object, and how much of it was read."""

    findings: list[Difference]
    size: int = 0
    """Number of bytes that were hashed, at most the declared number."""
    has_right_rows: bool = False


class ObjectCheck:
    """The check of one object. The caller hashes the `streams` and passes the digests to `verdict`.

    The bytes and the rows of a slice that fits into memory are hashed in parallel.
    """

    def __init__(
        self, checks: Checks, source: ObjectSource, claim: Declared, opened: ExitStack
    ) -> None:
        self.streams: Sequence[Stream] = ()
        self._claim, self._checks, self._opened = claim, checks, opened
        self._passing = Passing()
        self._rows: SliceCheck | None = None
        self._large: Any = None
        self._missing: list[Difference] = []
        named = claim.named
        try:
            stream = opened.enter_context(source.open_object(named.kind, named.hash))
        except NotFound:
            self._missing = [Difference(reason="ObjectMissing", message="the object is not there")]
        except Damaged as said:  # a remote node reports the damage and does not send the object
            self._missing = [Difference(reason="PhysicalHashMismatch", message=said.message)]
        else:
            self._begin(stream)

    def verdict(self, digests: Sequence[bytes]) -> ObjectVerdict:
        """Return the verdict, given the digests of the streams."""
        if self._missing:
            return ObjectVerdict(self._missing)
        if self._large is not None:
            return self._verdict_of_large(self._large)
        wrong = self._wrong_bytes(digests[:1])
        if self._rows is None or self._is_final(wrong):
            return self._told(wrong)
        return self._weighed(wrong, self._rows.found(digests[1:]))

    def _begin(self, stream: Any) -> None:
        size = self._claim.named.size
        if self._claim.rows is None or not self._checks.logical:
            self.streams = [self._passing.read(stream, size, _dropped)]
        elif size > HELD_BYTES:
            self._large = stream
        else:
            buffer = self._opened.enter_context(self._checks.buffers.lent(size))
            self._passing.size = filled(stream, buffer)
            if self._passing.size == size:
                self._rows = self._row_check(pa.py_buffer(buffer))
                self.streams = [[buffer], *self._rows.streams]

    def _row_check(self, source: Any) -> SliceCheck:
        if self._claim.rows is None:
            raise TypeError("only slices have rows")
        return SliceCheck(source, self._claim.rows, offset_column=self._claim.offset_column)

    def _verdict_of_large(self, stream: Any) -> ObjectVerdict:
        """Return the verdict on a slice too large for memory: hash its bytes, then read its rows
        from the same stream, or from a temporary file if the stream is not seekable."""
        again: Any = stream
        keep: Callable[[bytes], object] = _dropped
        if not stream.seekable():
            again = tempfile.TemporaryFile()  # noqa: SIM115 – closed with what else is open
            keep = self._opened.enter_context(again).write
        digests = hash_all([self._passing.read(stream, self._claim.named.size, keep)])
        wrong = self._wrong_bytes(digests)
        if self._is_final(wrong):
            return self._told(wrong)
        rows = self._row_check(again)
        return self._weighed(wrong, rows.found(hash_all(rows.streams)))

    def _wrong_bytes(self, digests: Sequence[bytes]) -> list[Difference]:
        """Compare size and physical hash; if the size differs, there may be no digest."""
        passed, named = self._passing.size, self._claim.named
        if passed != named.size:
            found = f"more than {named.size}" if passed > named.size else str(passed)
            message = f"{named.size} bytes were declared, it has {found}"
            return [Difference(reason=WRONG_SIZE, message=message)]
        actual = Multihash(SHA3_256, digests[0])
        if actual == named.hash:
            return []
        return [Difference(reason="PhysicalHashMismatch", message=f"its bytes hash to {actual}")]

    def _is_final(self, wrong: list[Difference]) -> bool:
        """Return whether a difference counts even if the rows are right."""
        may_differ = self._checks.kind is DatasetKind.Derivative
        return any(not may_differ or finding.reason == WRONG_SIZE for finding in wrong)

    def _weighed(self, wrong: list[Difference], rows: list[Difference]) -> ObjectVerdict:
        right = not any(finding.certain for finding in rows)
        return self._told(_weigh(wrong, rows), has_right_rows=right)

    def _told(self, findings: list[Difference], *, has_right_rows: bool = False) -> ObjectVerdict:
        return ObjectVerdict(
            findings, min(self._passing.size, self._claim.named.size), has_right_rows
        )


def _weigh(physical: list[Difference], rows: list[Difference]) -> list[Difference]:
    """Combine the findings on a derivative's slice; other bytes are fine if its rows are right."""
    if not physical:
        return rows
    remarks = [finding for finding in rows if finding.remark]
    rows = [finding for finding in rows if not finding.remark]
    if any(finding.reason == "UnreadableSlice" for finding in rows):
        return physical
    if any(finding.certain for finding in rows):
        return rows
    if rows:  # it is uncertain whether the rows are right, so report the other bytes too
        return [*physical, *rows]
    message = (
        f"{physical[0].message}, but its rows are the declared ones: it was encoded anew. Readers "
        "and peers take only the bytes of the hash, so pull the object or compute it again"
    )
    return [Difference(reason=physical[0].reason, message=message, certain=False), *remarks]


def _dropped(_: bytes) -> object:
    """Ignore bytes that are not needed again."""
