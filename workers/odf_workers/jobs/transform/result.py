"""The output of an engine, checked and fitted to the dataset: the slice, and a schema if it is new.

If the file has the dataset's columns, it is used unchanged. Otherwise it is rewritten with the
columns in the dataset's order and exact types. New columns are appended to the dataset's schema as
optional; nothing else may change.

Objects as files that an engine can read: links if the store keeps files, copies otherwise.

Copies are kept for the next iterations, by hash, up to a limit; the least recently used are removed
first. A job receives a separate link, so that neither this module nor the store can remove a file
while it is read.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.arrow_schema import from_arrow, to_arrow
from odf_protocol.columns.column_names import with_attributes_of
from odf_protocol.columns.stored_values import Misfit
from odf_protocol.metadata.events import (
    Checkpoint,
    DataSlice,
    SetDataSchema,
    TransformResponseSuccess,
)
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.stores.ports.values import ObjectKind

from ...slices.conform import NullCounts, conform
from ...slices.schema import BadRow, IncompatibleSchema, holds_null_type, same_type
from ...slices.write import WRITE_ROWS, file_hash, judged, write_batches
from ..ingest.source import EngineFailed
from ..work.context import local_file, remember_copy


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeResult:
    """Output of an iteration on the local disk."""

    schema: SetDataSchema | None
    """Schema to be committed before the data; None if the dataset already has it."""
    arrow: pa.Schema
    data: DataSlice | None
    data_path: Path
    checkpoint: Checkpoint | None
    checkpoint_path: Path
    misfit: Misfit | None
    """The first value that must not be stored. A replay compares it all the same."""

    def check_values(self) -> None:
        """Raise `BadRow` for a value that must not be stored."""
        if (bad := self.misfit) is not None:
            reason = f"row {bad.row + 1} of the result: {bad.reason}"
            raise BadRow(reason, column=bad.column, value=bad.value)


def checked(
    response: TransformResponseSuccess,
    data_path: Path,
    checkpoint_path: Path,
    *,
    vocab: Vocab,
    schema: DataSchema | None,
    next_offset: int,
) -> MadeResult:
    """Check the output of an engine, and return it.

    Raises:
        EngineFailed: the engine violated its contract.
        IncompatibleSchema, UnexpectedNulls: the rows do not fit the dataset.
    """
    rows = _rows(response, data_path, next_offset)
    found = pq.read_schema(data_path)
    _check_system_columns(found, vocab)
    wanted = wanted_schema(found, to_arrow(schema) if schema is not None else None)
    if rows and not _fits(found, wanted):
        data_path = _rewritten(data_path, wanted)
    stored = () if schema is None else schema.fields
    grown = schema is None or len(wanted) > len(stored)
    data, misfit = judged(data_path, next_offset) if rows else (None, None)
    return MadeResult(
        schema=SetDataSchema(schema=with_attributes_of(from_arrow(wanted), stored))
        if grown
        else None,
        arrow=wanted,
        data=data,
        data_path=data_path,
        checkpoint=_checkpoint(checkpoint_path),
        checkpoint_path=checkpoint_path,
        misfit=misfit,
    )


_WAS_SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
}
"""Older derivatives have unsigned columns as the next larger signed type, since their rows were
written before unsigned types were kept."""


def as_before(found: pa.Schema, dataset: pa.Schema) -> pa.Schema:
    """Return the found columns, with a signed type if the dataset has that."""
    return pa.schema(
        field.with_type(_WAS_SIGNED[field.type])
        if field.name in dataset.names
        and _WAS_SIGNED.get(field.type) == dataset.field(field.name).type
        else field
        for field in found
    )


def wanted_schema(found: pa.Schema, dataset: pa.Schema | None) -> pa.Schema:
    """Return the dataset's schema, extended by the found columns. Raises `IncompatibleSchema`."""
    if dataset is None:
        for field in found:
            if holds_null_type(field.type):
                raise IncompatibleSchema(
                    f"column `{field.name}` of the result holds nulls only, its type is unknown: "
                    "cast it",
                    column=field.name,
                )
        return pa.schema(list(found))
    found = as_before(found, dataset)
    missing = [name for name in dataset.names if name not in found.names]
    if missing:
        raise IncompatibleSchema(
            f"the result lacks columns of the dataset: {missing}", missing=missing
        )
    for field in dataset:
        other = found.field(field.name).type
        if not same_type(other, field.type):
            raise IncompatibleSchema(
                f"column `{field.name}` is {other} in the result and {field.type} in the dataset",
                column=field.name,
            )
    added = [field.with_nullable(True) for field in found if field.name not in dataset.names]
    return pa.schema([*dataset, *added])


def _rows(response: TransformResponseSuccess, path: Path, next_offset: int) -> int:
    if not path.is_file() or path.is_symlink():
        raise EngineFailed("the engine wrote no data file")
    try:
        rows = int(pq.read_metadata(path).num_rows)
    except pa.ArrowInvalid as bad:
        raise EngineFailed(f"the engine wrote a data file that cannot be read: {bad}") from None
    interval = response.new_offset_interval
    if interval is None:
        if rows:
            raise EngineFailed(f"the engine wrote {rows} rows and reported none")
        return 0
    if interval.start != next_offset or interval.count != rows:
        raise EngineFailed(
            f"the engine reported offsets {interval.start} to {interval.end} for {rows} rows "
            f"from {next_offset} on"
        )
    return rows


def _check_system_columns(found: pa.Schema, vocab: Vocab) -> None:
    missing = [name for name in vocab.columns if name not in found.names]
    if missing:
        raise EngineFailed(f"the engine wrote no column {', '.join(missing)}")


def _fits(found: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether a file with these columns fits the dataset; a required column fits an optional
    one."""
    return found.names == wanted.names and all(
        one.type == other.type and (other.nullable or not one.nullable)
        for one, other in zip(found, wanted, strict=True)
    )


def _rewritten(path: Path, wanted: pa.Schema) -> Path:
    target = path.with_name(path.name + ".fitted")
    nulls = NullCounts(wanted)
    with pq.ParquetFile(path) as file:
        write_batches(_fitted(file, wanted, nulls), wanted, target)
    nulls.check()
    return target


def _fitted(file: pq.ParquetFile, wanted: pa.Schema, nulls: NullCounts) -> Iterator[pa.RecordBatch]:
    """Yield rows with the wanted columns; stop at the first misplaced null."""
    for batch in file.iter_batches(WRITE_ROWS):
        columns = [conform(batch.column(field.name), field.type) for field in wanted]
        fitted = pa.RecordBatch.from_arrays(columns, schema=wanted)
        if not nulls.count(fitted):
            return
        yield fitted


def _checkpoint(path: Path) -> Checkpoint | None:
    if not path.exists():
        return None
    if not path.is_file() or path.is_symlink():
        raise EngineFailed("the engine wrote a checkpoint that is no plain file")
    return Checkpoint(physical_hash=file_hash(path), size=path.stat().st_size)


CACHE = "slices"


def work_folder(scratch: Path, prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder, which is removed after the block. Folders that an engine in an
    image made as another user may remain."""
    return tempfile.TemporaryDirectory(prefix=prefix, dir=scratch, ignore_cleanup_errors=True)


class InputFiles:
    """Files of one job, in its own folder; the jobs of a worker share `cache`."""

    def __init__(self, folder: Path, cache: Path, *, cache_bytes: int) -> None:
        self._folder, self._cache, self._limit = folder, cache, cache_bytes
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, dataset: Dataset, kind: ObjectKind, content: Multihash) -> Path:
        """Return the path of a file with the object. Raises `ObjectNotFound`."""
        place = local_file(dataset, kind, content, self._cache)
        link = self._folder / str(content)
        if link.exists():
            return link
        try:
            link.hardlink_to(place)
        except OSError:  # another file system
            return place
        if place.parent == self._cache:
            remember_copy(dataset, kind, content, link)
            with contextlib.suppress(OSError):
                os.utime(place)
        return link

    def trim(self) -> None:
        """Remove the least recently used copies beyond the limit."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._cache):
                stat = entry.stat()
                found.append((stat.st_mtime_ns, stat.st_size, entry.path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit:
                return
            Path(path).unlink(missing_ok=True)
            total -= size
