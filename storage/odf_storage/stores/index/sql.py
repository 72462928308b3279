"""Registry and references in a SQL database (SQLite or PostgreSQL).

One transaction moves a head: it compares and swaps the reference, adds new blocks, and logs the
move (`sql_moves.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef, Name
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind, HashedBlock
from odf_protocol.multihash import Multihash
from odf_protocol.trust.heads import HeadKind

from ...runtime.clock import Clock, system_clock
from ..jobs.sql_rows import forget_jobs
from ..objects.layout import HEAD
from ..ports.errors import (
    AliasTaken,
    DatasetIdTaken,
    DatasetNotFound,
    RefConflict,
    account_name_taken,
    ref_not_found,
)
from ..ports.values import AccountId, DatasetEntry, HeadMove, HeadMoved, JobEnd, Visibility
from ..sql.engine import Source, reading, storable, writing
from ..sql.publishing import variables
from ..sql.tables import accounts, dataset_keys, datasets, former_names, moves, refs
from ..sql.tables import inputs as input_rows
from ..wakeups.wakeups import MemoryWakeUp, Topic, WakeUp
from .sql_blocks import delete_unreached, insert_blocks
from .sql_disclosures import note_change, note_visibility
from .sql_moves import move_heads
from .sql_sizes import (
    Growth,
    Named,
    Room,
    account_of,
    add_growths,
    count_whole,
    forget_objects,
    grow,
    growths,
    lock_sizes,
)
from .sql_unlogged import note_heads

_BY_ID = sa.select(datasets).where(datasets.c.id == sa.bindparam("its"))
_BY_ALIAS = sa.select(datasets).where(datasets.c.alias_folded == sa.bindparam("its"))
_BY_FORMER_ALIAS = (
    sa.select(datasets)
    .join(former_names, former_names.c.dataset == datasets.c.id)
    .where(former_names.c.alias_folded == sa.bindparam("its"))
)
_BY_IDS = sa.select(datasets).where(datasets.c.id.in_(sa.bindparam("ids", expanding=True)))
_BY_ALIASES = sa.select(datasets).where(
    datasets.c.alias_folded.in_(sa.bindparam("aliases", expanding=True))
)
_DEPENDANTS = sa.select(input_rows.c.dataset).where(input_rows.c.input == sa.bindparam("its"))
_DEPENDANTS_OF = sa.select(input_rows.c.dataset).where(
    input_rows.c.input.in_(sa.bindparam("ids", expanding=True))
)
_HEAD = sa.select(refs.c.hash).where(
    refs.c.dataset == sa.bindparam("its_dataset"), refs.c.name == sa.bindparam("its_name")
)
_HEADS = sa.select(refs.c.dataset, refs.c.hash).where(
    refs.c.dataset.in_(sa.bindparam("ids", expanding=True)), refs.c.name == HEAD
)
"""Built once, because every request and job uses them and building takes longer than running."""
_NEWS = sa.select(moves.c.number).where(moves.c.number > sa.bindparam("cursor")).limit(1)
MOST_FORMER_NAMES = 100
"""Former names that the index keeps of a dataset, the newest ones."""
_RUNG = (Topic.ENDED, Topic.WORK)
"""Wakes processes that wait for the end of a job, and workers that wait for its lock."""


class DatasetEntries:
    """Reads which datasets this node has, and their names, which are compared case-insensitively.

    `get` raises `DatasetNotFound`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def get(self, ref: DatasetRef) -> DatasetEntry:
        entry = self.find(ref)
        if entry is None:
            raise DatasetNotFound(ref)
        return entry

    def find(self, ref: DatasetRef) -> DatasetEntry | None:
        alias = ref.alias.folded if ref.alias else None
        query = _BY_ALIAS if ref.id is None else _BY_ID
        with reading(self._source) as db:
            row = db.execute(query, {"its": ref.id or alias}).mappings().one_or_none()
        return None if row is None else entry_of(row)

    def find_former(self, alias: DatasetAlias) -> DatasetEntry | None:
        """Return the dataset that had this name before it was renamed, if none has taken it."""
        with reading(self._source) as db:
            row = db.execute(_BY_FORMER_ALIAS, {"its": alias.folded}).mappings().one_or_none()
        return None if row is None else entry_of(row)

    def find_all(self, wanted: Collection[DatasetId]) -> Mapping[DatasetId, DatasetEntry]:
        """Return the entries of those datasets that this node has."""
        with reading(self._source) as db:
            found = [entry_of(row) for row in db.execute(_BY_IDS, {"ids": wanted}).mappings()]
        return {entry.id: entry for entry in found}

    def find_named(self, wanted: Collection[DatasetAlias]) -> Mapping[DatasetAlias, DatasetEntry]:
        folded = {alias: alias.folded for alias in wanted}
        with reading(self._source) as db:
            rows = db.execute(_BY_ALIASES, {"aliases": list(folded.values())}).mappings()
            found = {row["alias_folded"]: entry_of(row) for row in rows}
        return {alias: found[name] for alias, name in folded.items() if name in found}

    def page(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[DatasetEntry]:
        """Return entries by folded alias, only those whose alias is greater than `after`."""
        if not storable((account or "") + (after or "")):
            return []
        query = sa.select(datasets).order_by(datasets.c.alias_folded).limit(limit)
        if account is not None:
            query = query.where(datasets.c.account_folded == account.lower())
        if after is not None:
            query = query.where(datasets.c.alias_folded > after)
        with reading(self._source) as db:
            return [entry_of(row) for row in db.execute(query).mappings()]


class DatasetRegistry(DatasetEntries):
    """Creates, renames and forgets datasets, and records which derive from which.

    `create` stores entry and first head atomically; it raises `AliasTaken` or `DatasetIdTaken`.
    Every other change raises `DatasetNotFound`.
    """

    def __init__(
        self, engine: sa.Engine, *, clock: Clock = system_clock, wake_up: WakeUp | None = None
    ) -> None:
        super().__init__(engine)
        self._engine = engine
        self._clock = clock
        self._wake_up = wake_up or MemoryWakeUp()

    def create(
        self, entry: DatasetEntry, *, blocks: Sequence[HashedBlock], key: bytes | None = None
    ) -> None:
        """Register a dataset with its first blocks, oldest first; the last one becomes the head.
        `key` is its secret key, sealed.

        Raises:
            AliasTaken, DatasetIdTaken, QuotaExceeded.
        """
        head = blocks[-1].hash
        try:
            with writing(self._engine) as db:
                row = entry_row(entry)
                db.execute(sa.insert(datasets).values(**row, stored_bytes=0))
                _forget_former(db, entry.alias.folded)
                _forget_belongings(db, entry.id, self._clock())
                note_visibility(db, entry.id, entry.visibility, self._clock())
                added = growths(db, [(entry.id, blocks)])
                account, growth = str(row["account_folded"]), added.get(entry.id, Growth())
                Room(db, [account]).take(account, growth.bytes)
                insert_blocks(db, entry.id, blocks)
                add_growths(db, added)
                db.execute(sa.insert(refs).values(dataset=entry.id, name=HEAD, hash=head))
                if key is not None:
                    db.execute(sa.insert(dataset_keys).values(dataset=entry.id, sealed=key))
                log_move(db, entry.id, HEAD, None, head, self._clock)
                self._wake_up.announce(db, Topic.MOVED)
        except sa.exc.IntegrityError:
            if self.find(DatasetRef(id=entry.id)) is not None:
                raise DatasetIdTaken(entry.id) from None
            raise AliasTaken(entry.alias) from None
        self._wake_up.send(Topic.MOVED)

    def rename(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        its = sa.select(datasets.c.alias_folded).where(datasets.c.id == dataset)
        change = sa.update(datasets).where(datasets.c.id == dataset).values(**_alias_columns(alias))
        try:
            with writing(self._engine) as db:
                old = db.execute(its.with_for_update()).scalar_one_or_none()
                if old is None:
                    raise DatasetNotFound(dataset)
                db.execute(change)
                note_change(db, [dataset], self._clock())
                _forget_former(db, alias.folded)
                if old != alias.folded:
                    _keep_former(db, dataset, old, self._clock())
        except sa.exc.IntegrityError:
            raise AliasTaken(alias) from None

    def move_account(
        self, old: Name, new: Name, *, renamed: AccountId | None = None
    ) -> Sequence[DatasetEntry]:
        """Give all datasets of an account the name of another in their aliases, or rename the
        account `renamed` with them; return their new entries. All of it happens, or nothing.

        Raises:
            AliasTaken: the other account has a dataset of this name. AccountNameTaken.
        """
        its = sa.select(datasets).where(datasets.c.account_folded == old.folded)
        moved: list[DatasetEntry] = []
        with writing(self._engine) as db:
            if renamed is not None:
                named = {"name": str(new), "name_folded": new.folded}
                try:
                    db.execute(sa.update(accounts).where(accounts.c.id == renamed).values(**named))
                except sa.exc.IntegrityError:
                    raise account_name_taken(str(new)) from None
            for entry in map(entry_of, db.execute(its.with_for_update()).mappings().all()):
                alias = DatasetAlias(entry.alias.name, new)
                moved.append(replace(entry, alias=alias))
                change = sa.update(datasets).where(datasets.c.id == entry.id)
                try:
                    db.execute(change.values(**_alias_columns(alias)))
                except sa.exc.IntegrityError:
                    raise AliasTaken(alias) from None
                _forget_former(db, alias.folded)
                if alias.folded != entry.alias.folded:
                    _keep_former(db, entry.id, entry.alias.folded, self._clock())
            note_change(db, [entry.id for entry in moved], self._clock())
        return moved

    def forget(self, dataset: DatasetId, *, expected: Multihash | None = None) -> None:
        """Remove the dataset and everything that belongs to it but its lines in logs.

        Its variables, ended jobs and rejected rows are deleted. Its open jobs are cancelled and
        belong to no dataset afterwards. A dataset created again with the same id gets none of them.

        Raises:
            RefConflict: `expected` is given and is not its head.
        """
        with writing(self._engine) as db:
            if expected is not None:
                lock_dataset(db, dataset)
                lock_head(db, dataset, expected)
            note_heads(db, [(dataset, HeadKind.DELETE)], self._clock())
            if db.execute(sa.delete(datasets).where(datasets.c.id == dataset)).rowcount == 0:
                raise DatasetNotFound(dataset)
            _forget_belongings(db, dataset, self._clock())
            note_change(db, [dataset], self._clock())
            for topic in _RUNG:
                self._wake_up.announce(db, topic)
        for topic in _RUNG:
            self._wake_up.send(topic)

    def set_visibility(self, dataset: DatasetId, visibility: Visibility) -> None:
        change = sa.update(datasets).where(datasets.c.id == dataset)
        with writing(self._engine) as db:
            if db.execute(change.values(visibility=visibility.value)).rowcount == 0:
                raise DatasetNotFound(dataset)
            note_visibility(db, dataset, visibility, self._clock())

    def set_inputs(self, dataset: DatasetId, inputs: Sequence[DatasetId]) -> None:
        with writing(self._engine) as db:
            lock_dataset(db, dataset)
            db.execute(sa.delete(input_rows).where(input_rows.c.dataset == dataset))
            if inputs:
                rows = [{"dataset": dataset, "input": name} for name in dict.fromkeys(inputs)]
                db.execute(sa.insert(input_rows), rows)

    def dependants(self, dataset: DatasetId) -> Sequence[DatasetId]:
        with reading(self._engine) as db:
            return sorted(db.execute(_DEPENDANTS, {"its": dataset}).scalars())

    def dependants_of_any(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]:
        with reading(self._engine) as db:
            return set(db.execute(_DEPENDANTS_OF, {"ids": datasets}).scalars())


class Heads:
    """The blocks that named references point to: the only part of a dataset that ever changes.

    If absent: `DatasetNotFound`, or `RefNotFound` for a name other than `head`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def head(self, dataset: DatasetId, ref: str = HEAD) -> Multihash:
        with reading(self._source) as db:
            return _head(db, dataset, ref)

    def heads(self, wanted: Collection[DatasetId]) -> Mapping[DatasetId, Multihash]:
        """Return the heads of those datasets that this node has."""
        with reading(self._source) as db:
            return {row.dataset: row.hash for row in db.execute(_HEADS, {"ids": wanted})}


class RefIndex(Heads):
    """Moves references, and logs every move.

    `move` stores the new blocks, compares and swaps the head, and logs the move, all in one
    transaction; the loser of a race gets `RefConflict(expected, actual)`. The jobs of `ended` end
    in the same transaction; if a worker has lost its job (`LeaseLost`), the head does not move.
    Once a reader has read a number of the log, no smaller number appears. Creation is logged too.
    New blocks continue a stored block (`BlockNotFound`) or start a chain.
    `of` is the dataset's entry as the caller knows it: if the dataset was forgotten and created
    again since, its earlier objects are gone (`DatasetNotFound`). What does not fit into a quota
    is refused (`QuotaExceeded`), unless the move goes `beyond_quota`: it takes rows back, or
    rewrites what is there.
    """

    def __init__(
        self, engine: sa.Engine, *, clock: Clock = system_clock, wake_up: WakeUp | None = None
    ) -> None:
        super().__init__(engine)
        self._engine = engine
        self._clock = clock
        self._wake_up = wake_up or MemoryWakeUp()

    def move(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash,
        new: Multihash,
        blocks: Sequence[HashedBlock] = (),
        ref: str = HEAD,
        ended: Sequence[JobEnd] = (),
        of: DatasetEntry | None = None,
        beyond_quota: bool = False,
    ) -> None:
        wanted = HeadMove(
            dataset, expected, new, tuple(blocks), ref, tuple(ended), of, beyond_quota
        )
        (refused,) = self.move_all([wanted])
        if refused is not None:
            raise refused

    def move_all(self, wanted: Sequence[HeadMove]) -> Sequence[NodeError | None]:
        """Move heads of different datasets in one transaction. Return for each the error that
        `move` would raise, or None. A refused move does not stop the others."""
        with writing(self._engine) as db:
            refused = move_heads(db, wanted, self._clock)
            woken = list(_RUNG if any(move.ended for move in wanted) else ())
            if None in refused:
                woken.append(Topic.MOVED)
            for topic in woken:
                self._wake_up.announce(db, topic)
        for topic in woken:
            self._wake_up.send(topic)
        return refused

    def moves(
        self, *, after: int, limit: int = 100, since: Instant | None = None
    ) -> Sequence[HeadMoved]:
        """Return log entries numbered above `after`, not older than `since`, oldest first."""
        query = sa.select(moves).where(moves.c.number > after).order_by(moves.c.number).limit(limit)
        if since is not None:
            query = query.where(moves.c.at >= since)
        with reading(self._engine) as db:
            if db.execute(_NEWS, {"cursor": after}).first() is None:
                return []
            _wait_for_writers(db)
            return [HeadMoved(**row) for row in db.execute(query).mappings()]

    def has_moved(self, dataset: DatasetId) -> bool:
        """Return whether the log has a move of the dataset since its last creation."""
        its = sa.select(sa.func.max(moves.c.number)).where(moves.c.dataset == dataset)
        with reading(self._engine) as db:
            created = db.execute(its.where(moves.c.old.is_(None))).scalar_one()
            return bool(db.execute(its).scalar_one() != created)

    def log_end(self) -> int:
        """Return the largest number in the log, or 0. Only larger numbers are added afterwards."""
        with reading(self._engine) as db:
            _wait_for_writers(db)
            return int(db.execute(sa.select(sa.func.max(moves.c.number))).scalar_one() or 0)

    def newest_moves(self, *, before: int | None = None, limit: int = 100) -> Sequence[HeadMoved]:
        """Return log entries with numbers below `before`, newest first. This is for display, not
        for following the log: the most recent moves may still be missing."""
        query = sa.select(moves).order_by(moves.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(moves.c.number < before)
        with reading(self._engine) as db:
            return [HeadMoved(**row) for row in db.execute(query).mappings()]

    def prune(self, dataset: DatasetId, *, heads: Sequence[Multihash]) -> int:
        """Delete the blocks that cannot be reached from `heads`; return their number.

        The first of `heads` must be the current head (`RefConflict`). `move` refuses new blocks
        that continue a deleted block.
        """
        with writing(self._engine) as db:
            lock_sizes(db, dataset)
            lock_head(db, dataset, heads[0])
            count, size = delete_unreached(db, dataset, heads)
            grow(db, dataset, -size)
            return count

    def take_off(
        self,
        dataset: DatasetId,
        *,
        head: Multihash,
        gone: Sequence[Named],
        before: Instant,
        recount: bool,
    ) -> None:
        """Stop counting objects to which no head leads, those apart that were uploaded since
        `before`; count a dataset again if asked, or if it never was.

        Raises:
            RefConflict: the head is not `head`.
        """
        uncounted = sa.select(datasets.c.id).where(
            datasets.c.id == dataset, datasets.c.stored_bytes.is_(None)
        )
        with writing(self._engine) as db:
            lock_sizes(db, dataset)
            lock_head(db, dataset, head)
            forget_objects(db, dataset, gone, before=before)
            if recount or db.execute(uncounted).first() is not None:
                count_whole(db, dataset)


def log_move(
    db: sa.Connection,
    dataset: DatasetId,
    ref: str,
    old: Multihash | None,
    new: Multihash,
    clock: Clock,
) -> None:
    """Log a new head, in the transaction that makes it."""
    now = clock()
    row = {"dataset": dataset, "ref": ref, "old": old, "new": new, "at": now}
    db.execute(sa.insert(moves).values(**row))
    note_heads(db, [(dataset, HeadKind.COMMIT)], now)


def lock_head(db: sa.Connection, dataset: DatasetId, expected: Multihash) -> None:
    """Keep the head from moving until this transaction ends.

    Raises:
        RefConflict: the head is not `expected`. DatasetNotFound.
    """
    query = sa.select(refs.c.hash).where(refs.c.dataset == dataset, refs.c.name == HEAD)
    head = db.execute(query.with_for_update()).scalar_one_or_none()
    if head != expected:
        raise RefConflict(expected, head or _head(db, dataset, HEAD))


def lock_dataset(db: sa.Connection, dataset: DatasetId) -> None:
    """Keep others from changing the dataset until this transaction ends. `DatasetNotFound`."""
    query = sa.select(datasets.c.id).where(datasets.c.id == dataset).with_for_update()
    if db.execute(query).one_or_none() is None:
        raise DatasetNotFound(dataset)


def _forget_belongings(db: sa.Connection, dataset: DatasetId, now: Instant) -> None:
    """Remove the jobs and variables of a forgotten dataset; foreign keys remove all other rows.

    A request that was under way when the dataset was forgotten may have added some since. So
    `create` does the same: whoever creates a dataset of this id again must not get them.
    """
    forget_jobs(db, dataset, now)
    db.execute(sa.delete(variables).where(variables.c.owner == str(dataset)))


def _keep_former(db: sa.Connection, dataset: DatasetId, folded: str, now: Instant) -> None:
    """Keep a name that the dataset has no longer, and forget the oldest ones beyond the limit."""
    row = {"alias_folded": folded, "dataset": dataset, "until": now}
    db.execute(sa.insert(former_names).values(**row))
    its = former_names.c.dataset == dataset
    names = sa.select(former_names.c.alias_folded).where(its)
    oldest = names.order_by(former_names.c.until.desc()).offset(MOST_FORMER_NAMES)
    for name in db.execute(oldest).scalars().all():
        _forget_former(db, name)


def _forget_former(db: sa.Connection, folded: str) -> None:
    """Forget who had this name, because a dataset takes it."""
    db.execute(sa.delete(former_names).where(former_names.c.alias_folded == folded))


def _wait_for_writers(db: sa.Connection) -> None:
    """Wait for the transactions that have a number of the log but have not committed yet.

    PostgreSQL assigns numbers before the commit, so a larger number may become visible before a
    smaller one, and a reader that continues after the largest number would never see the smaller
    one. SQLite has only one writer at a time.
    """
    if db.dialect.name == "postgresql":
        db.exec_driver_sql("LOCK TABLE moves IN SHARE MODE")


def _head(db: sa.Connection, dataset: DatasetId, ref: str) -> Multihash:
    asked = {"its_dataset": dataset, "its_name": ref}
    head: Multihash | None = (
        db.execute(_HEAD, asked).scalar_one_or_none() if storable(ref) else None
    )
    if head is not None:
        return head
    if db.execute(sa.select(datasets.c.id).where(datasets.c.id == dataset)).first() is None:
        raise DatasetNotFound(dataset)
    raise ref_not_found(ref)


def entry_row(entry: DatasetEntry) -> dict[str, object]:
    return {
        "id": entry.id,
        "kind": entry.kind.value,
        "visibility": entry.visibility.value,
        "created_at": entry.created_at,
        **_alias_columns(entry.alias),
    }


def _alias_columns(alias: DatasetAlias) -> dict[str, object]:
    account = account_of(alias)
    return {"alias": str(alias), "alias_folded": alias.folded, "account_folded": account}


def entry_of(row: sa.RowMapping) -> DatasetEntry:
    """Convert a row of `datasets` to an entry."""
    return DatasetEntry(
        id=row["id"],
        alias=DatasetAlias.parse(row["alias"]),
        kind=DatasetKind(row["kind"]),
        visibility=Visibility(row["visibility"]),
        created_at=row["created_at"],
    )
