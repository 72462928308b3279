"""Bringing a merge state up to a head: rows of new slices in, runs merged, one file replaced.

The manifest is replaced last and whole, so that whatever breaks off leaves the state as it was;
files it does not name are removed with the next change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from odf_node.protocol.typed import decode_json

from .segments import (
    SEGMENT_BYTES,
    SEGMENT_ROWS,
    Segment,
    SegmentInfo,
    StateDamaged,
    write_segments,
)
from .segments import latest as latest_rows
from .state import Manifest, StateSpec, merged_runs, sorted_rows, to_merge

MANIFEST = "state.json"
READ_ROWS = 1 << 16


def load(folder: Path) -> Manifest | None:
    """The manifest; None if there is none, or none that is whole."""
    try:
        digest, _, body = (folder / MANIFEST).read_bytes().partition(b"\n")
        if digest.decode() != hashlib.sha256(body).hexdigest():
            return None
        return decode_json(body, Manifest)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None


def save(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest, then remove what it does not name."""
    body = msgspec.json.encode(manifest)
    fresh = folder / f"{MANIFEST}.new"
    fresh.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    fresh.replace(folder / MANIFEST)
    named = {segment.name for run in manifest.runs for segment in run}
    for path in folder.glob("*.arrow"):
        if path.name not in named:
            path.unlink(missing_ok=True)


def grown(
    folder: Path, manifest: Manifest, slices: Iterable[Path], *, head: str, schema: pa.Schema
) -> Manifest:
    """The manifest with the rows of further slices, oldest first. Nothing is saved.

    Raises:
        StateDamaged: rows too long to keep, or a segment that is not what was written.
    """
    runs, seen = list(manifest.runs), manifest.rows_seen
    several = False
    for rows in _tables(slices, schema):
        table, hashes = sorted_rows(rows, manifest.spec.key)
        dropped = None if runs else manifest.spec.operation
        table, hashes = latest_rows(table, hashes, list(manifest.spec.key), dropped=dropped)
        seen += rows.num_rows
        runs.append(tuple(write_segments(folder, table, hashes)))
        several = True
    if several:
        runs = _tidied(folder, runs, manifest.spec)
    return Manifest(spec=manifest.spec, head=head, rows_seen=seen, runs=tuple(runs))


def _tables(slices: Iterable[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Rows of the slices, about a segment at a time."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for path in slices:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(READ_ROWS, columns=schema.names):
                waiting.append(_as(batch, schema))
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if rows >= SEGMENT_ROWS or size >= SEGMENT_BYTES:
                    yield pa.Table.from_batches(waiting)
                    waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the schema; one an old slice lacks is null in its rows."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _tidied(
    folder: Path, runs: list[tuple[SegmentInfo, ...]], spec: StateSpec
) -> list[tuple[SegmentInfo, ...]]:
    """Runs merged as far as their sizes ask for it."""
    runs = [run for run in runs if run]
    count = to_merge([sum(segment.rows for segment in run) for run in runs])
    if not count:
        return runs
    kept, some = runs[:-count], runs[-count:]
    mapped = [[Segment.map(folder, info) for info in run] for run in some]
    merged = tuple(merged_runs(mapped, spec, folder, oldest=not kept))
    return [*kept, *([merged] if merged else [])]


__all__ = ["StateDamaged", "grown", "load", "save"]
