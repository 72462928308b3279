"""Tables of the database as lines of JSON, which SQLite and PostgreSQL can both be filled from.

The first line of a piece names the columns and their types, each further line is a row. Bytes are
base64; hashes, ids and instants are as the database has them. So a dump can be read without the
classes of the version that made it.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import sqlalchemy as sa

from odf_protocol.typed import decode_json

from ...stores.sql.engine import large_cache
from ...stores.sql.tables import metadata
from .manifest import DumpedTable, Pieces, is_scattered
from .place import Place, digest_of, dumped
from .threads import BackupThreads

GROWING = ("moves", "deeds", "log_leaves")
"""Tables to which rows are only added, with rising numbers; a next backup reads the new ones."""
LEFT_OUT = frozenset({"blocks", "stored_objects", "states", "login_attempts", "device_logins"})
"""Chains are dumped by dataset, and the register of objects is made from them; the others are
caches, or of minutes."""
INSERT_ROWS = 500
READ_ROWS = 2_000
_NUMBER = "number"
_TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    "bytes": sa.LargeBinary(),
    "json": sa.JSON(none_as_null=True),
    "bool": sa.Boolean(),
    "int": sa.BigInteger(),
    "float": sa.Float(),
    "text": sa.Text(),
}
_KINDS = {sa.LargeBinary: "bytes", sa.JSON: "json", sa.Boolean: "bool", sa.Float: "float"}


class DumpHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a table as pairs of name and type, and the one that names a dataset."""

    table: str
    columns: list[tuple[str, str]]
    dataset: str | None = None


@contextmanager
def snapshot(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Begin a transaction in which everything is as at its first read, whatever others write."""
    if engine.dialect.name == "postgresql":  # SQLite does so by itself
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        yield connection


def dumped_tables() -> list[sa.Table]:
    """Return the tables in the order in which rows can refer to others."""
    return [table for table in metadata.sorted_tables if table.name not in LEFT_OUT]


def header_of(table: sa.Table) -> DumpHeader:
    refers = (
        str(column.name)
        for column in table.columns
        if (table.name == "datasets" and column.primary_key)
        or any(key.target_fullname == "datasets.id" for key in column.foreign_keys)
    )
    columns = [(str(column.name), _kind(column)) for column in table.columns]
    return DumpHeader(table=str(table.name), columns=columns, dataset=next(refers, None))


def _kind(column: sa.Column[Any]) -> str:
    plain = column.type.impl_instance if isinstance(column.type, sa.TypeDecorator) else column.type
    if isinstance(plain, sa.Integer):
        return "int"
    return next((name for kind, name in _KINDS.items() if isinstance(plain, kind)), "text")


def dump(
    db: sa.Connection,
    place: Place,
    beside: BackupThreads,
    table: sa.Table,
    known: DumpedTable | None,
) -> DumpedTable:
    """Write a table; of one that only grows, the rows behind those of the backup before."""
    header, grows = header_of(table), table.name in GROWING
    before = _continued(db, table, header, known) if grows else None
    pieces = Pieces(place, beside, msgspec.json.encode(header) + b"\n")
    rows, last, through = (before.rows, before.last, before.through) if before else (0, None, None)
    for row in _rows(db, table, header, through):
        line = dumped(row)
        pieces.add(line)
        rows += 1
        if grows:
            last, through = digest_of(line), row[table.c.keys().index(_NUMBER)]
    return DumpedTable(
        name=str(table.name),
        pieces=[*(before.pieces if before else ()), *pieces.end()],
        rows=rows,
        last=last,
        through=through,
        following=_following(db, table),
    )


def _continued(
    db: sa.Connection, table: sa.Table, header: DumpHeader, known: DumpedTable | None
) -> DumpedTable | None:
    """Return the dump that the table continues; None if it is to be dumped whole."""
    if known is None or known.through is None or is_scattered(known.pieces):
        return None
    found = list(_rows(db, table, header, known.through - 1, known.through))
    return known if found and digest_of(dumped(found[0])) == known.last else None


def _rows(
    db: sa.Connection,
    table: sa.Table,
    header: DumpHeader,
    after: int | None,
    through: int | None = None,
) -> Iterator[list[Any]]:
    columns = [
        sa.type_coerce(table.c[name], _TYPES[kind]).label(name) for name, kind in header.columns
    ]
    query = sa.select(*columns).order_by(*table.primary_key.columns)
    if after is not None:
        query = query.where(table.c[_NUMBER] > after)
    if through is not None:
        query = query.where(table.c[_NUMBER] <= through)
    streamed = query.execution_options(stream_results=True, yield_per=READ_ROWS)
    as_bytes = [kind == "bytes" for _, kind in header.columns]
    for row in db.execute(streamed):
        yield [
            base64.b64encode(value).decode() if is_bytes and value is not None else value
            for value, is_bytes in zip(row, as_bytes, strict=True)
        ]


def _following(db: sa.Connection, table: sa.Table) -> int | None:
    """Return the number that the next row gets. It may be larger than that of any row: whoever
    follows a log by its numbers would miss rows with numbers that it has seen."""
    if table.autoincrement_column is None or not _counts(table):
        return None
    if db.dialect.name == "sqlite":
        query = sa.text("SELECT seq FROM sqlite_sequence WHERE name = :name")
        last = db.execute(query, {"name": table.name}).scalar_one_or_none()
        return None if last is None else int(last) + 1
    name = db.execute(_SEQUENCE, {"name": table.name}).scalar_one()
    row = db.exec_driver_sql(f"SELECT last_value, is_called FROM {name}").one()  # noqa: S608
    return int(row[0]) + int(row[1])


_SEQUENCE = sa.text("SELECT pg_get_serial_sequence(:name, 'number')")


def _counts(table: sa.Table) -> bool:
    return bool(table.dialect_options["sqlite"]["autoincrement"])


def load(
    db: sa.Connection, pieces: Iterable[bytes], left_out: Collection[bytes] = frozenset()
) -> int:
    """Insert the rows of a dump, without those of datasets that are left out; return how many."""
    count = 0
    for piece in pieces:
        first, *lines = piece.splitlines()
        header = decode_json(first, DumpHeader)
        table = sa.table(
            header.table, *(sa.column(name, _TYPES[kind]) for name, kind in header.columns)
        )
        rows = []
        for line in lines:
            row = _row_of(header, msgspec.json.decode(line))
            if header.dataset is None or row[header.dataset] not in left_out:
                rows.append(row)
        with large_cache(db):
            for start in range(0, len(rows), INSERT_ROWS):
                db.execute(sa.insert(table), rows[start : start + INSERT_ROWS])
        count += len(rows)
    return count


def _row_of(header: DumpHeader, values: list[Any]) -> Mapping[str, Any]:
    return {
        name: base64.b64decode(value) if kind == "bytes" and value is not None else value
        for (name, kind), value in zip(header.columns, values, strict=True)
    }


def set_following(db: sa.Connection, table: str, following: int | None) -> None:
    """Let the next row of a table get this number."""
    if following is None:
        return
    if db.dialect.name == "sqlite":
        names = {"name": table, "last": following - 1}
        db.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = :name"), names)
        db.execute(sa.text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"), names)
        return
    name = db.execute(_SEQUENCE, {"name": table}).scalar_one()
    db.execute(sa.select(sa.func.setval(name, following, False)))
