"""The audit log in a SQL database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from odf_protocol.instant import Instant

from ...ports.accounts import EVERYTHING, AuditEntry, AuditFilter
from ...sql.engine import reading, storable, writing
from ...sql.tables import (
    DatasetIdColumn,
    InstantColumn,
    NumberColumn,
    metadata,
)

deeds = sa.Table(
    "deeds",
    metadata,
    sa.Column("number", NumberColumn, primary_key=True, autoincrement=True),
    sa.Column("at", InstantColumn, nullable=False, index=True),
    sa.Column("actor", sa.String(200), nullable=False),
    sa.Column("account", sa.String(200)),
    sa.Column("action", sa.String(100), nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("outcome", sa.String(40), nullable=False),
    sa.Column("dataset", DatasetIdColumn, index=True),
    sa.Column("address", sa.String(100)),
    sa.Column("trace", sa.String(60)),
    sa.Column("facts", sa.JSON, nullable=False),
    sqlite_autoincrement=True,
)
"""The dataset is not a foreign key, because entries outlive datasets."""


_COLUMNS = tuple(field.name for field in fields(AuditEntry) if field.name != "number")


class AuditLog:
    """The log of changes by actors. Entries outlive accounts and datasets; only `prune` removes
    them.

    `record` numbers the entries in the given order and cuts texts that are too long.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def record(self, audit_entries: Sequence[AuditEntry]) -> None:
        if not audit_entries:
            return
        with writing(self._engine) as db:
            db.execute(sa.insert(deeds), [_row(audit_entry) for audit_entry in audit_entries])

    def page(
        self, which: AuditFilter = EVERYTHING, *, before: int | None = None, limit: int = 100
    ) -> Sequence[AuditEntry]:
        """Return entries with numbers below `before`, newest first."""
        if not storable(f"{which.actor}{which.action}"):
            return []
        query = sa.select(deeds).order_by(deeds.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(deeds.c.number < before)
        with reading(self._engine) as db:
            rows = db.execute(query.where(*_conditions(which))).mappings()
            return [AuditEntry(**row) for row in rows]

    def prune(self, *, before: Instant) -> int:
        """Remove the entries older than `before`; return their number."""
        with writing(self._engine) as db:
            return int(db.execute(sa.delete(deeds).where(deeds.c.at < before)).rowcount)


def _conditions(which: AuditFilter) -> Iterator[sa.ColumnElement[bool]]:
    for name in ("actor", "action", "dataset"):
        if (value := getattr(which, name)) is not None:
            yield deeds.c[name] == value
    if which.since is not None:
        yield deeds.c.at >= which.since
    if which.until is not None:
        yield deeds.c.at < which.until


def _row(audit_entry: AuditEntry) -> dict[str, Any]:
    """Return the row of an entry. Cut or escape texts that do not fit their columns."""
    row = {name: getattr(audit_entry, name) for name in _COLUMNS}
    for name, value in row.items():
        if isinstance(value, str):
            length = getattr(deeds.c[name].type, "length", None)
            row[name] = _fitting(value)[:length]
    return row


def _fitting(text: str) -> str:
    return (
        text
        if storable(text)
        else text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    )
