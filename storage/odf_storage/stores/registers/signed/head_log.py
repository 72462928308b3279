"""The log of heads in SQL: a tree of hashes that only grows, and the checkpoint signed over it.

A move of a head leaves a note in its transaction (`index/sql_unlogged.py`). `integrate` makes
leaves of the notes, and one transaction stores leaves, tiles and the signed checkpoint. Several
services may do so: each holds the row of the state meanwhile.

Witnesses of the log, and the logs of others that the node is a witness of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from odf_protocol.errors import NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_protocol.trust.checkpoints import MAX_ORIGIN_CHARS
from odf_protocol.trust.heads import GapRecord, HeadKind, HeadRecord, map_record
from odf_protocol.trust.merkle import EMPTY_ROOT, HASH_BYTES, Nodes, leaf_hash, tree_root
from odf_protocol.trust.tiles import (
    HEIGHT,
    WIDTH,
    Tile,
    bundle,
    complete_root,
    tile_nodes,
    width_of,
)

from ...index.sql_unlogged import note_missing
from ...objects.layout import HEAD
from ...ports.values import Visibility
from ...sql.engine import (
    Source,
    insert_new,
    reading,
    writing,
)
from ...sql.tables import (
    DatasetIdColumn,
    HashColumn,
    InstantColumn,
    metadata,
    refs,
    unlogged_heads,
)

MOST_AT_ONCE = 2_000
"""Notes that one transaction takes in, so that it blocks writers of SQLite for a moment only."""
ONLY = 1

states = sa.Table(
    "log_states",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("root", sa.LargeBinary, nullable=False),
    sa.Column("checkpoint", sa.Text, nullable=False),
    sa.Column("signed_at", InstantColumn),
    sa.Column("map_leaf", sa.BigInteger),
    sa.Column("map_at", InstantColumn),
    sa.Column("gap_size", sa.BigInteger),
    sa.Column("gap_root", sa.LargeBinary),
    sa.Column("gap_leaf", sa.BigInteger),
)
leaves = sa.Table(
    "log_leaves",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("entry", sa.LargeBinary, nullable=False),
)
tiles = sa.Table(
    "log_tiles",
    metadata,
    sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("hashes", sa.LargeBinary, nullable=False),
)
logged_heads = sa.Table(
    "logged_heads",
    metadata,
    sa.Column("dataset", DatasetIdColumn, primary_key=True),
    sa.Column("block", HashColumn, nullable=False),
    sa.Column("newest", sa.BigInteger, nullable=False),
    sa.Column("mapped", sa.BigInteger),
)
"""Each dataset's newest leaf, and the one that was its newest at the newest map."""
cosigners = sa.Table(
    "log_cosigners",
    metadata,
    sa.Column("witness", sa.String(MAX_ORIGIN_CHARS), primary_key=True),
    sa.Column("at_s", sa.BigInteger, nullable=False),
)
"""When each witness of this log signed last."""
witnessed = sa.Table(
    "witnessed_logs",
    metadata,
    sa.Column("origin", sa.String(MAX_ORIGIN_CHARS), primary_key=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("root", sa.LargeBinary, nullable=False),
    sa.Column("checkpoint", sa.Text, nullable=False),
)

Name = Callable[[DatasetId, Visibility], str]
Sign = Callable[[str, int, bytes], str]
"""Makes the signed note of origin, size and root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The log as it was last signed."""

    origin: str
    size: int = 0
    root: bytes = EMPTY_ROOT
    checkpoint: str = ""
    """The signed note; empty before the first one."""
    signed_at: Instant | None = None
    map_leaf: int | None = None
    map_at: Instant | None = None
    gap_size: int | None = None
    """Size and root of the newest checkpoint that a restored backup lost, once that is accepted."""
    gap_root: bytes | None = None
    gap_leaf: int | None = None


@dataclass(frozen=True, slots=True)
class LoggedHead:
    """The newest leaf of a dataset, and the record of it that the newest map has."""

    block: Multihash
    newest: int
    mapped: int | None


_FIRST = {"id": ONLY, "origin": "", "size": 0, "root": EMPTY_ROOT, "checkpoint": ""}
_STATE = sa.select(states).where(states.c.id == ONLY)
_NEWEST = sa.select(
    refs.c.hash, sa.select(states.c.checkpoint).where(states.c.id == ONLY).scalar_subquery()
).where(refs.c.dataset == sa.bindparam("its"), refs.c.name == HEAD)
_OF_DATASET = sa.select(logged_heads.c.block, logged_heads.c.newest, logged_heads.c.mapped).where(
    logged_heads.c.dataset == sa.bindparam("its")
)


class HeadLogReads:
    """Reads the log, in transactions of its own or in one that is open."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def state(self) -> LogState | None:
        """Return the state; None if nothing was ever logged."""
        with reading(self._source) as db:
            row = db.execute(_STATE).mappings().one_or_none()
        return None if row is None else _state(row)

    def newest(self, dataset: DatasetId) -> tuple[Multihash, str] | None:
        """Return the head of a dataset and the newest checkpoint: the proof that leads from one to
        the other never changes."""
        with reading(self._source) as db:
            row = db.execute(_NEWEST, {"its": dataset}).one_or_none()
        return None if row is None else (row[0], row[1] or "")

    def is_behind(self) -> bool:
        """Return whether a head moved that the log has not taken in."""
        with reading(self._source) as db:
            return db.execute(sa.select(unlogged_heads.c.number).limit(1)).first() is not None

    def cosigners(self) -> dict[str, int]:
        """Return at which second since 1970 each witness signed last."""
        with reading(self._source) as db:
            return {row.witness: row.at_s for row in db.execute(sa.select(cosigners))}

    def find(self, dataset: DatasetId) -> LoggedHead | None:
        with reading(self._source) as db:
            row = db.execute(_OF_DATASET, {"its": dataset}).one_or_none()
        return None if row is None else LoggedHead(*row)

    def entry(self, number: int) -> bytes:
        """Return a leaf. Raises `NoSuchTile`."""
        with reading(self._source) as db:
            return _entries(db, number, 1)[0]

    def mapped(self) -> Sequence[tuple[DatasetId, bytes]]:
        """Return the records of the newest map, in its order."""
        with reading(self._source) as db:
            return _mapped(db)

    def read(self, tile: Tile, size: int) -> bytes:
        """Return a file of a log of that size. Raises `NoSuchTile`."""
        if tile.width > width_of(tile.level, tile.number, size):
            raise _no_such_tile(tile.path)
        with reading(self._source) as db:
            if tile.level is None:
                return bundle(_entries(db, tile.number * WIDTH, tile.width))
            return _stored(db, tile)

    def nodes(self, size: int) -> Nodes:
        """Return the nodes of the tree of that size."""
        return tile_nodes(lambda tile: self.read(tile, size), size)


class HeadLog(HeadLogReads):
    """Leaves, tiles and checkpoint of the log. The order of the leaves of one dataset is that of
    its moves; what is signed once is the beginning of all that is signed later."""

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._engine = engine

    def find_missing(self, now: Instant) -> None:
        """Note heads that an older version moved, or that were there before the log began."""
        logged = sa.exists().where(
            logged_heads.c.dataset == refs.c.dataset, logged_heads.c.block == refs.c.hash
        )
        with writing(self._engine) as db:
            note_missing(db, ~logged, now)

    def integrate(
        self, origin: str, name: Name, sign: Sign, now: Instant, *, map_s: float
    ) -> LogState | None:
        """Take in notes and sign the larger tree; return its state, or None if nothing is new.

        A map of all heads follows if the newest one is `map_s` seconds old and any head moved
        since. `origin` counts for the first checkpoint: a log keeps its name.
        """
        with writing(self._engine) as db:
            db.execute(insert_new(db, states).values(**_FIRST).on_conflict_do_nothing())
            before = _state(db.execute(_STATE.with_for_update()).mappings().one())
            if not before.size:
                before = replace(before, origin=origin)
            growth = _Growth(db, before.size)
            changes = growth.take_gap(before, now)
            growth.take_notes(name)
            changes |= growth.take_map(before, now, map_s)
            if not growth.entries:
                return None
            size, root = growth.store()
            note = sign(before.origin, size, root)
            signed = {"size": size, "root": root, "checkpoint": note, "signed_at": now}
            changes |= {**signed, "origin": before.origin}
            db.execute(sa.update(states).values(**changes))
            return replace(before, **changes)  # type: ignore[arg-type]

    def accept_gap(self, size: int, root: bytes) -> None:
        """Let the log go on although it had signed a larger tree, which a restored backup lost."""
        changes = {"gap_size": size, "gap_root": root, "gap_leaf": None}
        with writing(self._engine) as db:
            insert = insert_new(db, states).values(**_FIRST, **changes)
            db.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changes))

    def cosigned(self, before: str, note: str, *, by: str, at_s: int) -> bool:
        """Replace a checkpoint by the same one with the signature of a witness, if it is still the
        newest; remember when the witness signed."""
        its = states.c.checkpoint == before
        with writing(self._engine) as db:
            insert = insert_new(db, cosigners).values(witness=by, at_s=at_s)
            new = {"at_s": insert.excluded.at_s}
            db.execute(insert.on_conflict_do_update(index_elements=["witness"], set_=new))
            return bool(db.execute(sa.update(states).where(its).values(checkpoint=note)).rowcount)


class _Growth:
    """What one transaction adds to the log."""

    def __init__(self, db: sa.Connection, size: int) -> None:
        self._db, self._size = db, size
        self.entries = list[bytes]()

    def take_gap(self, state: LogState, now: Instant) -> dict[str, object]:
        """Begin with the record of an accepted gap that has none yet."""
        if state.gap_size is None or state.gap_root is None or state.gap_leaf is not None:
            return {}
        self.entries.append(GapRecord(state.gap_size, state.gap_root, now).entry)
        return {"gap_leaf": self._size}

    def take_notes(self, name: Name) -> None:
        query = sa.select(unlogged_heads).order_by(unlogged_heads.c.number).limit(MOST_AT_ONCE)
        notes = self._db.execute(query).all()
        heads = dict[DatasetId, dict[str, object]]()
        for note in notes:
            number = self._size + len(self.entries)
            shown = name(note.dataset, Visibility(note.visibility))
            sequence, kind = note.sequence_number or 0, HeadKind(note.kind)
            record = HeadRecord(shown, kind, sequence, note.block, note.at)
            heads[note.dataset] = {"dataset": note.dataset, "block": note.block, "newest": number}
            self.entries.append(record.entry)
        if notes:
            insert = insert_new(self._db, logged_heads)
            new = {"block": insert.excluded.block, "newest": insert.excluded.newest}
            upsert = insert.on_conflict_do_update(index_elements=["dataset"], set_=new)
            self._db.execute(upsert, list(heads.values()))
            taken = unlogged_heads.c.number.in_(note.number for note in notes)
            self._db.execute(sa.delete(unlogged_heads).where(taken))

    def take_map(self, state: LogState, now: Instant, map_s: float) -> dict[str, object]:
        """End with a map if it is time for one."""
        if state.map_at is not None and now.ns - state.map_at.ns < map_s * NANOS:
            return {}
        self._store_entries()
        newer = logged_heads.c.mapped.is_distinct_from(logged_heads.c.newest)
        moved = sa.update(logged_heads).where(newer).values(mapped=logged_heads.c.newest)
        if not self._db.execute(moved).rowcount:
            return {}
        record = map_record([entry for _, entry in _mapped(self._db)], now)
        self.entries.append(record.entry)
        return {"map_leaf": self._size + len(self.entries) - 1, "map_at": now}

    def _store_entries(self) -> None:
        rows = [
            {"number": number, "entry": entry}
            for number, entry in enumerate(self.entries, self._size)
        ]
        if rows:
            insert = insert_new(self._db, leaves).on_conflict_do_nothing()
            self._db.execute(insert, rows)

    def store(self) -> tuple[int, bytes]:
        """Store leaves and tiles; return size and root of the tree."""
        self._store_entries()
        changed = self._changed_tiles([leaf_hash(entry) for entry in self.entries])
        insert = insert_new(self._db, tiles)
        rows = [
            {"level": level, "number": number, "hashes": hashes}
            for (level, number), hashes in changed.items()
        ]
        new = {"hashes": insert.excluded.hashes}
        keys = ["level", "number"]
        self._db.execute(insert.on_conflict_do_update(index_elements=keys, set_=new), rows)
        size = self._size + len(self.entries)

        def fetch(tile: Tile) -> bytes:
            return changed.get((tile.level or 0, tile.number)) or _stored(self._db, tile)

        return size, tree_root(size, tile_nodes(fetch, size))

    def _changed_tiles(self, hashes: list[bytes]) -> dict[tuple[int, int], bytes]:
        """Append hashes to the last tile of each level; full tiles add one to the level above."""
        changed, level, count = dict[tuple[int, int], bytes](), 0, self._size
        while hashes:
            number, width = divmod(count, WIDTH)
            content = _stored(self._db, Tile(level, number, width)) if width else b""
            content += b"".join(hashes)
            above = list[bytes]()
            for at in range(0, len(content), WIDTH * HASH_BYTES):
                tile = content[at : at + WIDTH * HASH_BYTES]
                changed[level, number + len(above)] = tile
                if len(tile) == WIDTH * HASH_BYTES:
                    steps = range(0, len(tile), HASH_BYTES)
                    above.append(complete_root([tile[n : n + HASH_BYTES] for n in steps]))
            hashes, level, count = above, level + 1, count >> HEIGHT
        return changed


def _state(row: sa.RowMapping) -> LogState:
    return LogState(**{name: value for name, value in row.items() if name != "id"})


def _mapped(db: sa.Connection) -> list[tuple[DatasetId, bytes]]:
    query = (
        sa.select(logged_heads.c.dataset, leaves.c.entry)
        .join(leaves, leaves.c.number == logged_heads.c.mapped)
        .order_by(logged_heads.c.dataset)
    )
    return [(row.dataset, bytes(row.entry)) for row in db.execute(query)]


def _entries(db: sa.Connection, first: int, count: int) -> list[bytes]:
    its = leaves.c.number.between(first, first + count - 1)
    found = db.execute(sa.select(leaves.c.entry).where(its).order_by(leaves.c.number)).scalars()
    entries = [bytes(entry) for entry in found]
    if len(entries) != count:
        raise _no_such_tile(f"of entries {first} to {first + count - 1}")
    return entries


def _stored(db: sa.Connection, tile: Tile) -> bytes:
    its = (tiles.c.level == tile.level) & (tiles.c.number == tile.number)
    found = db.execute(sa.select(tiles.c.hashes).where(its)).scalar_one_or_none()
    length = tile.width * HASH_BYTES
    if found is None or len(found) < length:
        raise _no_such_tile(tile.path)
    return bytes(found[:length])


def _no_such_tile(what: str) -> NotFound:
    return NotFound("NoSuchTile", f"the log has no tile {what[:80]}")


class WitnessedLogs:
    """The newest checkpoints that this node signed as a witness, by the origin of their log."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def find(self, origin: str) -> str | None:
        """Return the newest checkpoint with its signatures."""
        query = sa.select(witnessed.c.checkpoint).where(witnessed.c.origin == origin)
        with reading(self._engine) as db:
            return db.execute(query).scalar_one_or_none()

    def advance(self, origin: str, witness: Callable[[int, bytes], tuple[int, bytes, str]]) -> None:
        """Replace size, root and checkpoint by what `witness` returns for the stored size and
        root (0 and that of an empty tree at first); nothing changes if it raises."""
        first = {"origin": origin, "size": 0, "root": EMPTY_ROOT, "checkpoint": ""}
        its = witnessed.c.origin == origin
        with writing(self._engine) as db:
            db.execute(insert_new(db, witnessed).values(**first).on_conflict_do_nothing())
            row = db.execute(sa.select(witnessed).where(its).with_for_update()).one()
            size, root, checkpoint = witness(row.size, bytes(row.root))
            changes = {"size": size, "root": root, "checkpoint": checkpoint}
            db.execute(sa.update(witnessed).where(its).values(**changes))
