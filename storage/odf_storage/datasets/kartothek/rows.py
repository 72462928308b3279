"""Read the rows of a table, partition by partition, in the columns of the schema file.

Rows have the order of their file; the order of partitions has no meaning. A file that is missing,
damaged or of other types ends the read with an error, so that a part never looks like all rows.

Convert columns of a data file to the types of the schema file, within one kind of type only.

Write a state of a dataset so that all readers can read it: data, schema, indices, then state.

If it breaks off before the state file is swapped, readers still see the former state. Source:
Kartothek dataset format 4, "Committing"; "Writer profile".

Slices that are older than a column, completed with nulls in that column.

Such a file is made once for a slice and a schema, and kept, since neither ever changes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.columns.slice_file import UNREADABLE, UnreadableSlice, open_slice
from odf_protocol.errors import BadInput, LimitExceeded, Unavailable
from odf_protocol.kartothek.keys import BadKartothek, KartothekFileMissing, UnsupportedColumn
from odf_protocol.kartothek.partition_values import kind_of, plain
from odf_protocol.kartothek.predicates import Predicate, check_predicate, mask_of
from odf_protocol.multihash import Multihash

from ...stores.objects.files import READ_BYTES
from ...stores.ports import KeyedStore
from ...stores.ports.errors import KeyNotFound
from ...stores.ports.keyed import LinkSource
from ...stores.ports.values import ObjectKind
from ..dataset.dataset import Dataset
from ..read.scan import batches_of
from .definition import content_hash
from .select import Partition, SelectedTable, selected


def conflict(found: pa.DataType, wanted: pa.DataType) -> str | None:
    """Return why values of a type cannot be converted to another one; None if they can."""
    try:
        found_kind = kind_of(found)
    except UnsupportedColumn as error:
        return error.message
    wanted_kind = kind_of(wanted)
    if found_kind == "null":
        return None
    if found_kind != wanted_kind:
        return f"it holds {found_kind} ({found}), the schema file says {wanted_kind} ({wanted})"
    if found_kind == "list":
        return conflict(found.value_type, wanted.value_type)
    if found_kind == "map":
        return conflict(found.key_type, wanted.key_type) or conflict(
            found.item_type, wanted.item_type
        )
    if found_kind == "struct":
        return _members_conflict(found, wanted)
    return None


def _members_conflict(found: pa.DataType, wanted: pa.DataType) -> str | None:
    known = {wanted.field(at).name: wanted.field(at).type for at in range(wanted.num_fields)}
    for at in range(found.num_fields):
        member = found.field(at)
        if member.name in known and (reason := conflict(member.type, known[member.name])):
            return f"member {member.name}: {reason}"
    return None


def fitted(column: pa.Array, wanted: pa.DataType, *, name: str, key: str) -> pa.Array:
    """Return the values as the type `wanted`. Raise `TypeConflict` if the column is of another
    kind, or a value does not fit."""
    if column.type == wanted:
        return column
    if (reason := conflict(column.type, wanted)) is not None:
        raise BadKartothek("TypeConflict", key, f"column {name[:100]!r}: {reason}")
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), wanted)
    try:
        return column.cast(plain(column.type)).cast(wanted)
    except pa.ArrowException as error:
        shown = str(error)[:200]
        raise BadKartothek(
            "TypeConflict", key, f"column {name[:100]!r} is no {wanted}: {shown}"
        ) from None


def in_schema(
    batch: pa.RecordBatch, schema: pa.Schema, values: Mapping[str, pa.Scalar], *, key: str
) -> pa.RecordBatch:
    """Return rows of the data file `key` in these columns: `values` from the key take precedence,
    missing columns are null. Raise `TypeConflict`."""
    rows = batch.num_rows
    columns = []
    for given in schema:
        if given.name in values:
            columns.append(pa.repeat(values[given.name], rows))
        elif given.name in batch.schema.names:
            column = batch.column(given.name)
            columns.append(fitted(column, given.type, name=given.name, key=key))
        else:
            columns.append(pa.nulls(rows, given.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def rows_of(
    table: SelectedTable,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the rows that satisfy the predicate (None: all) in these columns (None: all).

    Raises:
        UnknownKartothekColumn, MalformedPredicate: at once.
        KartothekFileMissing, UnreadableDataFile, TypeConflict: while rows are read.
    """
    names = list(table.schema.names if columns is None else columns)
    for name in names:
        if name not in table.schema.names:
            raise BadInput("UnknownKartothekColumn", f"the table has no column {name[:100]!r}")
    if predicate is not None:
        check_predicate(predicate, table.schema)
    return _rows(table, names, predicate)


def whole_table(
    table: SelectedTable,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
) -> pa.Table:
    """Return the rows of `rows_of` as one table in memory."""
    names = table.schema.names if columns is None else columns
    batches = rows_of(table, columns=columns, predicate=predicate)
    return pa.Table.from_batches(batches, pa.schema([table.schema.field(n) for n in names]))


def partition_rows(
    table: SelectedTable, partition: Partition, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition in these columns. Raises as `rows_of`."""
    key = partition.key
    schema = pa.schema([table.schema.field(name) for name in names])
    with open_partition(table, partition) as stream:
        try:
            file = open_slice(stream)
            for batch in _batches(file, stream, _stored(file, partition, names, key)):
                yield in_schema(batch, schema, partition.values, key=key)
        except (UnreadableSlice, *UNREADABLE, ValueError) as error:
            if isinstance(error, MemoryError):  # Arrow's memory error is an `ArrowException` too
                raise
            raise BadKartothek(
                "UnreadableDataFile", key, f"no Parquet: {str(error)[:200]}"
            ) from None


def open_partition(table: SelectedTable, partition: Partition) -> BinaryIO:
    """Open the data file of a partition. Raise `KartothekFileMissing`."""
    try:
        return table.store.open(partition.key)
    except KeyNotFound:
        named = f"there is no such data file (named by {table.found.key})"
        raise KartothekFileMissing(partition.key, named) from None


def _rows(
    table: SelectedTable, names: list[str], predicate: Predicate | None
) -> Iterator[pa.RecordBatch]:
    terms = () if predicate is None else [term for some in predicate for term in some]
    needed = [*names, *(t.column for t in terms if t.column not in names)]
    needed = list(dict.fromkeys(needed))
    for partition in selected(table, predicate):
        for batch in partition_rows(table, partition, needed):
            rows = batch
            if predicate is not None:
                rows = batch.filter(mask_of(predicate, batch.column, batch.num_rows))
            if rows.num_rows:
                yield rows.select(names)


def _stored(
    file: pq.ParquetFile, partition: Partition, names: Sequence[str], key: str
) -> list[str]:
    """Return the columns to read from the file; values in its key take precedence."""
    there = file.schema_arrow.names
    wanted = [name for name in names if name in there and name not in partition.values]
    for name in wanted:
        if there.count(name) > 1:
            raise BadKartothek(
                "UnreadableDataFile", key, f"two of its columns are named {name[:100]!r}"
            )
    return wanted


def _batches(file: pq.ParquetFile, stream: object, stored: list[str]) -> Iterator[pa.RecordBatch]:
    if stored:
        yield from batches_of(file, stream, columns=stored)  # type: ignore[arg-type]
        return
    rows = file.metadata.num_rows  # the file has none of the columns: only the row count matters
    if rows:
        yield pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""])


Chunks = Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges:
    """Files of a new state that are not in the store yet, by key."""

    state_key: str
    state: bytes
    links: Mapping[str, LinkSource] = field(default_factory=dict)
    data: Mapping[str, Chunks] = field(default_factory=dict)
    schema: Mapping[str, bytes] = field(default_factory=dict)
    indices: Mapping[str, bytes] = field(default_factory=dict)

    def keys(self) -> tuple[str, ...]:
        """Return the keys of slices, data files and indices."""
        return (*self.links, *self.data, *self.indices)


def write_changes(store: KeyedStore, changes: TableChanges, *, expected: str | None) -> None:
    """Write all files, then swap the state file with the tag `expected`. Raise `SwapLost`."""
    for key, source in changes.links.items():
        store.link(key, source)
    for key, chunks in changes.data.items():
        store.put(key, chunks())
    for key, raw in (*changes.schema.items(), *changes.indices.items()):
        store.put(key, (raw,))
    store.swap(changes.state_key, changes.state, expected=expected)


def write_data_file(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a data file that the oldest readers can read: Snappy, plain or dictionary pages."""
    with pq.ParquetWriter(path, schema, compression="snappy", version="2.6") as writer:
        for batch in batches:
            writer.write_batch(batch)


def chunks_of(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks."""
    with path.open("rb") as stream:
        yield from iter(lambda: stream.read(READ_BYTES), b"")


COMPLETED = "completed"
"""Folder of these files: `completed/<hash of the slice>/<columns>.parquet`."""
PATIENCE_S = 60.0
Batches = Iterator[pa.RecordBatch]
_one_at_a_time = Lock()


def completed_key(slice_hash: Multihash, schema: bytes) -> str:
    """Return the key of the slice completed to the columns of this schema file."""
    return f"{COMPLETED}/{slice_hash}/{content_hash(schema)[:16]}.parquet"


def complete_slice(
    dataset: Dataset,
    slice_hash: Multihash,
    schema: pa.Schema,
    store: KeyedStore,
    key: str,
    *,
    most: int,
) -> None:
    """Make the file under `key` if it is missing. This process makes one file at a time.

    Raises:
        SliceTooLarge: the slice has more than `most` bytes. CompletingBusy.
        ObjectDamaged, ObjectHealing: the slice is not whole.
    """

    def fitted(batches: Batches) -> Batches:
        return (in_schema(batch, schema, {}, key=key) for batch in batches)

    write_anew(dataset, slice_hash, schema, fitted, store, key, most=most)


def write_anew(
    dataset: Dataset,
    slice_hash: Multihash,
    schema: pa.Schema,
    change: Callable[[Batches], Batches],
    store: KeyedStore,
    key: str,
    *,
    most: int,
) -> None:
    """As `complete_slice`, with any `change` of the rows."""
    if _is_there(store, key):
        return
    if not _one_at_a_time.acquire(timeout=PATIENCE_S):
        raise Unavailable("CompletingBusy", "files are being made for other readers; ask again")
    try:
        if not _is_there(store, key):
            _make(dataset, slice_hash, schema, change, store, key, most)
    finally:
        _one_at_a_time.release()


def _make(
    dataset: Dataset,
    slice_hash: Multihash,
    schema: pa.Schema,
    change: Callable[[Batches], Batches],
    store: KeyedStore,
    key: str,
    most: int,
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="complete-") as folder,
        dataset.open_whole(ObjectKind.DATA, slice_hash) as stream,
    ):
        size = stream.seek(0, 2)
        if size > most:
            raise LimitExceeded(
                "SliceTooLarge",
                f"a slice of {size} bytes would have to be written anew for a reader; more than "
                f"{most} bytes are not: publish the dataset, or read it in another way",
                limit="gateway_rewrite_bytes",
                value=most,
            )
        stream.seek(0)
        path = Path(folder) / "slice.parquet"
        batches = batches_of(open_slice(stream), stream)
        write_data_file(path, schema, change(batches))
        store.put(key, chunks_of(path))


def _is_there(store: KeyedStore, key: str) -> bool:
    try:
        store.open(key).close()
    except KeyNotFound:
        return False
    return True
