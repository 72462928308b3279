"""Blocks in a SQL database: raw bytes by hash, read along the chain.

After a forced push, the table contains several branches with the same sequence numbers. A page
of a chain is read by a range of numbers, and `prev` selects the rows that belong to the chain.
Where other branches have more rows than the requested one, or numbers have gaps, a recursive
query follows `prev` inside the database (one index lookup per block). So the cost depends on the
length of the branch only.

One summary of the chain state per dataset, so that a restart need not fold whole chains.

This is best effort: if a state cannot be saved or loaded, its chain is folded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

from odf_protocol.chain.state import ChainState, read_summary, summarize
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import HashedBlock, SetDataSchema, UnknownEvent
from odf_protocol.multihash import Multihash

from ..sql.engine import Source, insert_new, reading, writing
from ..sql.tables import blocks as block_rows
from ..sql.tables import datasets, states
from .stored_block import decode_stored

INSERT_BATCH = 500
LINEAGE_PAGE = 5000
"""Largest number of hashes per page when `lineage` follows a chain without decoding blocks."""
FOREIGN_ROWS = 16
"""Limit of rows of other branches that a page may contain, in addition to its own number."""
LINEAGE_FIRST_PAGE = 16
"""Size of the first page. It is small because most callers stop early; later pages quadruple."""

_PLAIN_INSERT = (
    "INSERT INTO blocks (dataset, hash, sequence_number, prev, kind, raw) "
    "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_MAY_SET_SCHEMA = (SetDataSchema.__name__, UnknownEvent.__name__)
"""An event that was unknown when its block was stored may be known to this version."""
_Columns = tuple[sa.ColumnElement[Any], ...]
_HASH, _PREV, _RAW = (
    sa.type_coerce(column, sa.LargeBinary).label(column.name)
    for column in (block_rows.c.hash, block_rows.c.prev, block_rows.c.raw)
)
"""Read as bytes without decoding, because most hashes are only compared."""


class SqlBlockIndex:
    """`BlockIndex` in SQL, which also reads from old to new, for readers that follow a dataset."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def find(self, dataset: DatasetId, block: Multihash) -> HashedBlock | None:
        query = sa.select(block_rows.c.raw).where(_is(block_rows, dataset, block))
        with reading(self._source) as db:
            raw = db.execute(query).scalar_one_or_none()
        return None if raw is None else decode_stored(block, raw)

    def owner(self, block: Multihash) -> DatasetId | None:
        has = sa.and_(block_rows.c.dataset == datasets.c.id, block_rows.c.hash == block)
        query = sa.select(datasets.c.id).where(sa.exists().where(has)).limit(1)
        with reading(self._source) as db:
            return db.execute(query).scalar_one_or_none()

    def ancestors(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[HashedBlock]:
        return [
            decode_stored(*named)
            for named in self.raw(dataset, start, down_to=down_to, limit=limit)
        ]

    def raw(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[tuple[Multihash, bytes]]:
        if limit < 1:
            return []
        rows = self._page(dataset, start, down_to, limit, (_HASH, _PREV, _RAW))
        return [(Multihash.decode(row[0]), row[2]) for row in rows]

    def lineage(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0
    ) -> Iterator[Multihash]:
        following: Multihash | None = start
        page = LINEAGE_FIRST_PAGE
        while following is not None:
            rows = self._page(dataset, following, down_to, page, (_HASH, _PREV))
            yield from (Multihash.decode(row[0]) for row in rows)
            prev = rows[-1][1] if len(rows) == page else None
            following = None if prev is None else Multihash.decode(prev)
            page = min(4 * page, LINEAGE_PAGE)

    def _page(
        self, dataset: DatasetId, start: Multihash, down_to: int, limit: int, columns: _Columns
    ) -> list[Any]:
        """Return rows of `start` and its ancestors, newest first, at most `limit`."""
        with reading(self._source) as db:
            number = db.execute(
                sa.select(block_rows.c.sequence_number).where(_is(block_rows, dataset, start))
            ).scalar_one_or_none()
            if number is None or number < down_to:
                return []
            bottom = max(down_to, number - limit + 1, 0)
            query = (
                sa.select(*columns)
                .where(
                    block_rows.c.dataset == dataset,
                    block_rows.c.sequence_number.between(bottom, number),
                )
                .order_by(block_rows.c.sequence_number.desc())
                .limit(2 * (number - bottom + 1) + FOREIGN_ROWS)
            )
            rows = _linked(db.execute(query), start.raw)
            if len(rows) == number - bottom + 1:
                return rows
            return _followed(db, dataset, start, down_to, limit, columns)

    def behind(
        self, dataset: DatasetId, block: Multihash | None, head: Multihash, *, limit: int = 1000
    ) -> Sequence[HashedBlock] | None:
        """Return the blocks after `block` (None: from the first) up to `head`, oldest first, at
        most `limit`. None if `block` is unknown, or is neither `head` nor an ancestor of it.
        """
        with reading(self._source) as db:
            low = -1 if block is None else _number(db, dataset, block)
            high = _number(db, dataset, head)
            if low is None or high is None:
                return None
            rows = _only_branch(db, dataset, low, high, limit)
        if rows is None:  # several branches: only the path from the head identifies its blocks
            path = list(self.lineage(dataset, head, down_to=low + 1))[-limit:]
            named = self.raw(dataset, path[0], limit=len(path)) if path else ()
            rows = [(name.raw, raw) for name, raw in reversed(named)]
        found = [decode_stored(Multihash.decode(name), raw) for name, raw in rows]
        return found if (found[0].prev if found else head) == block else None

    def schemas(self, dataset: DatasetId) -> Iterator[HashedBlock]:
        query = sa.select(_HASH).where(
            block_rows.c.dataset == dataset, block_rows.c.kind.in_(_MAY_SET_SCHEMA)
        )
        with reading(self._source) as db:
            names = db.execute(query).scalars().all()
        for name in names:
            block = self.find(dataset, Multihash.decode(bytes(name)))
            if block is not None and isinstance(block.event, SetDataSchema):
                yield block

    def count(self, dataset: DatasetId) -> int:
        query = sa.select(sa.func.count()).where(block_rows.c.dataset == dataset)
        with reading(self._source) as db:
            return int(db.execute(query).scalar_one())


def delete_unreached(
    db: sa.Connection, dataset: DatasetId, heads: Sequence[Multihash]
) -> tuple[int, int]:
    """Delete the blocks that cannot be reached from `heads`, in the running transaction. Return
    how many, and their bytes."""
    reached = (
        sa.select(block_rows.c.hash, block_rows.c.prev)
        .where(block_rows.c.dataset == dataset, block_rows.c.hash.in_(heads))
        .cte("reached", recursive=True)
    )
    older = block_rows.alias("older")
    reached = reached.union(  # not `union_all`: a chain that two heads share is followed once
        sa.select(older.c.hash, older.c.prev)
        .select_from(reached.join(older, older.c.hash == reached.c.prev))
        .where(older.c.dataset == dataset)
    )
    unreached = sa.and_(
        block_rows.c.dataset == dataset, block_rows.c.hash.not_in(sa.select(reached.c.hash))
    )
    size = sa.func.coalesce(sa.func.sum(sa.func.length(block_rows.c.raw)), 0)
    count, size_ = db.execute(sa.select(sa.func.count(), size).where(unreached)).one()
    db.execute(sa.delete(block_rows).where(unreached))
    return int(count), int(size_)


def insert_blocks(db: sa.Connection, dataset: DatasetId, blocks: Sequence[HashedBlock]) -> None:
    """Add blocks in the running transaction; skip those that exist."""
    insert_rows(db, [(dataset, block) for block in blocks])


def insert_rows(db: sa.Connection, rows: Sequence[tuple[DatasetId, HashedBlock]]) -> None:
    """As `insert_blocks`, for blocks of several datasets."""
    is_sqlite = db.dialect.name == "sqlite"  # plain bytes without conversion take half the time
    for start in range(0, len(rows), INSERT_BATCH):
        page = rows[start : start + INSERT_BATCH]
        if is_sqlite:
            db.exec_driver_sql(_PLAIN_INSERT, [_plain_row(*row) for row in page])
        else:
            statement = insert_new(db, block_rows).on_conflict_do_nothing()
            db.execute(statement, [_row_of(*row) for row in page])


def _linked(rows: Iterable[Any], start: bytes) -> list[Any]:
    """Return the rows on the path down from `start`. Rows are (hash, `prev`, …), newest first."""
    found: list[Any] = []
    following: bytes | None = start
    for row in rows:
        if row[0] == following:
            found.append(row)
            following = row[1]
    return found


def _followed(
    db: sa.Connection,
    dataset: DatasetId,
    start: Multihash,
    down_to: int,
    limit: int,
    columns: _Columns,
) -> list[Any]:
    path = _path(dataset, start, down_to, limit)
    query = (
        sa.select(*columns)
        .select_from(path.join(block_rows, block_rows.c.hash == path.c.hash))
        .where(block_rows.c.dataset == dataset)
        .order_by(path.c.depth)
    )
    return list(db.execute(query))


def _path(dataset: DatasetId, start: Multihash, down_to: int, limit: int) -> sa.CTE:
    """Select `hash`, `prev` and `depth` of `start` and its ancestors, at most `limit` rows."""
    here = (
        sa.select(block_rows.c.hash, block_rows.c.prev, sa.literal(1).label("depth"))
        .where(_is(block_rows, dataset, start), block_rows.c.sequence_number >= down_to)
        .cte("path", recursive=True)
    )
    older = block_rows.alias("older")
    return here.union_all(
        sa.select(older.c.hash, older.c.prev, here.c.depth + 1)
        .select_from(here.join(older, older.c.hash == here.c.prev))
        .where(
            older.c.dataset == dataset,
            older.c.sequence_number >= down_to,
            here.c.depth < limit,
        )
    )


def _number(db: sa.Connection, dataset: DatasetId, block: Multihash) -> int | None:
    query = sa.select(block_rows.c.sequence_number).where(_is(block_rows, dataset, block))
    number: int | None = db.execute(query).scalar_one_or_none()
    return number


def _only_branch(
    db: sa.Connection, dataset: DatasetId, low: int, high: int, limit: int
) -> list[tuple[bytes, bytes]] | None:
    """Return hash and bytes of the first `limit` blocks with sequence numbers above `low`, up to
    `high`; None if several branches have such blocks.

    One statement counts and reads: a forced push between two of them would add another branch.
    """
    between = sa.and_(
        block_rows.c.dataset == dataset,
        block_rows.c.sequence_number > low,
        block_rows.c.sequence_number <= high,
    )
    count = sa.select(sa.func.count()).where(between).correlate(None).scalar_subquery()
    number = block_rows.c.sequence_number
    query = sa.select(_HASH, _RAW, count).where(between).order_by(number).limit(limit)
    rows = db.execute(query).all()
    if rows and rows[0][2] != high - low:
        return None
    return [(bytes(row[0]), bytes(row[1])) for row in rows]


def _is(table: sa.Table, dataset: DatasetId, block: Multihash) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.dataset == dataset, table.c.hash == block)


def _row_of(dataset: DatasetId, block: HashedBlock) -> dict[str, object]:
    return {
        "dataset": dataset,
        "hash": block.hash,
        "sequence_number": block.sequence_number,
        "prev": block.prev,
        "kind": type(block.event).__name__,
        "raw": block.raw,
    }


def _plain_row(dataset: DatasetId, block: HashedBlock) -> tuple[object, ...]:
    """As `_row_of`, but as a tuple in the order of `_PLAIN_INSERT`."""
    prev = block.prev
    return (
        dataset.key,
        block.hash.raw,
        block.sequence_number,
        None if prev is None else prev.raw,
        type(block.event).__name__,
        block.raw,
    )


class KeptStates:
    """The states that `StateKeeper` saves, for read-only use."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def load(self, dataset: DatasetId) -> ChainState | None:
        query = sa.select(states.c.content).where(states.c.dataset == dataset)
        with reading(self._source) as db:
            content = db.execute(query).scalar_one_or_none()
        try:
            return None if content is None else read_summary(bytes(content))
        except BadInput:  # another version of this program saved it
            return None


class StateKeeper(KeptStates):
    """Stores at most one state of each dataset."""

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._engine = engine

    def save(self, dataset: DatasetId, state: ChainState) -> None:
        content = summarize(state)
        if content is None:
            return
        row = {"dataset": dataset, "hash": state.head, "content": content}
        with (
            suppress(sa.exc.DBAPIError, NodeError),
            writing(self._engine) as db,
        ):  # the dataset was forgotten, or the database is locked
            db.execute(sa.delete(states).where(states.c.dataset == dataset))
            db.execute(sa.insert(states).values(row))
