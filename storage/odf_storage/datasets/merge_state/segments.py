"""Segments: rows sorted by the hash of their key, one Arrow file each, mapped into memory.

Rows with equal hashes are oldest first, and in the same segment of a run. A file is written once
and its digest is recorded; a process that maps the file verifies the digest, unless it did so
recently and the file has not changed since.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.errors import Damaged

from ..integrity.identity import identity_of_file
from ..integrity.memory import Hashed
from .comparable import equal_values
from .key_hash import Hashes

HASH = "odf hash"
SEGMENT_ROWS = 1 << 20
SEGMENT_BYTES = 128 << 20
READ_BYTES = 1 << 20
RETRACT = 1
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class StateDamaged(Damaged):
    """A file of a merge state is damaged or missing."""


class SegmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A segment as its state lists it. `first` and `last` are its least and greatest hash."""

    name: str
    rows: int
    size: int
    first: int
    last: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A mapped segment."""

    info: SegmentInfo
    batch: pa.RecordBatch
    hashes: Hashes

    @classmethod
    def in_memory(cls, rows: pa.Table, hashes: Hashes) -> Segment:
        """Return sorted rows as a segment without a file."""
        batch = whole_batch(rows)
        info = SegmentInfo(
            name="",
            rows=batch.num_rows,
            size=batch.nbytes,
            first=int(hashes[0]),
            last=int(hashes[-1]),
            sha256="",
        )
        return cls(info, batch, hashes)

    @classmethod
    def map(cls, folder: Path, info: SegmentInfo, *, hashed: Hashed | None = None) -> Segment:
        """Map a file of the folder. Raises as `of`."""
        return cls.of(folder / info.name, info, hashed=hashed)

    @classmethod
    def of(cls, path: Path, info: SegmentInfo, *, hashed: Hashed | None = None) -> Segment:
        """Map a file after verifying its digest, unless `hashed` knows it. Raise `StateDamaged`."""
        try:
            identity = identity_of_file(path.stat())
            known = hashed is not None and hashed.knows(info.sha256, identity)
            if not known and _digest(path) != info.sha256:
                raise StateDamaged(f"merge state: {info.name} is not what was written")
            if hashed is not None:
                hashed.note(info.sha256, identity)
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
                batch = file.get_batch(0)
        except (OSError, pa.ArrowException) as bad:
            raise StateDamaged(f"merge state: {info.name} cannot be read ({bad})") from None
        hashes = batch.column(batch.num_columns - 1).to_numpy()
        return cls(info, batch.select(batch.schema.names[:-1]), hashes)


def write_segments(
    folder: Path, rows: pa.Table, hashes: Hashes, hashed: Hashed | None = None
) -> Iterator[SegmentInfo]:
    """Write sorted rows as segments of about `SEGMENT_ROWS` rows, and note their digests in
    `hashed`. Raise `StateDamaged`."""
    step = max(1, min(SEGMENT_ROWS, SEGMENT_BYTES * len(hashes) // max(1, rows.nbytes)))
    start = 0
    while start < len(hashes):
        end = min(start + step, len(hashes))
        if end < len(hashes):  # keep equal hashes in one segment
            end = int(np.searchsorted(hashes, hashes[end - 1], "right"))
        yield _write(folder, rows.slice(start, end - start), hashes[start:end], hashed)
        start = end


def _write(folder: Path, rows: pa.Table, hashes: Hashes, hashed: Hashed | None) -> SegmentInfo:
    batch = whole_batch(rows.append_column(HASH, pa.array(hashes)))
    name = f"{secrets.token_hex(8)}.arrow"
    path = folder / name
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    digest, stat = _digest(path), path.stat()
    if hashed is not None:
        hashed.note(digest, identity_of_file(stat))
    return SegmentInfo(
        name=name,
        rows=batch.num_rows,
        size=stat.st_size,
        first=int(hashes[0]),
        last=int(hashes[-1]),
        sha256=digest,
    )


def whole_batch(rows: pa.Table) -> pa.RecordBatch:
    """Return the rows as one batch. Raise `StateDamaged`."""
    batches = rows.combine_chunks().to_batches()
    if len(batches) != 1:
        raise StateDamaged("merge state: the rows are too long for one segment")
    return batches[0]


def latest(
    rows: pa.Table, hashes: Hashes, key: list[str], *, dropped: str | None
) -> tuple[pa.Table, Hashes]:
    """Return the last row of each key, in the order of segments; `rows` are given oldest first.
    `dropped` names the column of operations; if it is given, leave out retracted rows. If keys
    share a hash, keep all their rows."""
    order = np.argsort(hashes, kind="stable")  # fast for sorted runs
    hashes = hashes[order]
    follows = hashes[:-1] == hashes[1:]
    keep = np.ones(len(hashes), bool)
    keep[:-1] = ~follows
    pairs = np.flatnonzero(follows)
    mixed = np.zeros(0, np.uint64)
    if len(pairs):
        keys = rows.select(key)
        differ = ~same_rows(keys.take(order[pairs]), keys.take(order[pairs + 1]), key)
        mixed = np.unique(hashes[pairs[differ]])
        if len(mixed):
            keep |= np.isin(hashes, mixed)
    if dropped is not None:
        retracted = pc.equal(rows.column(dropped), RETRACT).fill_null(False)
        gone = np.asarray(retracted.to_numpy(zero_copy_only=False), bool)[order]
        keep &= ~gone | np.isin(hashes, mixed)
    return rows.take(order[keep]), hashes[keep]


def same_rows(one: pa.Table, other: pa.Table, columns: list[str]) -> Mask:
    """Return, row by row, whether all the columns are equal."""
    same = np.ones(one.num_rows, bool)
    for name in columns:
        same &= equal_values(one.column(name), other.column(name))
    return same


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
