"""The checkpoint: the state between two runs, as one deterministic file.

It is a tar of a `manifest.json` (the query's fingerprint, the watermarks) and one Parquet file per
side of an operator. Rows are sorted by `odf bucket`, a hash of the columns that decide which rows
are combined. A step processes only the buckets that it touches, and copies the others in batches,
so memory does not grow with the state. Equal rows give equal bytes: rows have one order, one writer
writes them in batches of fixed size, and the tar has no owners or times.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.arrow_digest import windows
from odf_storage.runtime.sorted_numbers import distinct

from .fold import BUCKET
from .operators import NOTHING, Bounds
from .pieces import AT
from .port import ForeignState

FORMAT = 1
MANIFEST = "manifest.json"
BATCH_ROWS = 65_536
ROW_GROUP_ROWS = 1 << 18
Buckets = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True)
class State:
    """An unpacked checkpoint, or an empty one."""

    folder: Path
    watermarks: dict[str, int | None] = field(default_factory=dict)
    sections: frozenset[str] = frozenset()

    def path(self, section: str) -> Path | None:
        return self.folder / section if section in self.sections else None


def open_state(path: Path | None, fingerprint: str, folder: Path) -> State:
    """Unpack a checkpoint. Raise `ForeignState` if another query or another engine wrote it."""
    folder.mkdir(parents=True, exist_ok=True)
    if path is None:
        return State(folder)
    try:
        with tarfile.open(path, "r:") as tar:
            tar.extractall(folder, filter="data")
        manifest = json.loads((folder / MANIFEST).read_text())
    except (tarfile.TarError, OSError, ValueError) as bad:
        raise ForeignState(f"the checkpoint is none of this engine: {bad}") from None
    if manifest.get("format") != FORMAT or manifest.get("query") != fingerprint:
        raise ForeignState("the checkpoint was written for another query: reset the derivative")
    return State(folder, manifest["watermarks"], frozenset(manifest["sections"]))


def write_state(
    path: Path, fingerprint: str, watermarks: dict[str, int | None], sections: Sequence[Path]
) -> None:
    """Pack sections into a checkpoint."""
    manifest = {
        "format": FORMAT,
        "query": fingerprint,
        "watermarks": watermarks,
        "sections": [section.name for section in sections],
    }
    text = json.dumps(manifest, sort_keys=True).encode()
    with tarfile.open(path, "w:", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(_entry(MANIFEST, len(text)), io.BytesIO(text))
        for section in sections:
            with section.open("rb") as content:
                tar.addfile(_entry(section.name, section.stat().st_size), content)


def waking(section: Path | None, bounds: Bounds) -> Buckets:
    """Return the buckets with a row whose time is within the bounds [from, to)."""
    start, end = bounds
    if section is None or end is None or bounds == NOTHING or (start is not None and start >= end):
        return np.empty(0, np.int64)
    found = []
    for batch in pq.ParquetFile(section).iter_batches(BATCH_ROWS, columns=[BUCKET, AT]):
        at = batch.column(AT).to_numpy(zero_copy_only=False)
        hit = at < end if start is None else (at >= start) & (at < end)
        found.append(batch.column(BUCKET).to_numpy()[hit])
    return distinct(np.concatenate(found)) if found else np.empty(0, np.int64)


def extract(section: Path, buckets: Buckets, to: Path) -> int:
    """Write the rows of some buckets to the file `to`, and return their number."""
    count = 0
    file = pq.ParquetFile(section)
    with pq.ParquetWriter(to, file.schema_arrow, compression="snappy") as writer:
        for batch in file.iter_batches(BATCH_ROWS):
            hit = batch.filter(pa.array(_among(batch, buckets)))
            if hit.num_rows:
                writer.write_batch(hit)
                count += hit.num_rows
    return count


def write_section(
    to: Path,
    schema: pa.Schema,
    fresh: Iterator[pa.RecordBatch],
    *,
    old: Path | None,
    replaced: Buckets,
    keep: int | None,
) -> int:
    """Write the rows of a side: the fresh ones, and old ones whose bucket is not in `replaced`.

    Both must be sorted by bucket, and have no bucket in common. Return the number of rows.
    """
    kept = _kept(old, replaced, keep)
    count = 0
    with pq.ParquetWriter(to, schema, compression="zstd", compression_level=1) as writer:
        for batch in windows(_merged(kept, fresh, schema), BATCH_ROWS):
            if batch.num_rows:
                writer.write_batch(batch, ROW_GROUP_ROWS)
                count += batch.num_rows
    return count


def _kept(old: Path | None, replaced: Buckets, keep: int | None) -> Iterator[pa.RecordBatch]:
    if old is None:
        return
    for batch in pq.ParquetFile(old).iter_batches(BATCH_ROWS):
        mask = ~_among(batch, replaced)
        if keep is not None:
            mask &= pc.greater_equal(batch.column(AT), keep).to_numpy(zero_copy_only=False)
        if mask.any():
            yield batch if mask.all() else batch.filter(pa.array(mask))


def _merged(
    one: Iterator[pa.RecordBatch], other: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Merge two sorted streams. No bucket is in both, so the rows of a bucket keep their order."""
    streams = [_filled(one, schema), _filled(other, schema)]
    heads = [next(stream, None) for stream in streams]
    while (left := heads[0]) is not None and (right := heads[1]) is not None:
        parts = []
        end = min(int(head.column(BUCKET)[-1].as_py()) for head in (left, right))
        for at, head in enumerate((left, right)):
            cut = int(np.searchsorted(head.column(BUCKET).to_numpy(), end, side="right"))
            parts.append(head.slice(0, cut))
            rest = head.slice(cut)
            heads[at] = rest if rest.num_rows else next(streams[at], None)
        both = pa.Table.from_batches(parts)
        order = np.argsort(both.column(BUCKET).to_numpy(), kind="stable")
        yield from both.take(pa.array(order)).combine_chunks().to_batches()
    for head, stream in zip(heads, streams, strict=True):
        if head is not None:
            yield head
        yield from stream


def _filled(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches that have rows, in the types of the section."""
    for batch in batches:
        if batch.num_rows:
            table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            yield from table.combine_chunks().to_batches()


def _among(batch: pa.RecordBatch, buckets: Buckets) -> np.ndarray[Any, np.dtype[np.bool_]]:
    own = batch.column(BUCKET).to_numpy()
    at = np.searchsorted(buckets, own)
    inside = at < len(buckets)
    hit = np.zeros(len(own), np.bool_)
    hit[inside] = buckets[at[inside]] == own[inside]
    return hit


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry
