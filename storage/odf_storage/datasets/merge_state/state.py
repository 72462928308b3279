"""The state of one dataset for one key as of a head: runs of segments, older runs first.

It works like a log-structured merge tree: rows of new slices become a new run, and runs of similar
size are merged, so that the cost of a batch depends on its own rows, and a lookup reads few runs.
A lookup returns a superset: it may include older versions of a row.

Segments: rows sorted by the hash of their key, one Arrow file each, mapped into memory.

Rows with equal hashes are oldest first, and in the same segment of a run. A file is written once
and its digest is recorded; a process that maps the file verifies the digest, unless it did so
recently and the file has not changed since.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.errors import Damaged

from ..integrity.healing import Hashed, identity_of_file
from .comparable import Hashes, equal_values, key_hashes

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


GROWTH = 2
"""A run is merged with the newer ones unless it is at least this many times larger than them."""


class StateSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a state keeps: columns of slices with their types as text, and its key columns."""

    key: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    operation: str | None
    """The column of operation codes; None: keep all keys that were seen, also retracted ones."""

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]


class StateManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a state."""

    spec: StateSpec
    head: str | None
    """The state includes all slices up to this block; None: no slices."""
    rows_seen: int = 0
    runs: tuple[tuple[SegmentInfo, ...], ...] = ()

    @property
    def size(self) -> int:
        return sum(segment.size for run in self.runs for segment in run)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows of a state whose key hash equals a requested one, from the oldest run to the newest.

    `asked` is the index of the requested hash; `segment` and `row` are the position of the row.
    """

    asked: Rows
    segment: Rows
    row: Rows

    def where(self, mask: Mask) -> Candidates:
        return Candidates(self.asked[mask], self.segment[mask], self.row[mask])


class MergeState:
    """The mapped segments of all runs, older runs first."""

    def __init__(self, segments: Sequence[Segment], schema: pa.Schema) -> None:
        self.segments, self.schema = segments, schema

    @property
    def rows(self) -> int:
        return sum(segment.info.rows for segment in self.segments)

    def find(self, hashes: Hashes) -> Candidates:
        """Return the rows for each of the hashes, which may have any order."""
        order = np.argsort(hashes, kind="stable")
        wanted = hashes[order]
        asked, positions, rows = [], [], []
        for at, segment in enumerate(self.segments):
            low = int(np.searchsorted(wanted, segment.info.first, "left"))
            high = int(np.searchsorted(wanted, segment.info.last, "right"))
            some = wanted[low:high]
            left = np.searchsorted(segment.hashes, some, "left")  # none is above the last
            hits = np.flatnonzero(segment.hashes[left] == some)
            if not len(hits):
                continue
            left = left[hits]
            counts = np.searchsorted(segment.hashes, some[hits], "right") - left
            total = int(counts.sum())
            begins = np.repeat(np.cumsum(counts) - counts, counts)
            rows.append(np.repeat(left, counts) + np.arange(total) - begins)
            asked.append(np.repeat(order[low:high][hits], counts))
            positions.append(np.full(total, at, np.int64))
        if not rows:
            none = np.zeros(0, np.int64)
            return Candidates(none, none, none)
        return Candidates(
            np.concatenate(asked).astype(np.int64),
            np.concatenate(positions),
            np.concatenate(rows).astype(np.int64),
        )

    def take(self, found: Candidates, columns: Sequence[str]) -> pa.Table:
        """Return the values of these rows, in the order of `found`."""
        names = list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        counts = np.bincount(found.segment)
        order = np.argsort(found.segment.astype(np.min_scalar_type(len(counts))), kind="stable")
        parts, ends = [], np.cumsum(counts)
        for at in np.flatnonzero(counts):
            some = order[ends[at] - counts[at] : ends[at]]
            batch = self.segments[int(at)].batch.select(names)
            parts.append(pa.Table.from_batches([batch.take(pa.array(found.row[some]))]))
        if not parts:
            return schema.empty_table()
        whole = pa.concat_tables(parts)
        if len(parts) == 1 or (np.diff(found.segment) >= 0).all():
            return whole
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return whole.take(back)


def latest_rows(rows: pa.Table, spec: StateSpec, *, oldest: bool) -> tuple[pa.Table, Hashes]:
    """Return the last row of each key and their hashes, in the order of segments. `rows` are given
    oldest first. `oldest`: there are no older rows, so that retracted rows may be dropped."""
    rows = rows.combine_chunks()
    hashes = key_hashes([_one(rows.column(name)) for name in spec.key])
    return latest(rows, hashes, list(spec.key), dropped=spec.operation if oldest else None)


def merged_runs(
    runs: Sequence[Sequence[Segment]],
    spec: StateSpec,
    folder: Path,
    *,
    oldest: bool,
    hashed: Hashed | None = None,
) -> Iterator[SegmentInfo]:
    """Merge several runs, given oldest first, into one, and note the digests of its files in
    `hashed`. `oldest`: there are no older runs, so that retracted rows may be dropped."""
    dropped = spec.operation if oldest else None
    pending: list[tuple[pa.Table, Hashes]] = []
    waiting = 0
    for low, high in _ranges(s.info for run in runs for s in run):
        parts = [part for run in runs for s in run if (part := _between(s, low, high)) is not None]
        if not parts:
            continue
        tables, hashes = zip(*parts, strict=True)
        rows = pa.concat_tables(tables).combine_chunks()
        kept = latest(rows, np.concatenate(hashes), list(spec.key), dropped=dropped)
        pending.append(kept)
        waiting += len(kept[1])
        if waiting >= SEGMENT_ROWS:
            yield from _flush(folder, pending, hashed)
            pending, waiting = [], 0
    yield from _flush(folder, pending, hashed)


def _flush(
    folder: Path, pending: list[tuple[pa.Table, Hashes]], hashed: Hashed | None
) -> Iterator[SegmentInfo]:
    if sum(len(each) for _, each in pending):
        rows = pa.concat_tables([table for table, _ in pending])
        hashes = np.concatenate([each for _, each in pending])
        yield from write_segments(folder, rows, hashes, hashed)


def _ranges(infos: Iterable[SegmentInfo]) -> Iterator[tuple[int, int]]:
    """Return ranges of hashes (above the first, up to the second) for the merge; each range meets
    at most one segment of each run."""
    bounds = sorted({info.last for info in infos})
    return zip([-1, *bounds[:-1]], bounds, strict=True) if bounds else iter(())


def _between(segment: Segment, low: int, high: int) -> tuple[pa.Table, Hashes] | None:
    """Return the rows with hashes above `low`, up to `high`; None if there are none."""
    if segment.info.last <= low or segment.info.first > high:
        return None
    start = 0 if low < 0 else int(np.searchsorted(segment.hashes, np.uint64(low), "right"))
    end = int(np.searchsorted(segment.hashes, np.uint64(high), "right"))
    if start == end:
        return None
    rows = pa.Table.from_batches([segment.batch.slice(start, end - start)])
    return rows, segment.hashes[start:end]


def to_merge(sizes: Sequence[int]) -> int:
    """Return how many of the newest runs (sizes in rows, oldest first) have to be merged."""
    count, total = 1, sizes[-1] if sizes else 0
    for size in reversed(sizes[:-1]):
        if size >= GROWTH * total:
            break
        count += 1
        total += size
    return count if count > 1 else 0


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
