"""Logical hash of records (arrow0-sha3-256): the same rows, the same hash, however encoded.

One SHA3-256 state per leaf column is fed the values of that column; the head state is fed
the names, then the digests of the columns. A value is its bytes in memory, preceded by
its length where that varies; a null is a single zero byte.

Validity of struct children follows the reference, not common sense: when a parent *and* a
child have nulls in the same batch, their validity bits are OR-ed, so a value is null only
where both say so. Hence batches matter below structs, and files with structs are digested in
windows of 10 000 rows. Flat columns may be cut anywhere.

Columns of a file know nothing of each other, so each is read, laid out and hashed by itself where
the file allows it.

Arrays are trusted to be valid, as the Parquet reader makes them; call
`batch.validate(full=True)` first on Arrow IPC from a stranger.
Source: ODF "Logical hash"; struct nulls and fixed-size values as the reference computes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from .arrow_columns import Coded, Column, Columns
from .arrow_values import (
    is_binary,
    is_list,
    is_text,
    members,
    or_none,
    storage,
    storage_type,
    stream,
    u64,
    validity,
)
from .errors import BadInput
from .multihash import ARROW0_SHA3_256, Multihash
from .sha3 import Feeds, Run, Steps, does, finish, sha3_256, side_by_side
from .slice_file import UNREADABLE, UnreadableSlice

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from .arrow_values import Bits

Look = Callable[[pa.Array], None]
"""Is shown the values of a column, a window at a time."""
Looks = Mapping[str, Look]
"""By column."""
NO_LOOKS: Looks = {}

FILE_WINDOW_ROWS = 10_000
"""Rows of one batch when a data file is digested; fixed by the reference."""
CACHE_WINDOW_ROWS = 20_000
"""Rows laid out as bytes at a time; any number gives the same digest. Writers put so many into a
page, and a window stays in the cache of a core."""
KNOWN_SCHEMAS = 64
"""Schemas whose beginning is remembered: small slices of one dataset follow each other."""
SMALL_ROWS = 1024
"""Up to so many rows, no column of a batch is worth being hashed before the others."""
MAX_NESTING = 64
"""Deepest struct or list that is looked into."""

_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


class UnsupportedColumn(BadInput):
    """A column of a type that has no logical hash."""

    def __init__(self, column: str, arrow_type: Any) -> None:
        super().__init__(
            f"column {column!r} has the type {arrow_type}, for which no logical hash is defined",
            column=column,
            type=str(arrow_type),
        )


class SchemaDiffers(BadInput):
    """A batch whose columns are not those the digest was started with."""


class _Begun:
    """What is fed before the first row: to the head, and to each column."""

    def __init__(self, schema: pa.Schema) -> None:
        self.head = hashlib.sha3_256()
        self.columns: list[bytes] = []
        self.firsts: list[int] = []
        """Where the states of each column of the schema begin."""
        for field in schema:
            self.firsts.append(len(self.columns))
            self._start(field, 0)

    def _start(self, field: pa.Field, level: int) -> None:
        """Feed the name to the head; open a state, or go on with the children of a struct."""
        name = field.name.encode()
        self.head.update(u64(len(name)) + name + u64(level))
        arrow_type = storage_type(field.type)
        if types.is_struct(arrow_type) and level < MAX_NESTING:
            for child in members(arrow_type):
                self._start(child, level + 1)
        else:
            self.columns.append(type_prefix(arrow_type, field.name))


_begun = lru_cache(KNOWN_SCHEMAS)(_Begun)


class ArrowDigest:
    """The digest of a record set, fed batch by batch.

    `run` may feed the columns of one batch (longest first) side by side or in threads; it
    returns when all are done.

    Raises:
        UnsupportedColumn: at once, for a type without a digest (dictionary, map, union, …).
    """

    def __init__(self, schema: pa.Schema, *, run: Run = side_by_side) -> None:
        self.schema = schema
        self.indeterminate = False
        """A struct and a child of it both had nulls in one batch, at different rows. Some null
        was then hashed as whatever bytes its slot held, so readers may disagree."""
        self._run = run
        begun = _begun(schema)
        self._head = begun.head.copy()
        self._columns = [sha3_256(prefix) for prefix in begun.columns]
        self._firsts = begun.firsts

    def feeds(self, place: int, column: Any) -> Feeds:
        """The next values of one column alone. Other threads may feed other columns."""
        states = iter(self._columns[self._firsts[place] :])
        if len(column):
            for leaf, valid in self._leaves(column, None, self.schema.names[place]):
                yield from _feeds(next(states), leaf, valid)

    def state(self, place: int) -> Any:
        """The state of one leaf, to be fed what is laid out already."""
        return self._columns[self._firsts[place]]

    def batch_feeds(self, batch: pa.RecordBatch) -> list[Feeds]:
        """The rows of one batch, a leaf each, longest first.

        Raises:
            SchemaDiffers: other names or types than the digest was started with.
            UnsupportedColumn: values of a column of type null.
        """
        schema = batch.schema
        if not schema.equals(self.schema) and (
            schema.names != self.schema.names or schema.types != self.schema.types
        ):
            raise SchemaDiffers("the batch has other columns than the digest was started with")
        states = iter(self._columns)
        leaves: list[tuple[int, Feeds]] = []
        if batch.num_rows:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                for leaf, valid in self._leaves(column, None, name):
                    # finding out its size takes as long as a value
                    size = leaf.nbytes if len(leaf) > SMALL_ROWS else 0
                    leaves.append((size, _feeds(next(states), leaf, valid)))
        leaves.sort(key=itemgetter(0), reverse=True)
        return [feeds for _, feeds in leaves]

    def update(self, batch: pa.RecordBatch) -> None:
        """Feed the rows of one batch. Raises as `batch_feeds`."""
        self._run(self.batch_feeds(batch))

    def update_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Feed all batches; each is asked for beside hashing the one before it."""
        finish(self.updating(batches), self._run)

    def updating(self, batches: Iterator[pa.RecordBatch]) -> Steps[None]:
        """The same, step by step."""
        coming: list[pa.RecordBatch | None] = [next(batches, None)]
        while (batch := coming.pop()) is not None:
            yield [does(lambda: coming.append(next(batches, None))), *self.batch_feeds(batch)]

    def finish(self) -> Multihash:
        """The logical hash of all rows so far; more may follow."""
        head = self._head.copy()
        for column in self._columns:
            head.update(column.digest())
        return Multihash(ARROW0_SHA3_256, head.digest())

    def _leaves(
        self, array: Any, above: Bits | None, name: str
    ) -> Iterator[tuple[Any, Bits | None]]:
        """Leaf arrays below one column in field order, each with the validity that counts."""
        array = storage(array)
        if types.is_null(array.type):
            raise UnsupportedColumn(name, array.type)
        own = validity(array)
        if above is not None and own is not None:
            if (above != own).any():  # set only, since other threads may do so
                self.indeterminate = True
            own = or_none(above | own)
        elif own is None:
            own = above
        if not types.is_struct(array.type):
            yield array, own
            return
        for position, child in enumerate(members(array.type)):
            yield from self._leaves(array.field(position), own, child.name)


def logical_hash(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, run: Run = side_by_side
) -> Multihash:
    """Logical hash of record batches as they are cut. Raises as `ArrowDigest`."""
    digest = ArrowDigest(schema, run=run)
    digest.update_all(iter(batches))
    return digest.finish()


def logical_hash_of(file: pq.ParquetFile, *, run: Run = side_by_side) -> Multihash:
    """Logical hash of a data slice. Raises as `digest_of`."""
    return digest_of(file, run=run).finish()


def digest_of(
    file: pq.ParquetFile,
    *,
    run: Run = side_by_side,
    looks: Looks = NO_LOOKS,
    content: pa.Buffer | None = None,
) -> ArrowDigest:
    """The digest of a data slice, structs in windows of 10 000 rows from its start.

    Ask its `indeterminate` before calling a mismatch damage. `looks` are shown the values of their
    columns as they pass, in order. With the `content` of the file columns are read one by one,
    which is faster; a stream has one reader.

    Raises:
        UnsupportedColumn: a column type without a digest.
        UnreadableSlice: the file breaks off or is no valid Parquet.
    """
    return finish(digesting(file, looks=looks, content=content), run)


def digesting(
    file: pq.ParquetFile,
    *,
    looks: Looks = NO_LOOKS,
    content: pa.Buffer | None = None,
) -> Steps[ArrowDigest]:
    """As `digest_of`, step by step."""
    try:
        digest = ArrowDigest(file.schema_arrow)
        if content is None:
            yield from digest.updating(_batches(file, looks))
        else:
            columns = Columns(file, content)
            longest_first = sorted(columns.all, key=attrgetter("size"), reverse=True)
            yield [_column_feeds(digest, columns, each, looks) for each in longest_first]
    except UNREADABLE as error:
        raise UnreadableSlice.of(error) from None
    return digest


def _batches(file: pq.ParquetFile, looks: Looks) -> Iterator[pa.RecordBatch]:
    nested = any(types.is_struct(storage_type(field.type)) for field in file.schema_arrow)
    rows = FILE_WINDOW_ROWS if nested else CACHE_WINDOW_ROWS
    count, wanted = 0, file.metadata.num_rows
    for batch in windows(file.iter_batches(rows, use_threads=False), rows):
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            if name in looks:
                looks[name](values)
        yield batch
        count += batch.num_rows
    if count != wanted:  # Arrow cuts columns to the shortest
        raise UnreadableSlice(f"the data slice has {count} rows, its footer tells of {wanted}")


def _column_feeds(digest: ArrowDigest, columns: Columns, column: Column, looks: Looks) -> Feeds:
    nested = types.is_struct(storage_type(column.type))
    rows = FILE_WINDOW_ROWS if nested else CACHE_WINDOW_ROWS
    look, coded, count = looks.get(column.name), Coded(rows), 0
    batches = columns.batches(column, rows)
    for batch in windows(batches, rows) if nested else batches:
        values = batch.column(0)
        if look is not None:
            look(values)
        if column.coded:
            yield digest.state(column.place), coded.stream(values)
        else:
            yield from digest.feeds(column.place, values)
        count += len(values)
    if count != columns.rows:
        raise UnreadableSlice(f"column {column.name!r} has {count} values for {columns.rows} rows")


def windows(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly `rows`, the last one perhaps shorter."""
    pending: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        at = 0
        while at < batch.num_rows:
            part = batch.slice(at, missing)
            pending.append(part)
            at += part.num_rows
            missing -= part.num_rows
            if missing == 0:
                yield pa.concat_batches(pending) if len(pending) > 1 else pending[0]
                pending, missing = [], rows
    if pending:
        yield pa.concat_batches(pending)


def _feeds(state: Any, array: Any, valid: Bits | None) -> Feeds:
    if len(array) <= CACHE_WINDOW_ROWS:
        yield state, stream(array, valid)
        return
    for at in range(0, len(array), CACHE_WINDOW_ROWS):
        window = array.slice(at, CACHE_WINDOW_ROWS)
        bits = None if valid is None else or_none(valid[at : at + CACHE_WINDOW_ROWS])
        yield state, stream(window, bits)


# --- type prefixes --------------------------------------------------------------------------


def type_prefix(arrow_type: Any, column: str, depth: int = 0) -> bytes:
    """What a column state starts with: type number and parameters. Raises `UnsupportedColumn`."""
    arrow_type = storage_type(arrow_type)
    for matches, prefix in _PREFIXES:
        if matches(arrow_type):
            return prefix(arrow_type)
    if is_list(arrow_type) and depth < MAX_NESTING:
        item_type = storage_type(arrow_type.value_type)
        if not types.is_null(item_type):
            return _u16(11) + type_prefix(item_type, column, depth + 1)
    raise UnsupportedColumn(column, arrow_type)


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def _timestamp_prefix(arrow_type: Any) -> bytes:
    zone = (arrow_type.tz or "").encode()
    return _u16(9) + _u16(_UNITS[arrow_type.unit]) + (u64(len(zone)) + zone if zone else b"\0")


_PREFIXES: tuple[tuple[Callable[[Any], bool], Callable[[Any], bytes]], ...] = (
    (types.is_null, lambda _: _u16(0)),
    (types.is_signed_integer, lambda t: _u16(1) + b"\1" + u64(t.bit_width)),
    (types.is_unsigned_integer, lambda t: _u16(1) + b"\0" + u64(t.bit_width)),
    (types.is_floating, lambda t: _u16(2) + u64(t.bit_width)),
    (
        types.is_decimal,
        lambda t: _u16(6) + u64(t.bit_width) + u64(t.precision) + u64(t.scale),
    ),
    (is_binary, lambda _: _u16(3)),
    (is_text, lambda _: _u16(4)),
    (types.is_boolean, lambda _: _u16(5)),
    (types.is_date32, lambda _: _u16(7) + u64(32) + _u16(0)),
    (types.is_date64, lambda _: _u16(7) + u64(64) + _u16(1)),
    (types.is_time, lambda t: _u16(8) + u64(t.bit_width) + _u16(_UNITS[t.unit])),
    (types.is_timestamp, _timestamp_prefix),
)
