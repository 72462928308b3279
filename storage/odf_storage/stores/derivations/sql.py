"""Derivations in a SQL database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant

from ..ports.derivation_values import Derivation, Problem
from ..ports.values import JobId
from ..sql.derivation_tables import cursors, derivations
from ..sql.engine import insert_new, reading, writing
from ..sql.tables import datasets

READER = "derivations"
_NEW = {"version": 0, "attempts": 0, "paused": False}


class SqlDerivationStore:
    """`DerivationStore` in SQL."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def cursor(self) -> int:
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
        return self._all(
            derivations.c.due_at <= now,
            derivations.c.job.is_(None),
            sa.not_(derivations.c.paused),
            derivations.c.wanted.is_distinct_from(False),
            limit=limit,
        )

    def at_work(self) -> Sequence[Derivation]:
        return self._all(derivations.c.job.is_not(None))

    def submitted(self, dataset: DatasetId, *, version: int, job: JobId | None) -> None:
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
        self._put(dataset, wanted=wanted)

    def resume(self, dataset: DatasetId, *, job: JobId) -> None:
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
