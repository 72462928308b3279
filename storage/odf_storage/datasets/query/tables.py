"""A dataset as of a block as the tables of a query, the same for every engine.

Tables as folders of links: the service fills them, the query process lists them.

A folder is empty while the query is planned; then it gets a link for each slice that may have rows
of the result. The query process never writes there.

Results of query jobs as files, a folder for each account; old ones are collected.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from msgspec.structs import replace

from odf_protocol.chain.state import Vocab
from odf_protocol.codec.manifests import to_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeNull,
    DataTypeOption,
    DataTypeTimestamp,
    TimeUnit,
)

from ...stores.keyed.folder import Below
from ...stores.ports import KeyedStore
from ..read.view import Outline
from .messages import QueryTable, Slice, TableView


def table_of(
    alias: str,
    plain: TableView,
    views: Collection[TableView],
    outline: Outline,
    *,
    takes_back: bool = True,
    **more: Any,
) -> QueryTable:
    """Return the table with views named after `alias`; `more` are the other fields of `QueryTable`.

    `plain` is the view that the name alone means. If no row takes another back (`takes_back`), the
    changelog has the facts.
    """
    names = {alias: plain, **{f"{alias}@{view}": view for view in views}}
    same = {} if takes_back else {TableView.FACTS: TableView.CHANGELOG}
    return QueryTable(
        names={name: same.get(view, view) for name, view in names.items()},
        schema=to_data(schema_of(outline)),
        offset=outline.vocab.offset_column,
        operation=outline.vocab.operation_type_column,
        system_time=outline.vocab.system_time_column,
        key=list(outline.key),
        slices=[
            Slice(data.offset_interval.start, data.offset_interval.end)
            for data, _ in outline.slices
        ],
        **more,
    )


def schema_of(outline: Outline) -> DataSchema:
    """Return the schema; before the first schema, the columns that every dataset has.

    Columns are required as the dataset says. If its chain had a schema in the old form, which did
    not record reliably what is required, all but offset, operation and system time may be null.
    """
    if outline.schema is None:
        return _own_columns(outline.vocab)
    if all(each.schema is not None for _, each in outline.schemas):
        return outline.schema
    vocab = outline.vocab
    sure = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
    return replace(
        outline.schema,
        fields=tuple(
            field if field.name in sure else replace(field, type=_optional(field.type))
            for field in outline.schema.fields
        ),
    )


def _optional(kind: DataType) -> DataType:
    known = isinstance(kind, DataTypeOption | DataTypeNull)
    return kind if known else DataTypeOption(inner=kind)


def base_name(table: QueryTable, number: int) -> str:
    """Return the table name of the changelog, the first one of several; if it is not a view of the
    query, a name that no query can write."""
    for name, view in table.names.items():
        if view is TableView.CHANGELOG:
            return name
    return f"?changelog {number}?"


def _own_columns(vocab: Vocab) -> DataSchema:
    utc = DataTypeTimestamp(unit=TimeUnit.Millisecond, timezone="UTC")
    return DataSchema(
        fields=(
            DataField(name=vocab.offset_column, type=DataTypeInt64()),
            DataField(name=vocab.operation_type_column, type=DataTypeInt32()),
            DataField(name=vocab.system_time_column, type=utc),
            DataField(name=vocab.event_time_column, type=utc),
        )
    )


def table_folder(links: Path, number: int) -> Path:
    return links / f"table-{number}"


def make_folders(links: Path, tables: int) -> None:
    """Make the folders of the tables, empty at first."""
    for number in range(tables):
        table_folder(links, number).mkdir()


def link(links: Path, number: int, paths: Sequence[str]) -> None:
    """Link the files of a table. The names of the links keep the order of the slices."""
    folder = os.open(table_folder(links, number), os.O_RDONLY | os.O_DIRECTORY)
    try:
        for at, path in enumerate(paths):
            os.symlink(path, f"{at:08}.parquet", dir_fd=folder)
    finally:
        os.close(folder)


FOLDER = "query-results"
"""Name of the folder, beside the folders of projections of datasets."""


class QueryResults:
    """The results of a node, in the store of projections."""

    def __init__(self, projections: KeyedStore) -> None:
        self._all, self._store = projections, Below(projections, FOLDER)

    def put(self, owner: str, job: str, chunks: Iterable[bytes], *, most: int) -> None:
        """Store a result; keep only the newest `most` results of the account."""
        self._store.put(_key(owner, job), chunks)
        kept = sorted(self._store.list(owner), key=lambda info: info.modified, reverse=True)
        self._store.delete([info.key for info in kept[most:]])

    def open(self, owner: str, job: str) -> BinaryIO:
        """Open a result. Raise `KeyNotFound` if it was collected."""
        return self._store.open(_key(owner, job))

    def collect(self, *, before: Instant) -> int:
        """Remove the results written before that time; return their number."""
        old = [info.key for info in self._all.list(FOLDER) if info.modified < before]
        self._all.delete(old)
        return len(old)


def _key(owner: str, job: str) -> str:
    return f"{owner}/{job}"
