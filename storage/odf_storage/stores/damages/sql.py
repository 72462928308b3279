"""Damaged objects in a SQL database."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from odf_protocol.instant import Instant

from ..ports.damage_values import Damage
from ..ports.values import ObjectKey, ObjectKind
from ..sql.damage_tables import damages as table
from ..sql.engine import insert_new, reading, writing
from ..sql.tables import datasets

_STATE = ("found_at", "reason", "next_at", "tries", "hopeless", "healed_at", "healed_from")


class SqlDamageLog:
    """`DamageLog` in SQL."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def note(self, damage: Damage) -> bool:
        key, state = damage.key, {name: getattr(damage, name) for name in _STATE}
        with writing(self._engine) as db:
            known = sa.select(datasets.c.id).where(datasets.c.id == key.dataset)
            if db.execute(known).one_or_none() is None:
                return True
            row = {"dataset": key.dataset, "kind": key.kind.value, "hash": key.hash, **state}
            insert = insert_new(db, table).values(**row)
            fresh = insert.on_conflict_do_update(
                index_elements=["dataset", "kind", "hash"],
                set_=state,
                where=table.c.healed_at.is_not(None),
            ).returning(table.c.reason)
            return db.execute(fresh).one_or_none() is not None

    def find(self, key: ObjectKey) -> Damage | None:
        with reading(self._engine) as db:
            row = db.execute(sa.select(table).where(_is(key))).mappings().one_or_none()
        return None if row is None else _damage(row)

    def open(self, *, limit: int = 100) -> Sequence[Damage]:
        query = sa.select(table).where(table.c.healed_at.is_(None)).order_by(table.c.found_at)
        with reading(self._engine) as db:
            return [_damage(row) for row in db.execute(query.limit(limit)).mappings()]

    def count(self) -> int:
        query = sa.select(sa.func.count()).where(table.c.healed_at.is_(None))
        with reading(self._engine) as db:
            return int(db.execute(query.select_from(table)).scalar_one())

    def tried(self, key: ObjectKey, *, next_at: Instant, hopeless: str | None = None) -> None:
        change = sa.update(table).where(_is(key))
        with writing(self._engine) as db:
            db.execute(change.values(tries=table.c.tries + 1, next_at=next_at, hopeless=hopeless))

    def hasten(self, *, at: Instant) -> None:
        change = sa.update(table).where(table.c.healed_at.is_(None))
        with writing(self._engine) as db:
            db.execute(change.values(next_at=at, hopeless=None))

    def healed(self, key: ObjectKey, *, at: Instant, source: str) -> bool:
        change = sa.update(table).where(_is(key), table.c.healed_at.is_(None))
        with writing(self._engine) as db:
            return bool(db.execute(change.values(healed_at=at, healed_from=source)).rowcount)

    def prune(self, *, before: Instant) -> int:
        with writing(self._engine) as db:
            return int(db.execute(sa.delete(table).where(table.c.healed_at < before)).rowcount)


def _is(key: ObjectKey) -> sa.ColumnElement[bool]:
    return sa.and_(
        table.c.dataset == key.dataset, table.c.kind == key.kind.value, table.c.hash == key.hash
    )


def _damage(row: sa.RowMapping) -> Damage:
    key = ObjectKey(row["dataset"], ObjectKind(row["kind"]), row["hash"])
    return Damage(key=key, **{name: row[name] for name in _STATE})
