"""Datasets that follow others, in SQL: derivations, mirrors, and authors of definitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ...ports.errors import DatasetNotFound
from ...ports.following import (
    Author,
    Derivation,
    Mirror,
    MirrorState,
    MirrorStatus,
    Problem,
)
from ...ports.values import AccountId, JobId, Reach
from ...sql.engine import (
    Source,
    insert_new,
    reading,
    writing,
)
from ...sql.tables import (
    KEY_CHARS,
    NAME_CHARS,
    HashColumn,
    InstantColumn,
    datasets,
    metadata,
    of_dataset,
)

derivations = sa.Table(
    "derivations",
    metadata,
    of_dataset(),
    sa.Column("wanted", sa.Boolean),
    sa.Column("due_at", InstantColumn, index=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("job", sa.String(KEY_CHARS), index=True),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("problem", sa.JSON(none_as_null=True)),
)

cursors = sa.Table(
    "places",
    metadata,
    sa.Column("reader", sa.String(NAME_CHARS), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
)
"""Positions of the readers of the log of head moves."""


_FREE = (
    derivations.c.job.is_(None),
    sa.not_(derivations.c.paused),
    derivations.c.wanted.is_distinct_from(False),
)
"""What holds of derivatives that may get a job."""
_NEXT = sa.select(sa.func.min(derivations.c.due_at)).where(*_FREE)

READER = "derivations"
_NEW = {"version": 0, "attempts": 0, "paused": False}


class DerivationStore:
    """State of derivatives, and the position in the log of head moves up to which those that are
    due were recorded: one transaction records both. Forgetting a dataset removes its row.

    The first record about a dataset creates its row; records about unknown datasets are ignored.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def cursor(self) -> int:
        """Return the number of the last move that was processed."""
        query = sa.select(cursors.c.number).where(cursors.c.reader == READER)
        with reading(self._engine) as db:
            return int(db.execute(query).scalar_one_or_none() or 0)

    def found_moves(
        self,
        *,
        expected: int,
        cursor: int,
        due: Mapping[DatasetId, Instant],
        resumed: Collection[DatasetId] = (),
    ) -> bool:
        """Advance the cursor from `expected` to `cursor` and record the due times, atomically.

        A derivative that is already due keeps its earlier time. `resumed` ones are not paused
        any more. Return False, with no change, if the cursor is not at `expected`.
        """
        with writing(self._engine) as db:
            if not _advance(db, expected, cursor):
                return False
            if resumed:
                some = derivations.c.dataset.in_(sorted(resumed))
                db.execute(sa.update(derivations).where(some).values(paused=False, attempts=0))
            for dataset in sorted(_known(db, due)):
                _make_due(db, dataset, due[dataset])
        return True

    def find(self, dataset: DatasetId) -> Derivation | None:
        found = self._all(derivations.c.dataset == dataset)
        return found[0] if found else None

    def due(self, *, now: Instant, limit: int = 100) -> Sequence[Derivation]:
        """Return derivatives that are due, longest waiting first; none paused or with a job."""
        return self._all(derivations.c.due_at <= now, *_FREE, limit=limit)

    def next_due(self) -> Instant | None:
        """Return when the next derivative without a job is due; None if none is."""
        with reading(self._engine) as db:
            found: Instant | None = db.execute(_NEXT).scalar_one()
        return found

    def at_work(self) -> Sequence[Derivation]:
        return self._all(derivations.c.job.is_not(None))

    def submitted(self, dataset: DatasetId, *, version: int, job: JobId | None) -> None:
        """Record the job, or that none is needed (None). Clear the due time if `version` is still
        current."""
        due_at = sa.case((derivations.c.version == version, None), else_=derivations.c.due_at)
        self._change(derivations.c.dataset == dataset, job=job, due_at=due_at)

    def ended(
        self,
        dataset: DatasetId,
        *,
        job: JobId | None,
        problem: Problem | None = None,
        paused: bool = False,
        retry_at: Instant | None = None,
    ) -> None:
        """Record the outcome of that job, or why there was none. Ignored if it has another job."""
        values: dict[str, Any] = {
            "job": None,
            "problem": None if problem is None else asdict(problem),
            "paused": paused,
            "attempts": 0 if problem is None else derivations.c.attempts + 1,
        }
        if retry_at is not None:
            later = derivations.c.due_at > retry_at
            values["due_at"] = sa.case(
                (later, derivations.c.due_at),
                else_=sa.literal(retry_at, derivations.c.due_at.type),
            )
        self._change(
            derivations.c.dataset == dataset, derivations.c.job.is_not_distinct_from(job), **values
        )

    def decide(self, dataset: DatasetId, *, wanted: bool) -> None:
        """Set whether the dataset should follow its inputs automatically."""
        self._put(dataset, wanted=wanted)

    def resume(self, dataset: DatasetId, *, job: JobId) -> None:
        """Record a job that a user submitted; the dataset follows its inputs again."""
        self._put(dataset, wanted=True, paused=False, attempts=0, job=job)

    def _put(self, dataset: DatasetId, **values: Any) -> None:
        with writing(self._engine) as db:
            if _known(db, [dataset]):
                insert = insert_new(db, derivations).values(
                    **{"dataset": dataset, **_NEW, **values}
                )
                db.execute(insert.on_conflict_do_update(index_elements=["dataset"], set_=values))

    def _change(self, *where: sa.ColumnElement[bool], **values: Any) -> None:
        with writing(self._engine) as db:
            db.execute(sa.update(derivations).where(*where).values(**values))

    def _all(self, *where: sa.ColumnElement[bool], limit: int | None = None) -> list[Derivation]:
        order = (derivations.c.due_at, derivations.c.dataset)
        query = sa.select(derivations).where(*where).order_by(*order).limit(limit)
        with reading(self._engine) as db:
            return [_derivation(row) for row in db.execute(query).mappings()]


def _advance(db: sa.Connection, expected: int, cursor: int) -> bool:
    """Compare and swap the cursor in the log of head moves; return whether it was `expected`."""
    row = {"reader": READER, "number": 0}
    db.execute(insert_new(db, cursors).values(**row).on_conflict_do_nothing())
    change = sa.update(cursors).where(cursors.c.reader == READER, cursors.c.number == expected)
    return bool(db.execute(change.values(number=cursor)).rowcount)


def _known(db: sa.Connection, wanted: Collection[DatasetId]) -> list[DatasetId]:
    if not wanted:
        return []
    query = sa.select(datasets.c.id).where(datasets.c.id.in_(sorted(wanted)))
    return list(db.execute(query).scalars())


def _make_due(db: sa.Connection, dataset: DatasetId, when: Instant) -> None:
    """Make the derivative due at `when`, or leave it due at an earlier time."""
    moment = sa.literal(when, derivations.c.due_at.type)
    sooner = sa.case((derivations.c.due_at < moment, derivations.c.due_at), else_=moment)
    insert = insert_new(db, derivations).values(
        **{"dataset": dataset, **_NEW, "due_at": when, "version": 1}
    )
    db.execute(
        insert.on_conflict_do_update(
            index_elements=["dataset"],
            set_={"due_at": sooner, "version": derivations.c.version + 1},
        )
    )


def _derivation(row: sa.RowMapping) -> Derivation:
    problem = row["problem"]
    return Derivation(
        dataset=row["dataset"],
        wanted=row["wanted"],
        due_at=row["due_at"],
        version=row["version"],
        job=None if row["job"] is None else JobId(row["job"]),
        attempts=row["attempts"],
        problem=None if problem is None else Problem(**problem),
        paused=row["paused"],
    )


definition_authors = sa.Table(
    "definition_authors",
    metadata,
    of_dataset(),
    sa.Column("definition", HashColumn, primary_key=True),
    sa.Column("account", sa.String(KEY_CHARS)),
    sa.Column("reach", sa.String(20), nullable=False),
)


class DefinitionAuthors:
    """Authors of the transforms and sources of datasets. Forgetting a dataset removes them.

    `put` adds or replaces; it raises `DatasetNotFound`.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def put(self, dataset: DatasetId, definition: Multihash, author: Author) -> None:
        row = {"account": author.account, "reach": author.reach.value}
        with writing(self._engine) as db:
            known = sa.select(datasets.c.id).where(datasets.c.id == dataset)
            if db.execute(known).one_or_none() is None:
                raise DatasetNotFound(dataset)
            insert = insert_new(db, definition_authors).values(
                dataset=dataset, definition=definition, **row
            )
            db.execute(
                insert.on_conflict_do_update(index_elements=["dataset", "definition"], set_=row)
            )

    def of_dataset(self, dataset: DatasetId) -> Mapping[Multihash, Author]:
        """Return authors by the hash of the definition (`definition_hash`); empty if none."""
        query = sa.select(definition_authors).where(definition_authors.c.dataset == dataset)
        with reading(self._engine) as db:
            rows = db.execute(query).mappings().all()
        return {row["definition"]: _author(row) for row in rows}

    def datasets_of(self, account: AccountId) -> Sequence[DatasetId]:
        """Return the datasets with definitions of the account, in force or not."""
        query = (
            sa.select(definition_authors.c.dataset)
            .where(definition_authors.c.account == account)
            .distinct()
            .order_by(definition_authors.c.dataset)
        )
        with reading(self._engine) as db:
            return db.execute(query).scalars().all()


def _author(row: sa.RowMapping) -> Author:
    account = row["account"]
    return Author(None if account is None else AccountId(account), Reach(row["reach"]))


MAX_REMOTE_CHARS = 4096

mirrors = sa.Table(
    "mirrors",
    metadata,
    of_dataset(),
    sa.Column("remote", sa.String(MAX_REMOTE_CHARS), nullable=False),
    sa.Column("sealed_token", sa.LargeBinary),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("checked_at", InstantColumn),
    sa.Column("error", sa.String(100)),
    sa.Column("message", sa.Text),
)


_OF_DATASET = sa.select(mirrors).where(mirrors.c.dataset == sa.bindparam("its_dataset"))
_AMONG = sa.select(mirrors.c.dataset).where(
    mirrors.c.dataset.in_(sa.bindparam("ids", expanding=True))
)


class MirrorReads:
    """Reads which datasets follow a dataset on another node."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def find(self, dataset: DatasetId) -> Mirror | None:
        with reading(self._source) as db:
            row = db.execute(_OF_DATASET, {"its_dataset": dataset}).mappings().one_or_none()
        return None if row is None else _mirror(row)

    def among(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]:
        """Return those of the given datasets that are mirrors."""
        with reading(self._source) as db:
            return set(db.execute(_AMONG, {"ids": datasets}).scalars())


class MirrorStore(MirrorReads):
    """Adds and removes mirrors. Forgetting a dataset removes its mirror.

    `put` adds or replaces; it raises `DatasetNotFound`. `note` and `remove` change nothing for a
    dataset that is not a mirror.
    """

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._engine = engine

    def put(self, mirror: Mirror) -> None:
        row = {
            "remote": mirror.remote,
            "sealed_token": mirror.sealed_token,
            **_columns(mirror.status),
        }
        with writing(self._engine) as db:
            known = sa.select(datasets.c.id).where(datasets.c.id == mirror.dataset)
            if db.execute(known).one_or_none() is None:
                raise DatasetNotFound(mirror.dataset)
            insert = insert_new(db, mirrors).values(dataset=mirror.dataset, **row)
            db.execute(insert.on_conflict_do_update(index_elements=["dataset"], set_=row))

    def sealed(self) -> Sequence[Mirror]:
        """Return the mirrors whose remote takes a token."""
        query = sa.select(mirrors).where(mirrors.c.sealed_token.is_not(None))
        with reading(self._engine) as db:
            return [_mirror(row) for row in db.execute(query).mappings()]

    def reseal(self, mirror: Mirror, token: bytes) -> bool:
        """Replace the token of a mirror that still has this one. Return whether it has."""
        change = sa.update(mirrors).where(
            mirrors.c.dataset == mirror.dataset, mirrors.c.sealed_token == mirror.sealed_token
        )
        with writing(self._engine) as db:
            return bool(db.execute(change.values(sealed_token=token)).rowcount)

    def note(self, dataset: DatasetId, status: MirrorStatus) -> None:
        change = sa.update(mirrors).where(mirrors.c.dataset == dataset)
        with writing(self._engine) as db:
            db.execute(change.values(**_columns(status)))

    def remove(self, dataset: DatasetId) -> None:
        """Make the dataset an ordinary dataset again."""
        with writing(self._engine) as db:
            db.execute(sa.delete(mirrors).where(mirrors.c.dataset == dataset))


def _columns(status: MirrorStatus) -> dict[str, Any]:
    return {
        "state": status.state.value,
        "checked_at": status.checked_at,
        "error": status.error,
        "message": status.message,
    }


def _mirror(row: sa.RowMapping) -> Mirror:
    sealed = row["sealed_token"]
    return Mirror(
        dataset=row["dataset"],
        remote=row["remote"],
        sealed_token=None if sealed is None else bytes(sealed),
        status=MirrorStatus(
            state=MirrorState(row["state"]),
            checked_at=row["checked_at"],
            error=row["error"],
            message=row["message"],
        ),
    )
