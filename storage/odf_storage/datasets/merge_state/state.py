"""The state of one dataset for one key as of a head: runs of segments, older runs first.

It works like a log-structured merge tree: rows of new slices become a new run, and runs of similar
size are merged, so that the cost of a batch depends on its own rows, and a lookup reads few runs.
A lookup returns a superset: it may include older versions of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from ..integrity.memory import Hashed
from .key_hash import Hashes, key_hashes
from .segments import SEGMENT_ROWS, Mask, Rows, Segment, SegmentInfo, latest, write_segments

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


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
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
