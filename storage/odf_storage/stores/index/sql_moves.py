"""Moving heads in one transaction; each head is compared and swapped independently.

All checks run before the first write, under row locks that are kept until the end. So a refused
move does not affect the moves of other datasets.

Reads heads directly from SQLite, for callers that must not wait.

One prepared statement takes some microseconds. Its result is exact, whichever process moved the
head. If the database cannot answer immediately, the caller uses the ordinary way.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash
from odf_protocol.trust.heads import HeadKind

from ...runtime.clock import Clock
from ..jobs.sql_rows import Leases, end_leased, leases_of
from ..objects.layout import HEAD
from ..ports.errors import BlockNotFound, DatasetNotFound, RefConflict, ref_not_found
from ..ports.values import HeadMove
from ..sql.tables import blocks as block_rows
from ..sql.tables import datasets, moves, refs
from .sql_blocks import insert_rows
from .sql_disclosures import note_change
from .sql_sizes import Growth, Room, add_growths, growths
from .sql_unlogged import note_heads

_ids: sa.BindParameter[DatasetId] = sa.bindparam("ids", expanding=True)
_KEPT = (
    sa.select(datasets.c.id, datasets.c.created_at, datasets.c.account_folded)
    .where(datasets.c.id.in_(_ids))
    .order_by(datasets.c.id)
    .with_for_update(key_share=True)
)
"""Locks the datasets so that they are neither forgotten nor counted by others. Must run before any
other row is locked.

`forget` locks the dataset first and then the rows that depend on it. If a move locked them in the
opposite order, the two could deadlock."""
_HEADS = (
    sa.select(refs.c.dataset, refs.c.name, refs.c.hash)
    .where(refs.c.dataset.in_(_ids))
    .order_by(refs.c.dataset, refs.c.name)
    .with_for_update()
)
_BASES = sa.select(block_rows.c.dataset, block_rows.c.hash).where(
    block_rows.c.dataset.in_(_ids), block_rows.c.hash.in_(sa.bindparam("hashes", expanding=True))
)
_SWAP = (
    sa.update(refs)
    .where(
        refs.c.dataset == sa.bindparam("its_dataset"),
        refs.c.name == sa.bindparam("its_name"),
        refs.c.hash == sa.bindparam("expected"),
    )
    .values(hash=sa.bindparam("new"))
)
_Bases = set[tuple[DatasetId, Multihash]]


class _Seen:
    """Rows that the transaction has read and locked."""

    def __init__(self, db: sa.Connection, wanted: Sequence[HeadMove]) -> None:
        asked = {"ids": [move.dataset for move in wanted]}
        kept = db.execute(_KEPT, asked).all()
        self.created: dict[DatasetId, Instant] = {row.id: row.created_at for row in kept}
        self._accounts: dict[DatasetId, str] = {row.id: row.account_folded for row in kept}
        self.heads: dict[tuple[DatasetId, str], Multihash] = {
            (row.dataset, row.name): row.hash for row in db.execute(_HEADS, asked)
        }
        self.bases: _Bases = set()
        bases = [base for move in wanted if (base := _base(move)) is not None]
        if bases:
            found = db.execute(_BASES, {**asked, "hashes": bases})
            self.bases = {(row.dataset, row.hash) for row in found}
        self.leases: Leases = leases_of(db, [end for move in wanted for end in move.ended])
        self.growths = growths(db, [(move.dataset, move.blocks) for move in wanted])
        self._room = Room(db, set(self._accounts.values()))

    def check(self, db: sa.Connection, move: HeadMove) -> None:
        """Raise the same errors as `RefIndex.move`."""
        created = self.created.get(move.dataset)
        if move.of is not None and created != move.of.created_at:
            raise DatasetNotFound(move.dataset)
        head = self.heads.get((move.dataset, move.ref))
        if head is None:
            raise DatasetNotFound(move.dataset) if created is None else ref_not_found(move.ref)
        if head != move.expected:
            raise RefConflict(move.expected, head)
        base = _base(move)
        if base is not None and (move.dataset, base) not in self.bases:
            raise BlockNotFound(base)
        for end in move.ended:
            self.leases.require(db, end)
        growth = self.growths.get(move.dataset, Growth()).bytes
        account = self._accounts[move.dataset]
        self._room.take(account, growth, refuse=not move.beyond_quota)


def move_heads(
    db: sa.Connection, wanted: Sequence[HeadMove], clock: Clock
) -> list[NodeError | None]:
    """Move the heads of different datasets. Return for each the error, or None if it moved."""
    seen = _Seen(db, wanted)
    refused: list[NodeError | None] = []
    for move in wanted:
        try:
            seen.check(db, move)
            refused.append(None)
        except NodeError as error:
            refused.append(error)
    moving = [move for move, error in zip(wanted, refused, strict=True) if error is None]
    if moving:
        _write(db, moving, clock)
        moved = {move.dataset for move in moving}
        add_growths(db, {its: one for its, one in seen.growths.items() if its in moved})
    return refused


def _write(db: sa.Connection, moving: Sequence[HeadMove], clock: Clock) -> None:
    db.execute(
        _SWAP,
        [
            {
                "its_dataset": move.dataset,
                "its_name": move.ref,
                "expected": move.expected,
                "new": move.new,
            }
            for move in moving
        ],
    )
    insert_rows(db, [(move.dataset, block) for move in moving for block in move.blocks])
    now = clock()
    lines = [
        {"dataset": m.dataset, "ref": m.ref, "old": m.expected, "new": m.new, "at": now}
        for m in moving
    ]
    db.execute(sa.insert(moves), lines)
    note_heads(db, [(m.dataset, _kind(m)) for m in moving if m.ref == HEAD], now)
    note_change(db, {m.dataset for m in moving if m.ref == HEAD}, now)
    end_leased(db, [end for move in moving for end in move.ended], now)


def _kind(move: HeadMove) -> HeadKind:
    if not move.blocks:
        return HeadKind.RESET
    return HeadKind.COMMIT if _base(move) == move.expected else HeadKind.COMPACTION


def _base(move: HeadMove) -> Multihash | None:
    return move.blocks[0].prev if move.blocks else None


_HEAD = "SELECT hash FROM refs WHERE dataset = ? AND name = ?"
_NEWEST = (
    "SELECT hash, (SELECT checkpoint FROM log_states WHERE id = 1) FROM refs"
    " WHERE dataset = ? AND name = ?"
)


class SqliteHeads:
    """A private connection, opened at the first use, for one thread."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None

    @classmethod
    def of(cls, engine: sa.Engine) -> SqliteHeads | None:
        """Return None if the engine uses another database than SQLite."""
        if engine.dialect.name != "sqlite" or not engine.url.database:
            return None
        return cls(engine.url.database)

    def head(self, dataset: DatasetId) -> Multihash | None:
        """Return the hash in `head`; None if there is none, or if the database is busy."""
        row = self._row(_HEAD, dataset)
        return None if row is None else Multihash.decode(row[0])

    def newest(self, dataset: DatasetId) -> tuple[Multihash, str] | None:
        """As `HeadLog.newest`; None also if the database is busy."""
        row = self._row(_NEWEST, dataset)
        return None if row is None else (Multihash.decode(row[0]), row[1] or "")

    def _row(self, query: str, dataset: DatasetId) -> tuple[Any, ...] | None:
        try:
            rows = self._open().execute(query, (dataset.key, HEAD)).fetchall()
        except sqlite3.Error:
            self.close()
            return None
        return rows[0] if rows else None

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(self._database, timeout=0, isolation_level=None)
        return self._connection
