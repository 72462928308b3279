"""Bring a merge state up to a head: add rows of new slices, merge runs, replace the manifest.

The manifest is replaced last and atomically, so that an update that breaks off leaves the state
unchanged; files that the manifest does not name are removed with the next change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.typed import decode_json

from ..integrity.healing import Hashed
from .state import (
    SEGMENT_BYTES,
    SEGMENT_ROWS,
    Segment,
    SegmentInfo,
    StateDamaged,
    StateManifest,
    StateSpec,
    latest_rows,
    merged_runs,
    to_merge,
    write_segments,
)

MANIFEST = "state.json"
READ_ROWS = 1 << 16


def load(folder: Path) -> StateManifest | None:
    """Return the manifest; None if it is missing or damaged."""
    try:
        digest, _, body = (folder / MANIFEST).read_bytes().partition(b"\n")
        if digest.decode() != hashlib.sha256(body).hexdigest():
            return None
        return decode_json(body, StateManifest)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None


def save(folder: Path, manifest: StateManifest) -> None:
    """Replace the manifest, then remove the segments that it does not name."""
    body = msgspec.json.encode(manifest)
    fresh = folder / f"{MANIFEST}.new"
    fresh.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    fresh.replace(folder / MANIFEST)
    named = {segment.name for run in manifest.runs for segment in run}
    for path in folder.glob("*.arrow"):
        if path.name not in named:
            path.unlink(missing_ok=True)


def grown(
    folder: Path,
    manifest: StateManifest,
    slices: Iterable[Path],
    *,
    head: str,
    schema: pa.Schema,
    hashed: Hashed | None = None,
) -> StateManifest:
    """Return the manifest with the rows of more slices, oldest first, without saving it. `hashed`
    knows the digests of files that were hashed or written recently.

    Raises:
        StateDamaged: rows are too long to keep, or a segment is damaged.
    """
    spec, runs, seen = manifest.spec, list(manifest.runs), manifest.rows_seen
    newest: Segment | None = None
    for rows in _tables(slices, schema):
        if newest is not None:
            runs.append(_written(folder, newest, hashed))
        table, hashes = latest_rows(rows, spec, oldest=not runs)
        newest = Segment.in_memory(table, hashes) if len(hashes) else None
        seen += rows.num_rows
    if newest is not None:
        runs = _with(newest, folder, runs, spec, hashed)
    return StateManifest(spec=spec, head=head, rows_seen=seen, runs=tuple(runs))


def _tables(slices: Iterable[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of the slices in tables of about the size of a segment."""
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
    """Return the columns of the schema; a column that an old slice lacks is null."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _written(folder: Path, run: Segment, hashed: Hashed | None) -> tuple[SegmentInfo, ...]:
    rows = pa.Table.from_batches([run.batch])
    return tuple(write_segments(folder, rows, run.hashes, hashed))


def _with(
    newest: Segment,
    folder: Path,
    runs: list[tuple[SegmentInfo, ...]],
    spec: StateSpec,
    hashed: Hashed | None,
) -> list[tuple[SegmentInfo, ...]]:
    """Add the newest run, merged with earlier ones as far as `to_merge` says; return all runs."""
    sizes = [sum(segment.rows for segment in run) for run in runs]
    count = to_merge([*sizes, newest.info.rows])
    if not count:
        return [*runs, _written(folder, newest, hashed)]
    kept, some = runs[: len(runs) + 1 - count], runs[len(runs) + 1 - count :]
    mapped = [[Segment.map(folder, info, hashed=hashed) for info in run] for run in some]
    merged = tuple(merged_runs([*mapped, [newest]], spec, folder, oldest=not kept, hashed=hashed))
    return [*kept, *([merged] if merged else [])]


__all__ = ["StateDamaged", "grown", "load", "save"]
