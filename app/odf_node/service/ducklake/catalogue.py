"""A lake as a catalogue file: the tables of DuckLake in a database file of DuckDB.

A snapshot is made by each version of each dataset, in the order of their system times; snapshot 0
is before all of them. A dataset is two tables over the same slices: with its name the current rows,
with `@changelog` all rows. No statistics are written: readers take those of the slices.

Source: DuckLake specification 1.0, "Tables".
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from odf_protocol.sql_text import quoted_name, quoted_text
from odf_storage.datasets.query.messages import TableView
from odf_storage.datasets.versions.versions import Version

from .columns import LakeColumns, NotShown
from .taken_back import TakenBack

VERSION = "1.0"
MAIN, LEFT_OUT = "main", "left_out"
"""Schema and name of the view that says what the lake does not show."""
MEMORY = "512MB"
BLOCK_BYTES = 16_384
"""Small blocks make a small file, of which clients read every part."""
_DELETES = "ducklake_inlined_delete_"
_GUARD = "ducklake_inlined_data_guard_"
"""A table of rows that a lake keeps in its catalogue, with one row that no snapshot shows. Readers
that do not know of rows taken back in the catalogue do not know of these either, and say so;
otherwise they would show the rows that were taken back."""
_NEVER = 2**62
_OF_ROWS = ("row_id", "begin_snapshot", "end_snapshot")
_COLUMNS = {
    "ducklake_column": "column_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, table_id"
    " BIGINT, column_order BIGINT, column_name VARCHAR, column_type VARCHAR, initial_default"
    " VARCHAR, default_value VARCHAR, nulls_allowed BOOLEAN, parent_column BIGINT,"
    " default_value_type VARCHAR, default_value_dialect VARCHAR",
    "ducklake_column_mapping": "mapping_id BIGINT, table_id BIGINT, type VARCHAR",
    "ducklake_column_tag": "table_id BIGINT, column_id BIGINT, begin_snapshot BIGINT, end_snapshot"
    " BIGINT, key VARCHAR, value VARCHAR",
    "ducklake_data_file": "data_file_id BIGINT, table_id BIGINT, begin_snapshot BIGINT,"
    " end_snapshot BIGINT, file_order BIGINT, path VARCHAR, path_is_relative BOOLEAN, file_format"
    " VARCHAR, record_count BIGINT, file_size_bytes BIGINT, footer_size BIGINT, row_id_start"
    " BIGINT, partition_id BIGINT, encryption_key VARCHAR, mapping_id BIGINT, partial_max BIGINT",
    "ducklake_delete_file": "delete_file_id BIGINT, table_id BIGINT, begin_snapshot BIGINT,"
    " end_snapshot BIGINT, data_file_id BIGINT, path VARCHAR, path_is_relative BOOLEAN, format"
    " VARCHAR, delete_count BIGINT, file_size_bytes BIGINT, footer_size BIGINT, encryption_key"
    " VARCHAR, partial_max BIGINT",
    "ducklake_file_column_stats": "data_file_id BIGINT, table_id BIGINT, column_id BIGINT,"
    " column_size_bytes BIGINT, value_count BIGINT, null_count BIGINT, min_value VARCHAR, max_value"
    " VARCHAR, contains_nan BOOLEAN, extra_stats VARCHAR",
    "ducklake_file_partition_value": "data_file_id BIGINT, table_id BIGINT, partition_key_index"
    " BIGINT, partition_value VARCHAR",
    "ducklake_file_variant_stats": "data_file_id BIGINT, table_id BIGINT, column_id BIGINT,"
    " variant_path VARCHAR, shredded_type VARCHAR, column_size_bytes BIGINT, value_count BIGINT,"
    " null_count BIGINT, min_value VARCHAR, max_value VARCHAR, contains_nan BOOLEAN, extra_stats"
    " VARCHAR",
    "ducklake_files_scheduled_for_deletion": "data_file_id BIGINT, path VARCHAR, path_is_relative"
    " BOOLEAN, schedule_start TIMESTAMPTZ",
    "ducklake_inlined_data_tables": "table_id BIGINT, table_name VARCHAR, schema_version BIGINT",
    "ducklake_macro": "schema_id BIGINT, macro_id BIGINT, macro_name VARCHAR, begin_snapshot"
    " BIGINT, end_snapshot BIGINT",
    "ducklake_macro_impl": "macro_id BIGINT, impl_id BIGINT, dialect VARCHAR, sql VARCHAR, type"
    " VARCHAR",
    "ducklake_macro_parameters": "macro_id BIGINT, impl_id BIGINT, column_id BIGINT, parameter_name"
    " VARCHAR, parameter_type VARCHAR, default_value VARCHAR, default_value_type VARCHAR",
    "ducklake_metadata": "key VARCHAR NOT NULL, value VARCHAR NOT NULL, scope VARCHAR, scope_id"
    " BIGINT",
    "ducklake_name_mapping": "mapping_id BIGINT, column_id BIGINT, source_name VARCHAR,"
    " target_field_id BIGINT, parent_column BIGINT, is_partition BOOLEAN",
    "ducklake_partition_column": "partition_id BIGINT, table_id BIGINT, partition_key_index BIGINT,"
    " column_id BIGINT, transform VARCHAR",
    "ducklake_partition_info": "partition_id BIGINT, table_id BIGINT, begin_snapshot BIGINT,"
    " end_snapshot BIGINT",
    "ducklake_schema": "schema_id BIGINT, schema_uuid UUID, begin_snapshot BIGINT, end_snapshot"
    " BIGINT, schema_name VARCHAR, path VARCHAR, path_is_relative BOOLEAN",
    "ducklake_schema_versions": "begin_snapshot BIGINT, schema_version BIGINT, table_id BIGINT",
    "ducklake_snapshot": "snapshot_id BIGINT, snapshot_time TIMESTAMPTZ, schema_version BIGINT,"
    " next_catalog_id BIGINT, next_file_id BIGINT",
    "ducklake_snapshot_changes": "snapshot_id BIGINT, changes_made VARCHAR, author VARCHAR,"
    " commit_message VARCHAR, commit_extra_info VARCHAR",
    "ducklake_sort_expression": "sort_id BIGINT, table_id BIGINT, sort_key_index BIGINT, expression"
    " VARCHAR, dialect VARCHAR, sort_direction VARCHAR, null_order VARCHAR",
    "ducklake_sort_info": "sort_id BIGINT, table_id BIGINT, begin_snapshot BIGINT, end_snapshot"
    " BIGINT",
    "ducklake_table": "table_id BIGINT, table_uuid UUID, begin_snapshot BIGINT, end_snapshot"
    " BIGINT, schema_id BIGINT, table_name VARCHAR, path VARCHAR, path_is_relative BOOLEAN",
    "ducklake_table_column_stats": "table_id BIGINT, column_id BIGINT, contains_null BOOLEAN,"
    " contains_nan BOOLEAN, min_value VARCHAR, max_value VARCHAR, extra_stats VARCHAR",
    "ducklake_table_stats": "table_id BIGINT, record_count BIGINT, next_row_id BIGINT,"
    " file_size_bytes BIGINT",
    "ducklake_tag": "object_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, key VARCHAR,"
    " value VARCHAR",
    "ducklake_view": "view_id BIGINT, view_uuid UUID, begin_snapshot BIGINT, end_snapshot BIGINT,"
    " schema_id BIGINT, view_name VARCHAR, dialect VARCHAR, sql VARCHAR, column_aliases VARCHAR",
}
"""The tables of a catalogue. Readers refuse it if one of them is missing, empty or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """A dataset in a lake."""

    account: str
    name: str
    location: str
    """Where its slices are, below the address of the node, with a slash at the end."""
    about: str
    columns: LakeColumns
    versions: Sequence[Version]
    taken_back: TakenBack | None
    """None: the lake shows only the changelog."""


class Catalogue:
    """Gives the numbers of a lake: of snapshots, of tables, of files."""

    def __init__(
        self, tables: Sequence[LakeTable], left_out: Sequence[NotShown], base: str
    ) -> None:
        """`base` is the address of the node."""
        self._tables, self._left_out, self._base = tables, left_out, base
        names = dict.fromkeys([MAIN, *(each.account.lower() for each in tables)])
        self._schemas = {name: number for number, name in enumerate(names)}
        self._first_table = len(names) + 1
        """The numbers of schemas, the view and tables are of one kind."""
        self._order()

    def write(self, path: Path) -> None:
        """Write the file."""
        import duckdb  # an extra, and slow to load

        with tempfile.TemporaryDirectory() as scratch:
            limits = {"memory_limit": MEMORY, "threads": 1, "temp_directory": scratch}
            with duckdb.connect(config=limits) as db:  # type: ignore[arg-type]
                db.execute("SET TimeZone = 'UTC'")
                options = f"STORAGE_VERSION 'v1.0.0', BLOCK_SIZE {BLOCK_BYTES}"
                db.execute(f"ATTACH '{str(path).replace(chr(39), chr(39) * 2)}' AS it ({options})")
                db.execute("BEGIN")
                for name, columns in _COLUMNS.items():
                    db.execute(f"CREATE TABLE it.{name} ({columns})")
                for name, columns in self._of_taken_back():
                    db.execute(f"CREATE TABLE it.{name} ({columns})")
                for name, rows in self._rows():
                    db.register("rows", rows)
                    listed = ", ".join(rows.column_names)
                    db.execute(f"INSERT INTO it.{name} ({listed}) SELECT {listed} FROM rows")  # noqa: S608
                db.execute("COMMIT")
                db.execute("DETACH it")

    def _order(self) -> None:
        """Number the snapshots: those of each dataset, and all in turn."""
        sizes = [len(each.versions) for each in self._tables]
        self._dataset = np.repeat(np.arange(len(sizes)), sizes)
        self._number = np.concatenate([np.arange(size) for size in [*sizes, 0]])
        times = [[each.recorded.ns // 1000 for each in table.versions] for table in self._tables]
        rising = [np.maximum.accumulate(np.array(each, np.int64)) for each in times]
        time = np.concatenate([*rising, np.zeros(0, np.int64)])
        order = np.lexsort((self._number, self._dataset, time))
        self._dataset, self._number, time = (x[order] for x in (self._dataset, self._number, time))
        steps = np.arange(len(time))
        self._times = np.maximum.accumulate(time - steps) + steps  # no two are equal
        starts = np.cumsum([0, *sizes])
        snapshots = np.zeros(len(time) + 1, np.int64)
        snapshots[order] = steps + 1
        self._snapshots = [
            snapshots[start : start + size] for start, size in zip(starts, sizes, strict=False)
        ]

    def _snapshot(self, dataset: int, version: int | None) -> int | None:
        """Return the snapshot of a version; that before all of them for the first one."""
        return int(self._snapshots[dataset][version]) if version else version

    def _of_both(self) -> Iterator[tuple[int, int, LakeTable, bool]]:
        """Yield number of the table, number of the dataset, dataset, and whether the table has the
        current rows."""
        for at, each in enumerate(self._tables):
            if each.taken_back is not None:
                yield self._first_table + 2 * at, at, each, True
            yield self._first_table + 2 * at + 1, at, each, False

    def _rows(self) -> Iterator[tuple[str, pa.Table]]:
        yield (
            "ducklake_metadata",
            _table(
                ("key", "value"),
                [("version", VERSION), ("data_path", self._base), ("encrypted", "false")],
            ),
        )
        yield from self._of_snapshots()
        yield from self._of_tables()
        yield from self._of_columns()
        yield from self._of_files()

    def _of_snapshots(self) -> Iterator[tuple[str, pa.Table]]:
        count = len(self._times)
        ids = np.arange(count + 1)
        changes = np.zeros(count + 1, np.int64)
        for at, each in enumerate(self._tables):
            for version in each.columns.changes:
                changes[self._snapshots[at][version]] = 1
        first = self._times[0] - 1 if count else 0
        times = pa.array(np.concatenate([[first], self._times]), pa.timestamp("us", "UTC"))
        last = self._first_table + 2 * len(self._tables)
        yield (
            "ducklake_snapshot",
            pa.table(
                {
                    "snapshot_id": ids,
                    "snapshot_time": times,
                    "schema_version": np.cumsum(changes),
                    "next_catalog_id": np.full(count + 1, last),
                    "next_file_id": 2 * ids + 1,
                }
            ),
        )
        told = []
        pairs = zip(self._dataset.tolist(), self._number.tolist(), strict=True)
        for snapshot, (at, number) in enumerate(pairs, 1):
            table = self._tables[at]
            alias = f"{table.account}/{table.name}"
            change = f"inserted_into_table:{self._first_table + 2 * at + 1}"
            told.append((snapshot, change, alias, str(table.versions[number].block)))
        yield (
            "ducklake_snapshot_changes",
            _table(("snapshot_id", "changes_made", "author", "commit_message"), told),
        )

    def _of_tables(self) -> Iterator[tuple[str, pa.Table]]:
        spelled = {each.account.lower(): each.account for each in self._tables}
        schemas = [(at, spelled.get(name, name), "") for name, at in self._schemas.items()]
        yield "ducklake_schema", _from_start(("schema_id", "schema_name", "path"), schemas)
        tables, tags = [], []
        for table, _, each, is_current in self._of_both():
            name = each.name if is_current else f"{each.name}@{TableView.CHANGELOG}"
            tables.append((table, self._schemas[each.account.lower()], name, each.location))
            tags.append((table, 0, "comment", each.about))
        placed = _from_start(("table_id", "schema_id", "table_name", "path"), tables)
        yield "ducklake_table", placed
        yield "ducklake_tag", _table(("object_id", "begin_snapshot", "key", "value"), tags)
        told = [(len(self._schemas), 0, 0, LEFT_OUT, "duckdb", _left_out(self._left_out), "")]
        names = "view_id begin_snapshot schema_id view_name dialect sql column_aliases"
        yield "ducklake_view", _table(names.split(), told)

    def _of_columns(self) -> Iterator[tuple[str, pa.Table]]:
        rows, mapped = [], []
        for table, at, each, is_current in self._of_both():
            for shown in each.columns.all:
                begin = self._snapshot(at, shown.begin)
                end = self._snapshot(at, shown.end)
                rows.append((table, begin, end, True, *shown.column))
            if not is_current:
                mapped += [(at + 1, *told, False) for told in each.columns.mapping()]
        names = "table_id begin_snapshot end_snapshot nulls_allowed column_id column_order"
        names += " column_name column_type parent_column"
        yield "ducklake_column", _table(names.split(), rows)
        names = "mapping_id column_id source_name target_field_id parent_column is_partition"
        yield "ducklake_name_mapping", _table(names.split(), mapped)
        first = self._first_table + 1
        maps = [(at + 1, first + 2 * at, "map_by_name") for at in range(len(self._tables))]
        yield "ducklake_column_mapping", _table(("mapping_id", "table_id", "type"), maps)

    def _of_files(self) -> Iterator[tuple[str, pa.Table]]:
        parts = []
        for table, at, each, is_current in self._of_both():
            if not len(each.versions):
                continue
            snapshots = self._snapshots[at]
            files = 2 * snapshots - is_current
            count = len(files)
            slices = [version.data for version in each.versions]
            parts.append(
                pa.table(
                    {
                        "data_file_id": files,
                        "table_id": np.full(count, table),
                        "begin_snapshot": snapshots,
                        "file_order": np.arange(count),
                        "path": [str(data.physical_hash) for data in slices],
                        "path_is_relative": np.ones(count, np.bool_),
                        "file_format": ["parquet"] * count,
                        "record_count": [version.rows for version in each.versions],
                        "file_size_bytes": [data.size for data in slices],
                        "row_id_start": [data.offset_interval.start for data in slices],
                        "mapping_id": np.full(count, at + 1),
                    }
                )
            )
            gone = each.taken_back
            if is_current and gone is not None and gone.count:
                yield f"{_DELETES}{table}", _deleted(gone, slices, files, snapshots)
                yield f"{_GUARD}{table}", _table(("begin_snapshot",), [(_NEVER,)])
                names = ("table_id", "table_name", "schema_version")
                yield (
                    "ducklake_inlined_data_tables",
                    _table(names, [(table, f"{_GUARD}{table}", 0)]),
                )
        if parts:
            yield "ducklake_data_file", pa.concat_tables(parts)

    def _of_taken_back(self) -> Iterator[tuple[str, str]]:
        """Yield names and columns of the tables that only datasets with rows taken back have."""
        for table, _, each, is_current in self._of_both():
            if is_current and each.taken_back is not None and each.taken_back.count:
                yield f"{_DELETES}{table}", "file_id BIGINT, row_id BIGINT, begin_snapshot BIGINT"
                tops = [
                    shown.column.name for shown in each.columns.all if shown.column.parent is None
                ]
                kinds = {name: "VARCHAR" for name in tops if name.lower() not in _OF_ROWS}
                kinds |= dict.fromkeys(_OF_ROWS, "BIGINT")
                listed = (f"{quoted_name(name)} {kind}" for name, kind in kinds.items())
                yield f"{_GUARD}{table}", ", ".join(listed)


def _deleted(gone: TakenBack, slices: Sequence[Any], files: Any, snapshots: Any) -> pa.Table:
    found = [gone.of(str(data.physical_hash)) for data in slices]
    return pa.table(
        {
            "file_id": np.repeat(files, [len(positions) for positions, _ in found]),
            "row_id": np.concatenate([positions for positions, _ in found]),
            "begin_snapshot": np.concatenate([snapshots[versions] for _, versions in found]),
        }
    )


def _table(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return pa.table([pa.array(values) for values in columns], names=list(names))


def _from_start(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows that hold from the first snapshot on, with paths."""
    return _table((*names, "begin_snapshot", "path_is_relative"), [(*row, 0, True) for row in rows])


def _left_out(rows: Sequence[NotShown]) -> str:
    """Return the statement of the view that says what the lake does not show."""
    listed = ", ".join(f"({', '.join(map(quoted_text, row))})" for row in rows)
    names = ", ".join(NotShown._fields)
    if not rows:
        empty = ", ".join(f"''::VARCHAR AS {name}" for name in NotShown._fields)
        return f"SELECT {empty} WHERE false"
    return f"SELECT * FROM (VALUES {listed}) AS t({names})"  # noqa: S608 - all are quoted
