"""Prepare the inputs of a transform for an engine: the new rows of each, in the order of offsets.

Any node and any engine may have written a slice. This module converts it to the schema of its
input and cuts it to the offset interval, in the same way for every engine.

Checkpoints: the watermarks, and state if any, that a transform keeps between iterations.

A checkpoint is one plain file: a line of canonical JSON, then the state unchanged. Equal content
gives equal bytes. An input without a new watermark keeps its last one, so the checkpoint stores
it; the coordinator may also repeat it in the request.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.stored_values import bounded_leaves
from odf_protocol.errors import BadInput, Damaged
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetVocabulary, OffsetInterval, TransformRequestInput

from ...slices.conform import carrier, conform
from ..port.port import InvalidQuery

BATCH_ROWS = 65_536


class BrokenInput(Damaged):
    """The files of an input differ from what the request says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInput:
    """One staged input: a file of `rows` rows in offset order, with the columns of `schema`."""

    alias: str
    dataset_id: str
    vocab: Vocab
    schema: pa.Schema
    path: Path
    rows: int
    interval: OffsetInterval | None = None
    has_changes: bool = False
    """Whether any row is not an append."""
    may_change: bool = False
    """Whether rows that are no appends are known to come, here or in another batch."""
    watermark: Instant | None = None
    """Event time up to which the input is known to be complete, these rows included."""


MAY_CHANGE = b"odf-node/mayChange"
"""Metadata of the file with the columns of an input whose rows may be taken back."""


def vocab_of(given: DatasetVocabulary) -> Vocab:
    """Return the names of the system columns, with defaults for those not given."""
    named = {name: getattr(given, name) for name in given.__struct_fields__}
    return Vocab(**{name: text for name, text in named.items() if text is not None})


def check_aliases(inputs: tuple[TransformRequestInput, ...]) -> None:
    """Raise `InvalidQuery` if two inputs have the same alias."""
    names = [item.query_alias for item in inputs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidQuery(f"two inputs are called `{name}` in the query")


def staged(given: TransformRequestInput, path: Path, *, carried: bool) -> EngineInput:
    """Write the rows of an input to `path`. With `carried`, use only types that Spark can read.

    Raises:
        BrokenInput: a file cannot be read, or its rows are not those of the interval.
    """
    vocab = vocab_of(given.vocab)
    try:
        told = pq.read_schema(given.schema_file)
        schema = told.remove_metadata()
        stored = pa.schema([f.with_type(carrier(f.type)) for f in schema]) if carried else schema
        rows, changes = _write(given, schema, stored, vocab, path)
    except (pa.ArrowException, OSError) as bad:
        raise BrokenInput(f"input `{given.query_alias}` cannot be read: {bad}") from None
    return EngineInput(
        alias=given.query_alias,
        dataset_id=str(given.dataset_id),
        vocab=vocab,
        schema=schema,
        path=path,
        rows=rows,
        interval=given.offset_interval,
        has_changes=changes,
        may_change=MAY_CHANGE in (told.metadata or {}),
    )


def _write(
    given: TransformRequestInput, schema: pa.Schema, stored: pa.Schema, vocab: Vocab, path: Path
) -> tuple[int, bool]:
    rows, changes = 0, False
    # Snappy, because Spark cannot always read dictionary pages that Arrow compresses as lz4.
    with pq.ParquetWriter(
        path, stored, compression="snappy", write_statistics=bounded_leaves(stored)
    ) as writer:
        for batch in _selected(given, schema, vocab.offset_column):
            if batch.num_rows == 0:
                continue
            columns = [
                column if column.type == field.type else pc.cast(column, field.type)
                for column, field in zip(batch.columns, stored, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=stored))
            rows += batch.num_rows
            changes = changes or _has_changes(batch, vocab.operation_type_column)
    return rows, changes


def _has_changes(batch: pa.RecordBatch, name: str) -> bool:
    if name not in batch.schema.names:
        return False
    return bool(pc.any(pc.not_equal(batch.column(name), 0)).as_py())


def _selected(
    given: TransformRequestInput, schema: pa.Schema, offset: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the interval. Raise `BrokenInput` if the files are not in offset order."""
    if given.offset_interval is None:
        return
    last = -1
    for path in given.data_paths:
        for batch in _ordered(Path(path), schema, offset, given.offset_interval):
            if batch.num_rows == 0:
                continue
            offsets = batch.column(offset)
            if offsets[0].as_py() <= last:
                raise BrokenInput(
                    f"input `{given.query_alias}`: offset {offsets[0]} comes after {last}"
                )
            last = offsets[-1].as_py()
            yield batch


def _ordered(
    path: Path, schema: pa.Schema, offset: str, interval: OffsetInterval
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file. Sort an unsorted file in memory, though no node writes one."""
    with pq.ParquetFile(path) as file:
        if not _is_sorted(file, offset):
            whole = file.read().sort_by(offset)
            for batch in whole.to_batches(BATCH_ROWS):
                yield _within(_columns(batch, schema), offset, interval)
            return
        for batch in file.iter_batches(BATCH_ROWS):
            yield _within(_columns(batch, schema), offset, interval)


def _is_sorted(file: pq.ParquetFile, offset: str) -> bool:
    last = None
    for batch in file.iter_batches(BATCH_ROWS, columns=[offset]):
        column = pc.cast(batch.column(0), pa.int64())
        if last is not None and len(column) and column[0].as_py() <= last:
            return False
        if not pc.all(pc.greater(column[1:], column[:-1])).as_py():
            return False
        last = column[-1].as_py() if len(column) else last
    return True


def _columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of the input's schema, by name. A column that the file lacks is null."""
    columns = [
        conform(batch.column(field.name), field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _within(batch: pa.RecordBatch, offset: str, interval: OffsetInterval) -> pa.RecordBatch:
    column = batch.column(offset)
    if not len(column) or (
        interval.start <= column[0].as_py() and column[-1].as_py() <= interval.end
    ):
        return batch
    inside = pc.and_(pc.greater_equal(column, interval.start), pc.less_equal(column, interval.end))
    return batch.filter(inside)


FORMAT = "odf-node-checkpoint/1"
HEADER_BYTES = 16 << 20
COPY_BYTES = 1 << 20


class UnreadableCheckpoint(Damaged):
    """The checkpoint was not written by this engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCheckpoint:
    """The content of a checkpoint: watermarks by dataset id, and the file of the engine's state."""

    watermarks: Mapping[str, Instant]
    state: Path | None = None


def read_checkpoint(path: str | None, scratch: Path) -> InputCheckpoint:
    """Read the checkpoint of the last iteration; without a path, return an empty one. The state is
    copied to a file in `scratch`.

    Raises:
        UnreadableCheckpoint: this engine did not write the file.
    """
    if path is None:
        return InputCheckpoint(watermarks={})
    try:
        with Path(path).open("rb") as stream:
            header = json.loads(stream.readline(HEADER_BYTES))
            if header["format"] != FORMAT:
                raise ValueError(header["format"])
            marks = {key: Instant.parse(text) for key, text in header["watermarks"].items()}
            state = _state(stream, scratch) if header["state"] else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, BadInput) as bad:
        raise UnreadableCheckpoint(
            f"the checkpoint is none of this engine ({bad}): reset the derivative"
        ) from None
    return InputCheckpoint(watermarks=marks, state=state)


def holds_state(path: Path) -> bool:
    """Return whether a checkpoint has state. False for one that this engine cannot read."""
    header = _header(path)
    return header is not None and bool(header.get("state"))


def is_ours(path: Path) -> bool:
    """Return whether this engine can read the checkpoint."""
    return _header(path) is not None


def _header(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as stream:
            header = json.loads(stream.readline(HEADER_BYTES))
        return header if header["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_checkpoint(path: Path, after: InputCheckpoint) -> bool:
    """Write the checkpoint and return true. If it is empty, write no file and return false."""
    if not after.watermarks and after.state is None:
        return False
    header = {
        "format": FORMAT,
        "state": after.state is not None,
        "watermarks": {key: str(mark) for key, mark in after.watermarks.items()},
    }
    line = json.dumps(header, sort_keys=True, separators=(",", ":"))
    with path.open("wb") as out:
        out.write(line.encode() + b"\n")
        if after.state is not None:
            with after.state.open("rb") as state:
                shutil.copyfileobj(state, out, COPY_BYTES)
    return True


def watermarks_after(
    inputs: Sequence[TransformRequestInput], before: Mapping[str, Instant]
) -> dict[str, Instant]:
    """Return the newest watermark, by dataset id, of each input that ever had one."""
    known: dict[str, Instant] = {}
    for item in inputs:
        key = str(item.dataset_id)
        said = [mark.event_time for mark in item.explicit_watermarks]
        said += [marks[key] for marks in (before, known) if key in marks]
        if said:
            known[key] = max(said)
    return known


def output_watermark(
    inputs: Sequence[TransformRequestInput], known: Mapping[str, Instant]
) -> Instant | None:
    """Return the smallest watermark of all inputs; None if an input never had one."""
    marks = [known.get(str(item.dataset_id)) for item in inputs]
    return min((mark for mark in marks if mark), default=None) if all(marks) else None


def _state(stream: BinaryIO, scratch: Path) -> Path:
    path = scratch / "state"
    with path.open("wb") as out:
        shutil.copyfileobj(stream, out, COPY_BYTES)
    return path
