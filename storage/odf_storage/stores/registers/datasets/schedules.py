"""Schedules and variables in SQL.

One transaction sets the next time of a due schedule and queues its job, but only if the schedule
still has the time at which it was found due. So if several processes find it, one queues the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant

from ...jobs.sql_submit import submit_plain
from ...ports.errors import DatasetNotFound
from ...ports.values import (
    JobId,
    JobSpec,
    Schedule,
    Variable,
)
from ...sql.engine import (
    insert_new,
    reading,
    storable,
    writing,
)
from ...sql.publishing import schedules, variables
from ...wakeups.wakeups import Topic, WakeUp


class Schedules:
    """Jobs that start at set times. Forgetting a dataset removes its schedules.

    `put` adds or replaces; it raises `DatasetNotFound`.
    """

    def __init__(self, engine: sa.Engine, wake_up: WakeUp) -> None:
        self._engine, self._wake_up = engine, wake_up

    def put(self, schedule: Schedule) -> None:
        row = {name: getattr(schedule, name) for name in schedule.__slots__}
        try:
            with writing(self._engine) as db:
                insert = insert_new(db, schedules).values(**row)
                db.execute(insert.on_conflict_do_update(index_elements=["id"], set_=row))
        except sa.exc.IntegrityError:
            raise DatasetNotFound(schedule.dataset) from None

    def find(self, schedule: str) -> Schedule | None:
        if not storable(schedule):
            return None
        query = sa.select(schedules).where(schedules.c.id == schedule)
        with reading(self._engine) as db:
            row = db.execute(query).mappings().one_or_none()
        return None if row is None else Schedule(**row)

    def of_dataset(self, dataset: DatasetId) -> Sequence[Schedule]:
        """Return schedules in the order of their creation."""
        query = sa.select(schedules).where(schedules.c.dataset == dataset)
        query = query.order_by(schedules.c.created_at, schedules.c.id)
        with reading(self._engine) as db:
            return [Schedule(**row) for row in db.execute(query).mappings()]

    def remove(self, schedule: str) -> bool:
        if not storable(schedule):
            return False
        with writing(self._engine) as db:
            gone = db.execute(sa.delete(schedules).where(schedules.c.id == schedule))
            return bool(gone.rowcount)

    def due(self, now: Instant, *, limit: int = 100) -> Sequence[Schedule]:
        """Return the schedules that are due, longest overdue first."""
        query = sa.select(schedules).where(schedules.c.next_at <= now)
        query = query.order_by(schedules.c.next_at, schedules.c.id).limit(limit)
        with reading(self._engine) as db:
            return [Schedule(**row) for row in db.execute(query).mappings()]

    def of_the_future(self, after: Instant) -> Sequence[Schedule]:
        """Return the schedules that started last at a time after this one: the clock was ahead
        then, and their next times are those of that clock."""
        query = sa.select(schedules).where(
            schedules.c.last_at > after, schedules.c.next_at.is_not(None)
        )
        with reading(self._engine) as db:
            return [Schedule(**row) for row in db.execute(query).mappings()]

    def set_back(self, schedule: Schedule, *, now: Instant, next_at: Instant | None) -> None:
        """Set the last and the next time, unless the schedule has changed since it was read."""
        with writing(self._engine) as db:
            db.execute(
                sa.update(schedules)
                .where(schedules.c.id == schedule.id, schedules.c.next_at == schedule.next_at)
                .values(last_at=now, next_at=next_at)
            )

    def next_due(self) -> Instant | None:
        query = sa.select(schedules.c.next_at).where(schedules.c.next_at.is_not(None))
        with reading(self._engine) as db:
            found: Instant | None = db.execute(
                query.order_by(schedules.c.next_at).limit(1)
            ).scalar_one_or_none()
        return found

    def start(
        self, schedule: Schedule, spec: JobSpec, *, now: Instant, next_at: Instant | None
    ) -> JobId | None:
        """Queue the job and set the next time, atomically.

        None if another process did so first, or if the schedule has changed since it was read.
        """
        change = (
            sa.update(schedules)
            .where(schedules.c.id == schedule.id, schedules.c.next_at == schedule.next_at)
            .values(last_at=now, next_at=next_at)
        )
        with writing(self._engine) as db:
            if db.execute(change).rowcount == 0:
                return None
            job = submit_plain(db, spec, now)
            self._wake_up.announce(db, Topic.WORK)
        self._wake_up.send(Topic.WORK)
        return job


class Variables:
    """Variables and encrypted secrets of datasets and accounts, by the id of their owner.

    Forgetting a dataset removes its variables.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def put(self, owner: str, variable: Variable) -> None:
        row = {"owner": owner, **{name: getattr(variable, name) for name in variable.__slots__}}
        with writing(self._engine) as db:
            insert = insert_new(db, variables).values(**row)
            db.execute(insert.on_conflict_do_update(index_elements=["owner", "name"], set_=row))

    def of_owner(self, owner: str) -> Mapping[str, Variable]:
        """Return the variables by name, ordered by name."""
        columns = [column for column in variables.c if column.name != "owner"]
        query = sa.select(*columns).where(variables.c.owner == owner).order_by(variables.c.name)
        with reading(self._engine) as db:
            rows = [Variable(**row) for row in db.execute(query).mappings()]
        return {row.name: row for row in sorted(rows, key=lambda row: row.name)}

    def remove(self, owner: str, name: str) -> bool:
        if not storable(name):
            return False
        gone = sa.delete(variables).where(variables.c.owner == owner, variables.c.name == name)
        with writing(self._engine) as db:
            return bool(db.execute(gone).rowcount)

    def owners(self) -> Sequence[str]:
        with reading(self._engine) as db:
            return sorted(db.execute(sa.select(variables.c.owner).distinct()).scalars())
