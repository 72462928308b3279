"""What datasets take, counted in the transactions that change it, and the quotas that limit it.

A dataset takes the bytes of the blocks that the index has of it, on all branches, and of the
slices, checkpoints and linked objects that they lead to; an object counts once, however many
blocks name it. Objects whose upload was begun count from then on. Garbage collection
(`upkeep/gc.py`) takes off what no head leads to any more.

A quota limits the datasets of one account, of each account without a quota of its own, or of the
whole node. Whoever adds to one holds its row until the end, so that two cannot take the same room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from odf_protocol.errors import LimitExceeded
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash

from ...runtime.clock import Clock, system_clock
from ..ports.errors import DatasetNotFound
from ..ports.values import ObjectKey, ObjectKind
from ..sql.engine import plainly, reading, writing
from ..sql.tables import blocks, datasets, quotas, stored_objects
from .named_objects import named_objects

NODE = "node"
"""Owner of the quota of the whole node."""
EACH = "account"
"""Owner of the quota of accounts that have none of their own."""
QUOTA_EXCEEDED = "QuotaExceeded"
"""The code of the error, for code that decides by it."""
COUNTED = (ObjectKind.DATA, ObjectKind.CHECKPOINT)
"""Kinds of objects in the register; blocks are in a table of their own."""
AT_ONCE = 500

_OBJECTS = "SELECT dataset, kind, hash, size FROM stored_objects"
_BLOCKS = "SELECT dataset, 'block', hash, length(raw) FROM blocks"
_ADD = (
    "INSERT INTO stored_objects (dataset, kind, hash, size) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (dataset, kind, hash) DO UPDATE SET size = excluded.size"
)
_GROW = "UPDATE datasets SET stored_bytes = stored_bytes + ? WHERE id = ?"
_QUOTAS = (
    "SELECT quotas.owner, quotas.bytes, accounts.name_folded FROM quotas "
    "LEFT JOIN accounts ON accounts.id = quotas.owner"
)
_USED = "SELECT coalesce(sum(stored_bytes), 0) FROM datasets"
"""In the words of the driver, since every commit runs them: they take a fifth of the time."""
_Key = tuple[bytes, str, bytes]
"""An object as the database has it: dataset, kind, hash."""
Named = tuple[ObjectKind, Multihash]


@dataclass(slots=True)
class Growth:
    """Bytes by which a dataset grows, and the rows of its register that are new."""

    bytes: int = 0
    rows: list[tuple[object, ...]] = field(default_factory=list)


def growths(
    db: sa.Connection, wanted: Iterable[tuple[DatasetId, Sequence[HashedBlock]]]
) -> dict[DatasetId, Growth]:
    """Return by how much each dataset grows with these blocks, of which it may have some."""
    sizes = dict[_Key, int]()
    for dataset, added in wanted:
        for block in added:
            sizes[dataset.key, ObjectKind.BLOCK.value, block.hash.raw] = len(block.raw)
            for named in named_objects(block.event):
                sizes[dataset.key, named.kind.value, named.hash.raw] = named.size
    return _growths(db, sizes)


def growths_of_objects(
    db: sa.Connection, dataset: DatasetId, found: Mapping[Named, int]
) -> dict[DatasetId, Growth]:
    """Return by how much a dataset grows with objects of these sizes, if it grows."""
    return _growths(
        db, {(dataset.key, kind.value, name.raw): size for (kind, name), size in found.items()}
    )


def _growths(db: sa.Connection, sizes: Mapping[_Key, int]) -> dict[DatasetId, Growth]:
    known, found = _known(db, list(sizes)), dict[DatasetId, Growth]()
    for key, size in sizes.items():
        before = known.get(key)
        if before != size:
            growth = found.setdefault(DatasetId(key[0]), Growth())
            growth.bytes += size - (before or 0)
            if key[1] in COUNTED:
                growth.rows.append((*key, size))
    return found


def _known(db: sa.Connection, keys: Sequence[_Key]) -> dict[_Key, int]:
    """Return the sizes of objects that are counted, of these and some others."""
    known = dict[_Key, int]()
    for start in range(0, len(keys), AT_ONCE):
        some = keys[start : start + AT_ONCE]
        datasets_, hashes = list({key[0] for key in some}), [key[2] for key in some]
        its = f" WHERE dataset IN ({_marks(datasets_)}) AND hash IN ({_marks(hashes)})"
        query = f"{_BLOCKS}{its} UNION ALL {_OBJECTS}{its}"
        for dataset, kind, name, size in plainly(db, query, (*datasets_, *hashes) * 2):
            known[bytes(dataset), kind, bytes(name)] = size
    return known


def _marks(values: Collection[object]) -> str:
    """Return the placeholders of a list of values; of no values one that equals nothing."""
    return ", ".join("?" * len(values)) or "NULL"


def add_growths(db: sa.Connection, found: Mapping[DatasetId, Growth]) -> None:
    """Register what is new, and count it. The caller keeps the datasets from changing."""
    rows = [row for growth in found.values() for row in growth.rows]
    if rows:
        plainly(db, _ADD, rows)
    for dataset, growth in found.items():
        grow(db, dataset, growth.bytes)


def grow(db: sa.Connection, dataset: DatasetId, growth: int) -> None:
    """Count more bytes of a dataset, or fewer."""
    if growth:
        plainly(db, _GROW, (growth, dataset.key))


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes that datasets take, and how many they may; None if there is no limit."""

    used: int
    limit: int | None
    uncounted: int = 0
    """Number of datasets that are not counted yet: those of before a version that counts."""


class Room:
    """The quotas of some accounts and of the node, held by a transaction that adds to them."""

    def __init__(self, db: sa.Connection, names: Collection[str], *, held: bool = True) -> None:
        self._db = db
        words = (NODE, EACH)
        where = f"quotas.owner IN ({_marks(words)}) OR accounts.name_folded IN ({_marks(names)})"
        lock = " FOR UPDATE OF quotas" if held and db.dialect.name == "postgresql" else ""
        query = f"{_QUOTAS} WHERE {where} ORDER BY quotas.owner{lock}"
        rows = plainly(db, query, (*words, *names))
        self._limits: dict[str, int] = {name or owner: limit for owner, limit, name in rows}
        self._used = dict[str, int]()

    def take(self, account: str, growth: int, *, refuse: bool = True) -> None:
        """Count what the datasets of an account grow by.

        Raises:
            QuotaExceeded: it does not fit, and is not counted.
        """
        limits = {owner: self.limit(owner) for owner in (NODE, account)}
        for owner, limit in limits.items():
            if limit is not None and refuse and growth > 0 and self.used(owner) + growth > limit:
                raise quota_exceeded(owner, self.used(owner), limit, growth)
        for owner, limit in limits.items():
            if limit is not None:
                self._used[owner] = self.used(owner) + growth

    def limit(self, owner: str) -> int | None:
        """Return the quota of `NODE`, or of an account by its name; datasets without an account
        have that of the node only."""
        if owner in ("", NODE):
            return self._limits.get(owner)
        return self._limits.get(owner, self._limits.get(EACH))

    def used(self, owner: str) -> int:
        if owner not in self._used:
            its = "" if owner == NODE else " WHERE account_folded = ?"
            found = plainly(self._db, _USED + its, () if owner == NODE else (owner,))
            self._used[owner] = int(found.scalar_one())
        return self._used[owner]


def quota_exceeded(owner: str, used: int, limit: int, growth: int) -> LimitExceeded:
    """An account, or the whole node, would take more than its quota."""
    who, whose = (f"account {owner}", owner) if owner != NODE else ("this node", "--node")
    return LimitExceeded(
        "QuotaExceeded",
        f"{who} takes {used} of {limit} bytes, and {growth} more do not fit; nothing was stored. "
        "Delete or compact datasets, which makes room at the next garbage collection, or have "
        f"an administrator of the node raise the quota (odf-node quota set {whose})",
        quota="node" if owner == NODE else "account",
        account=None if owner == NODE else owner,
        used=used,
        limit=limit,
        needed=growth,
    )


def account_of(alias: DatasetAlias) -> str:
    """Return the folded name of the account of a dataset; empty if it has none."""
    return "" if alias.account is None else alias.account.folded


class Quotas:
    """Reads and sets quotas, and counts what does not come with a move of a head."""

    def __init__(self, engine: sa.Engine, *, clock: Clock = system_clock) -> None:
        self._engine, self._clock = engine, clock

    def set_limit(self, owner: str, limit: int | None) -> None:
        """Set the quota of an account by its id, of `NODE` or of `EACH`; None removes it."""
        with writing(self._engine) as db:
            db.execute(sa.delete(quotas).where(quotas.c.owner == owner))
            if limit is not None:
                db.execute(sa.insert(quotas).values(owner=owner, bytes=limit))

    def limit(self, owner: str) -> int | None:
        """Return the quota that was set for exactly this owner."""
        query = sa.select(quotas.c.bytes).where(quotas.c.owner == owner)
        with reading(self._engine) as db:
            return db.execute(query).scalar_one_or_none()

    def usage(self, owner: str) -> Usage:
        """Return what the datasets of an account take, by its name, or those of `NODE`."""
        owner = owner.lower()
        query = sa.select(sa.func.count()).where(datasets.c.stored_bytes.is_(None))
        if owner != NODE:
            query = query.where(datasets.c.account_folded == owner)
        with reading(self._engine) as db:
            room = Room(db, [owner], held=False)
            uncounted = int(db.execute(query).scalar_one())
            return Usage(room.used(owner), room.limit(owner), uncounted)

    def require_room(self, account: str, size: int = 1) -> None:
        """Refuse early what would be refused when it is stored. Raises `QuotaExceeded`."""
        with reading(self._engine) as db:
            Room(db, [account], held=False).take(account, size)

    def reserve(self, key: ObjectKey, size: int) -> bool:
        """Count an object whose upload begins or goes on; return whether it was new.

        Raises:
            QuotaExceeded, DatasetNotFound.
        """
        row = {"dataset": key.dataset, "kind": key.kind.value, "hash": key.hash, "size": size}
        with writing(self._engine) as db:
            account = lock_sizes(db, key.dataset)
            its = stored_objects.c.dataset == key.dataset
            its &= (stored_objects.c.kind == key.kind.value) & (stored_objects.c.hash == key.hash)
            known = db.execute(sa.select(stored_objects.c.size).where(its)).scalar_one_or_none()
            growth = size - (known or 0)
            Room(db, [account]).take(account, growth)
            db.execute(sa.delete(stored_objects).where(its))
            db.execute(sa.insert(stored_objects).values(**row, uploaded_at=self._clock()))
            grow(db, key.dataset, growth)
            return known is None

    def release(self, key: ObjectKey) -> None:
        """Take off an object that a failed upload has reserved. Raises `DatasetNotFound`."""
        with writing(self._engine) as db:
            lock_sizes(db, key.dataset)
            forget_objects(db, key.dataset, [(key.kind, key.hash)])

    def register(self, dataset: DatasetId, found: Mapping[Named, int]) -> bool:
        """Count objects that are there and belong to the dataset; return whether any was new.
        Raises `DatasetNotFound`."""
        with reading(self._engine) as db:
            if not growths_of_objects(db, dataset, found):
                return False
        with writing(self._engine) as db:
            lock_sizes(db, dataset)
            add_growths(db, growths_of_objects(db, dataset, found))
        return True

    def surplus(
        self, dataset: DatasetId, is_kept: Callable[[ObjectKind, Multihash], bool], before: Instant
    ) -> list[Named]:
        """Return counted objects that are not kept, and were not uploaded since `before`."""
        query = sa.select(stored_objects).where(stored_objects.c.dataset == dataset, _old(before))
        with reading(self._engine) as db:
            rows = db.execute(query.execution_options(yield_per=AT_ONCE))
            named = ((ObjectKind(row.kind), row.hash) for row in rows)
            return [each for each in named if not is_kept(*each)]


def lock_sizes(db: sa.Connection, dataset: DatasetId) -> str:
    """Keep others from counting the dataset until the end of the transaction; return the name of
    its account. Datasets are locked before heads, and heads before quotas.

    Raises:
        DatasetNotFound.
    """
    its = sa.select(datasets.c.account_folded).where(datasets.c.id == dataset)
    account: str | None = db.execute(its.with_for_update(key_share=True)).scalar_one_or_none()
    if account is None:
        raise DatasetNotFound(dataset)
    return account


def forget_objects(
    db: sa.Connection, dataset: DatasetId, gone: Sequence[Named], *, before: Instant | None = None
) -> None:
    """Take objects off the register, those apart that were uploaded since `before`."""
    its = stored_objects.c.dataset == dataset
    if before is not None:
        its &= _old(before)
    found = its & stored_objects.c.hash.in_([name for _, name in gone])
    sizes = {(ObjectKind(row.kind), row.hash): row.size for row in db.execute(_select(found))}
    freed = 0
    for kind, name in gone:
        if (kind, name) in sizes:
            one = its & (stored_objects.c.kind == kind.value) & (stored_objects.c.hash == name)
            db.execute(sa.delete(stored_objects).where(one))
            freed += sizes[kind, name]
    grow(db, dataset, -freed)


def _select(its: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(stored_objects.c.kind, stored_objects.c.hash, stored_objects.c.size).where(its)


def _old(before: Instant) -> sa.ColumnElement[bool]:
    at = stored_objects.c.uploaded_at
    return sa.or_(at.is_(None), at < before)


def count_whole(db: sa.Connection, dataset: DatasetId) -> None:
    """Count a dataset from the index, after all its objects were registered."""
    of_blocks = sa.select(sa.func.sum(sa.func.length(blocks.c.raw))).where(
        blocks.c.dataset == dataset
    )
    of_objects = sa.select(sa.func.sum(stored_objects.c.size)).where(
        stored_objects.c.dataset == dataset
    )
    total = sum(int(db.execute(query).scalar_one() or 0) for query in (of_blocks, of_objects))
    its = sa.update(datasets).where(datasets.c.id == dataset)
    db.execute(its.values(stored_bytes=total))
