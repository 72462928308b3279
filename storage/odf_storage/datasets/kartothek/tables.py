"""Open a table of a Kartothek dataset: its schema and its partitions, without reading data files.

Only two files are read, the state and the schema, for any number of partitions. The store is
listed only if the state names no partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odf_protocol.kartothek.errors import (
    KartothekFileMissing,
    MalformedPartition,
    MalformedState,
    TableNotChosen,
)
from odf_protocol.kartothek.keys import (
    DATA_SUFFIX,
    INDICES,
    SCHEMA_NAME,
    TABLE,
    checked_data_key,
    partition_texts,
    schema_key,
)
from odf_protocol.kartothek.partition_values import value_of
from odf_protocol.kartothek.schema import MAX_SCHEMA_BYTES, decode_schema

from ...stores.ports import KeyedReads
from .found import FoundState, find_state

MAX_LISTED = 1_000_000
"""Limit of files in a listing, if partitions have to be found that way."""
_HIDDEN = ("_", ".")
Files = Mapping[str, Mapping[str, str]]
"""Label → table → key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One data file. `label` is its name in indices, and has no other meaning."""

    label: str
    key: str
    values: Mapping[str, pa.Scalar]
    """Values of the partition columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a dataset, as its state and schema files describe it."""

    store: KeyedReads
    found: FoundState
    name: str
    schema: pa.Schema
    partition_keys: tuple[str, ...]
    partitions: tuple[Partition, ...]


def open_table(store: KeyedReads, uuid: str, name: str | None = None) -> Table:
    """Open a table by its name; None: the only table of the dataset.

    Raises:
        NoKartothek, KartothekFileMissing: no state file; no schema file.
        TableNotChosen: there are several tables and no name, or no table of that name.
        BadKartothek: a file breaks the format; the error names file and reason.
    """
    found = find_state(store, uuid)
    state = found.state
    files = _listed(store, uuid) if state.partitions is None else state.partitions
    tables = sorted(next(iter(files.values()), {}))
    chosen = _chosen(found.key, tables, name) if tables else _table_without_files(store, uuid, name)
    schema = _schema(store, schema_key(uuid, chosen))
    partition_keys, partitions = _partitions(files, chosen, schema, state.partition_keys)
    return Table(
        store=store,
        found=found,
        name=chosen,
        schema=schema,
        partition_keys=partition_keys,
        partitions=partitions,
    )


def _chosen(key: str, tables: Sequence[str], name: str | None) -> str:
    if name is None and len(tables) > 1:
        raise TableNotChosen(key, f"it has several tables, name one: {', '.join(tables)[:300]}")
    if name is not None and name not in tables:
        raise TableNotChosen(key, f"its tables are {', '.join(tables)[:300]}, not {name[:100]}")
    return name or tables[0]


def _table_without_files(store: KeyedReads, uuid: str, name: str | None) -> str:
    """Return the name of the table if there are no partitions: the usual name if it has a schema
    file, else the one found by listing."""
    if name is not None:
        return name
    if store.read(schema_key(uuid, TABLE), most=MAX_SCHEMA_BYTES) is not None:
        return TABLE
    names = [key.split("/") for key in _keys_below(store, uuid)]
    tables = sorted(parts[1] for parts in names if len(parts) == 3 and parts[2] == SCHEMA_NAME)
    if not tables:
        raise KartothekFileMissing(schema_key(uuid, TABLE), "there is no schema file")
    return _chosen(uuid, tables, None)


def _schema(store: KeyedReads, key: str) -> pa.Schema:
    content = store.read(key, most=MAX_SCHEMA_BYTES)
    if content is None:
        raise KartothekFileMissing(key, "there is no schema file")
    return decode_schema(content.raw, key)


def _listed(store: KeyedReads, uuid: str) -> Files:
    """Find partitions by the keys of files. Raise `NotParquet`, `MalformedState`."""
    files: dict[str, dict[str, str]] = defaultdict(dict)
    tables: set[str] = set()
    for key in _keys_below(store, uuid):
        _, table, *rest = key.split("/")
        if not rest or table == INDICES or rest[-1].startswith(_HIDDEN):
            continue
        checked_data_key(key, "the listing of the store")
        label = "/".join(rest).removesuffix(DATA_SUFFIX)
        files[label][table] = key
        tables.add(table)
    for label, some in files.items():
        if set(some) != tables:
            missing = ", ".join(sorted(tables - set(some)))
            raise MalformedState(uuid, f"partition {label[:100]!r} has no file in {missing[:200]}")
    return files


def _keys_below(store: KeyedReads, uuid: str) -> list[str]:
    keys = []
    for info in store.list(uuid):
        keys.append(info.key)
        if len(keys) > MAX_LISTED:
            raise MalformedState(uuid, f"more than {MAX_LISTED} files, and no state lists them")
    return keys


def _partitions(
    files: Files, table: str, schema: pa.Schema, declared: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[Partition, ...]]:
    """Return the partition columns, and partitions with values. Raise `MalformedPartition`."""
    columns = None if declared is None else tuple(declared)
    partitions = []
    for label, some in files.items():
        key = some[table]
        texts = partition_texts(key)
        names = tuple(column for column, _ in texts)
        columns = names if columns is None else columns
        if sorted(names) != sorted(columns):
            reason = f"its partition columns are {list(names)}, others have {list(columns)}"
            raise MalformedPartition(key, reason)
        values = {column: _value(column, text, schema, key) for column, text in texts}
        partitions.append(Partition(label=label, key=key, values=values))
    return columns or (), tuple(partitions)


def _value(column: str, text: str, schema: pa.Schema, key: str) -> pa.Scalar:
    if column not in schema.names:
        raise MalformedPartition(key, f"the schema file has no column {column[:100]!r}")
    return value_of(text, schema.field(column).type, key)
