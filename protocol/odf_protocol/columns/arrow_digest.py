"""Logical hash of records (arrow0-sha3-256): equal rows have equal hashes in any encoding.

One SHA3-256 state per leaf column hashes the values of that column. The head state hashes the
names and then the digests of the columns. The hash input of a value is its bytes in memory, after
its length if the type has a variable length; a null is a single zero byte.

Validity of struct children follows the reference, although it is surprising: if a parent *and* a
child have nulls in the same batch, their validity bits are OR-ed, so a value is null only where
both are null. Hence batch boundaries matter below structs, and files with structs are hashed in
windows of 10 000 rows. Flat columns may be cut anywhere.

This module hashes one column after the other. Columns are independent, so a caller that hashes
several streams at once uses the streams of `slice_digest`.

Arrays are trusted to be valid, because the Parquet reader creates them; call
`batch.validate(full=True)` first on Arrow IPC from untrusted sources.
Source: ODF "Logical hash"; struct nulls and fixed-size values as the reference computes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from ..errors import BadInput
from ..multihash import ARROW0_SHA3_256, Multihash
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
from .slice_file import UNREADABLE, UnreadableSlice, as_stated, schema_of

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from .arrow_values import Bits

FILE_WINDOW_ROWS = 10_000
"""Rows per batch when a data file with structs is hashed; the reference fixes this number."""
CACHE_WINDOW_ROWS = 20_000
"""Rows laid out as bytes at a time; the digest does not depend on it. It is the usual number of
rows per page, and such a window fits into the cache of a core."""
KNOWN_SCHEMAS = 64
"""Number of schemas whose initial states are cached, for many small slices of one dataset."""
MAX_NESTING = 64
"""Limit of nested structs or lists that are hashed."""

_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


class UnsupportedColumn(BadInput):
    """The type of a column has no logical hash."""

    def __init__(self, column: str, arrow_type: Any) -> None:
        super().__init__(
            f"column {column!r} has the type {arrow_type}, for which no logical hash is defined",
            column=column,
            type=str(arrow_type),
        )


class _Begun:
    """Hash input before the first row: of the head state, and of each column state."""

    def __init__(self, schema: pa.Schema) -> None:
        self.head = hashlib.sha3_256()
        self.columns: list[bytes] = []
        for field in schema:
            self._start(field, 0)

    def _start(self, field: pa.Field, level: int) -> None:
        """Hash the name into the head; add a column state, or continue with struct children."""
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
    """Computes the logical hash of records, batch by batch.

    Raises:
        UnsupportedColumn: on creation, for a type without a digest (dictionary, map, union, …).
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.indeterminate = False
        """A struct and its child both had nulls in one batch, at different rows. Some null was
        then hashed as the bytes in its slot, so readers may compute different hashes."""
        begun = _begun(schema)
        self._head = begun.head.copy()
        self._columns = [hashlib.sha3_256(prefix) for prefix in begun.columns]

    def update(self, batch: pa.RecordBatch) -> None:
        """Hash the rows of one batch.

        Raises:
            SchemaDiffers: other names or types than the digest was started with.
            UnsupportedColumn: values of a column of type null.
        """
        schema = batch.schema
        if not schema.equals(self.schema) and (
            schema.names != self.schema.names or schema.types != self.schema.types
        ):
            raise BadInput(
                "SchemaDiffers", "the batch has other columns than the digest was started with"
            )
        if not batch.num_rows:
            return
        states = iter(self._columns)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for leaf, valid, unclear in leaves(column, name):
                self.indeterminate |= unclear
                state = next(states)
                for content in laid_out(leaf, valid):
                    state.update(content)

    def finish(self) -> Multihash:
        """Return the logical hash of all rows so far; more rows may be added afterwards."""
        return _finished(self._head, [column.digest() for column in self._columns])


def beginnings(schema: pa.Schema) -> list[bytes]:
    """Return the hash input of each leaf before its first value. Raises `UnsupportedColumn`."""
    return _begun(schema).columns


def finished(schema: pa.Schema, leaves: Iterable[bytes]) -> Multihash:
    """Return the logical hash for the digests of all leaves, in the order of the schema."""
    return _finished(_begun(schema).head, leaves)


def _finished(begun: Any, leaves: Iterable[bytes]) -> Multihash:
    head = begun.copy()
    for digest in leaves:
        head.update(digest)
    return Multihash(ARROW0_SHA3_256, head.digest())


def leaves(
    array: Any, name: str, above: Bits | None = None
) -> Iterator[tuple[Any, Bits | None, bool]]:
    """Yield the leaf arrays below one column in field order. With each, yield its effective
    validity, and whether nulls above it are at other rows than its own nulls. Raises
    `UnsupportedColumn` for type null."""
    array = storage(array)
    if types.is_null(array.type):
        raise UnsupportedColumn(name, array.type)
    own, unclear = validity(array), False
    if above is not None and own is not None:
        unclear = bool((above != own).any())
        own = or_none(above | own)
    elif own is None:
        own = above
    if not types.is_struct(array.type):
        yield array, own, unclear
        return
    for position, child in enumerate(members(array.type)):
        for leaf, valid, below in leaves(array.field(position), child.name, own):
            yield leaf, valid, unclear or below


def logical_hash(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Multihash:
    """Return the logical hash of the batches as they are. Raises the errors of `ArrowDigest`."""
    digest = ArrowDigest(schema)
    for batch in batches:
        digest.update(batch)
    return digest.finish()


def logical_hash_of(file: pq.ParquetFile) -> Multihash:
    """Return the logical hash of a data slice. Raises the errors of `digest_of`."""
    return digest_of(file).finish()


def digest_of(file: pq.ParquetFile) -> ArrowDigest:
    """Return the digest of a data slice; structs are hashed in windows of 10 000 rows.

    Check `indeterminate` before treating a mismatch as damage.

    Raises:
        UnsupportedColumn: a column type without a digest.
        UnreadableSlice: the file is truncated or is not valid Parquet.
    """
    try:
        schema = schema_of(file)
        digest = ArrowDigest(schema)
        for batch in _batches(file):
            digest.update(as_stated(batch, schema))
    except UNREADABLE as error:
        raise UnreadableSlice.of(error) from None
    return digest


def _batches(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    nested = any(types.is_struct(storage_type(field.type)) for field in file.schema_arrow)
    rows = FILE_WINDOW_ROWS if nested else CACHE_WINDOW_ROWS
    count, wanted = 0, file.metadata.num_rows
    for batch in windows(file.iter_batches(rows, use_threads=False), rows):
        yield batch
        count += batch.num_rows
    if count != wanted:  # Arrow cuts all columns to the length of the shortest
        raise UnreadableSlice(f"the data slice has {count} rows, its footer tells of {wanted}")


def windows(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of exactly `rows`; the last one may be shorter."""
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


def laid_out(array: Any, valid: Bits | None) -> Iterator[Any]:
    """Yield the hash input of the values of a leaf, one window at a time."""
    if len(array) <= CACHE_WINDOW_ROWS:
        yield stream(array, valid)
        return
    for at in range(0, len(array), CACHE_WINDOW_ROWS):
        window = array.slice(at, CACHE_WINDOW_ROWS)
        bits = None if valid is None else or_none(valid[at : at + CACHE_WINDOW_ROWS])
        yield stream(window, bits)


# --- type prefixes --------------------------------------------------------------------------


def type_prefix(arrow_type: Any, column: str, depth: int = 0) -> bytes:
    """Return the initial hash input of a column: type number and parameters. Raises
    `UnsupportedColumn`."""
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
