"""Metadata lists of Flight SQL: one catalogue, one schema in it, and readable datasets as tables.

Source: Arrow Flight SQL, result schemas of the metadata commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import re2

from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.flight_sql import FlightCommand
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..datasets.listing import list_datasets
from ..limits.texts import PATTERN
from ..query.inputs import QueryInputs
from .calls import ReaderTypes

CATALOG = "kamu"
"""Name of the catalogue and the schema, the same as in queries and on the reference node."""
TABLE = "TABLE"
PAGE = 200
"""Limit of datasets in one batch of tables."""


def _schema(**columns: pa.DataType) -> pa.Schema:
    """Return a schema. A final `_` is not part of a name, and means that the column is never
    null."""
    return pa.schema(
        [
            pa.field(name.removesuffix("_"), kind, nullable=not name.endswith("_"))
            for name, kind in columns.items()
        ]
    )


_T = pa.utf8()
_KEYS = _schema(
    **{
        f"{side}_{name}": _T
        for side in ("pk", "fk")
        for name in ("catalog_name", "db_schema_name", "table_name_", "column_name_")
    },
    key_sequence_=pa.int32(),
    fk_key_name=_T,
    pk_key_name=_T,
    update_rule_=pa.uint8(),
    delete_rule_=pa.uint8(),
)
CATALOGS = _schema(catalog_name_=_T)
SCHEMAS = _schema(catalog_name=_T, db_schema_name_=_T)
TYPES = _schema(table_type_=_T)
TABLES = _schema(catalog_name=_T, db_schema_name=_T, table_name_=_T, table_type_=_T)
TABLES_WITH_SCHEMA = TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
PRIMARY_KEYS = _schema(
    catalog_name=_T,
    db_schema_name=_T,
    table_name_=_T,
    column_name_=_T,
    key_name=_T,
    key_sequence_=pa.int32(),
)
KEYS = {
    "CommandGetExportedKeys": _KEYS,
    "CommandGetImportedKeys": _KEYS,
    "CommandGetCrossReference": _KEYS,
}
"""Schemas of the lists of keys. No dataset has keys of others."""
TYPE_NAME = b"ARROW:FLIGHT:SQL:TYPE_NAME"
"""What ADBC's drivers give programs, such as SQLAlchemy, as the type of a column."""
_TYPE_NAMES: list[tuple[Callable[[pa.DataType], bool], str]] = [
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "TINYINT"),
    (lambda kind: kind in (pa.int16(), pa.uint8()), "SMALLINT"),
    (lambda kind: kind in (pa.int32(), pa.uint16()), "INTEGER"),
    (lambda kind: kind in (pa.int64(), pa.uint32()), "BIGINT"),
    (pa.types.is_uint64, "DECIMAL(20, 0)"),
    (lambda kind: kind in (pa.float16(), pa.float32()), "REAL"),
    (pa.types.is_float64, "DOUBLE"),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "VARCHAR"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_time, "TIME"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, "TIMESTAMP WITH TIME ZONE"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (
        lambda kind: (
            pa.types.is_binary(kind)
            or pa.types.is_large_binary(kind)
            or pa.types.is_fixed_size_binary(kind)
        ),
        "VARBINARY",
    ),
]
"""Names of SQL types that hold all values of a type of Arrow. Lists and structs have none."""


@dataclass(frozen=True)
class FlightTables:
    """The datasets of the node as tables, for the threads of calls."""

    access: DatasetAccess
    inputs: QueryInputs

    def batches(
        self, actor: Actor, command: FlightCommand, reader: ReaderTypes
    ) -> Iterator[pa.RecordBatch]:
        """Yield the tables that CommandGetTables requests. If the pattern is the name of a dataset,
        only this one is listed. Raises `MalformedCommand`, `TextTooLong`."""
        schema = TABLES_WITH_SCHEMA if command.flag(5) else TABLES
        types, pattern = command.texts(4), command.text(3)
        if not in_catalog(command) or (types and TABLE not in types):
            return
        like = _like(pattern)
        if pattern is not None:
            like = self._exact(actor, pattern) or like
        after: str | None = None
        while True:
            page, after = list_datasets(self.access, actor, account=None, after=after, limit=PAGE)
            rows = []
            for entry in page:
                alias = self.access.shown_alias(entry)
                if like.fullmatch(alias):
                    shown = [self._columns(entry, reader)] if command.flag(5) else []
                    rows.append([CATALOG, CATALOG, alias, TABLE, *shown])
            if rows:
                yield batch_of(schema, *rows)
            if after is None:
                return

    def primary_keys(self, actor: Actor, command: FlightCommand) -> Iterator[pa.RecordBatch]:
        """Yield the key by which the source of a dataset merges rows: current rows, which a plain
        name means, have one row with each. Raises `MalformedCommand`, `TextTooLong`."""
        entry = self.inputs.named(actor, command.text(3) or "")
        if entry is None or not in_catalog(command):
            return
        place = [CATALOG, CATALOG, self.access.shown_alias(entry)]
        key = enumerate(self.inputs.key(entry), start=1)
        yield batch_of(PRIMARY_KEYS, *[[*place, name, None, number] for number, name in key])

    def _columns(self, entry: DatasetEntry, reader: ReaderTypes) -> bytes:
        """Return the columns in the types in which the caller gets rows."""
        schema = reader.schema(to_arrow(self.inputs.columns(entry)))
        if reader is ReaderTypes.ARROW:  # the JDBC driver has names of its own
            schema = pa.schema([_named(field) for field in schema], schema.metadata)
        return bytes(schema.serialize().to_pybytes())

    def _exact(self, actor: Actor, name: str) -> Any | None:
        """Return a pattern for the dataset with this name, None if the actor sees none."""
        found = self.inputs.named(actor, name)
        return None if found is None else re2.compile(re2.escape(self.access.shown_alias(found)))


def _named(field: pa.Field) -> pa.Field:
    """Return the column with the name of its SQL type, if it has one."""
    kind = field.type
    if pa.types.is_decimal(kind):
        name = f"DECIMAL({kind.precision}, {kind.scale})"
    else:
        name = next((name for is_one, name in _TYPE_NAMES if is_one(kind)), "")
    return field.with_metadata({**(field.metadata or {}), TYPE_NAME: name}) if name else field


def catalogs() -> pa.RecordBatch:
    return batch_of(CATALOGS, [CATALOG])


def schemas(command: FlightCommand) -> pa.RecordBatch:
    return batch_of(SCHEMAS, *([[CATALOG, CATALOG]] if in_catalog(command) else []))


def table_types() -> pa.RecordBatch:
    return batch_of(TYPES, [TABLE])


def in_catalog(command: FlightCommand) -> bool:
    """Return whether the catalogue and the schema pattern of a command match those of this node.
    Raises `MalformedCommand`, `TextTooLong`."""
    return command.text(1) in (None, CATALOG) and bool(_like(command.text(2)).fullmatch(CATALOG))


def batch_of(schema: pa.Schema, *rows: Sequence[object]) -> pa.RecordBatch:
    columns = [[row[at] for row in rows] for at in range(len(schema))]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _like(pattern: str | None) -> Any:
    """Convert an SQL pattern: `%` matches any text, `_` one character, None everything. RE2 takes
    time in proportion to pattern and text. Raises `TextTooLong`."""
    if pattern is None:
        return re2.compile("(?s).*")
    PATTERN.check(pattern)
    parts = {"%": ".*", "_": "."}
    return re2.compile("(?s)" + "".join(parts.get(one) or re2.escape(one) for one in pattern))
