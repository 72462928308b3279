"""Damaged objects in a SQL database."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from odf_protocol.instant import Instant

from ...ports.damages import Damage
from ...ports.values import ObjectKey, ObjectKind
from ...sql.engine import insert_new, reading, writing
from ...sql.tables import (
    HashColumn,
    InstantColumn,
    datasets,
    metadata,
    of_dataset,
)

damages = sa.Table(
    "damages",
    metadata,
    of_dataset(),
    sa.Column("kind", sa.String(20), primary_key=True),
    sa.Column("hash", HashColumn, primary_key=True),
    sa.Column("found_at", InstantColumn, nullable=False),
    sa.Column("reason", sa.String(20), nullable=False),
    sa.Column("next_at", InstantColumn, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("hopeless", sa.Text),
    sa.Column("healed_at", InstantColumn, index=True),
    sa.Column("healed_from", sa.String(40)),
)


_STATE = ("found_at", "reason", "next_at", "tries", "hopeless", "healed_at", "healed_from")


class DamageLog:
    """Damaged and missing objects, one row each. Forgetting a dataset removes its rows.

    The log ignores objects of unregistered datasets, and changes to objects that it does not
    contain.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def note(self, damage: Damage) -> bool:
        """Record a damage. Return True if the log did not contain it as an open damage."""
        key, state = damage.key, {name: getattr(damage, name) for name in _STATE}
        with writing(self._engine) as db:
            known = sa.select(datasets.c.id).where(datasets.c.id == key.dataset)
            if db.execute(known).one_or_none() is None:
                return True
            row = {"dataset": key.dataset, "kind": key.kind.value, "hash": key.hash, **state}
            insert = insert_new(db, damages).values(**row)
            fresh = insert.on_conflict_do_update(
                index_elements=["dataset", "kind", "hash"],
                set_=state,
                where=damages.c.healed_at.is_not(None),
            ).returning(damages.c.reason)
            return db.execute(fresh).one_or_none() is not None

    def find(self, key: ObjectKey) -> Damage | None:
        with reading(self._engine) as db:
            row = db.execute(sa.select(damages).where(_is(key))).mappings().one_or_none()
        return None if row is None else _damage(row)

    def open(self, *, limit: int = 100) -> Sequence[Damage]:
        """Return the objects that are not healed, the earliest found first."""
        query = sa.select(damages).where(damages.c.healed_at.is_(None)).order_by(damages.c.found_at)
        with reading(self._engine) as db:
            return [_damage(row) for row in db.execute(query.limit(limit)).mappings()]

    def count(self) -> int:
        """Return the number of open damages."""
        query = sa.select(sa.func.count()).where(damages.c.healed_at.is_(None))
        with reading(self._engine) as db:
            return int(db.execute(query.select_from(damages)).scalar_one())

    def tried(self, key: ObjectKey, *, next_at: Instant, hopeless: str | None = None) -> None:
        """Count one more attempt to heal the object; an attempt counts when it begins."""
        change = sa.update(damages).where(_is(key))
        with writing(self._engine) as db:
            db.execute(change.values(tries=damages.c.tries + 1, next_at=next_at, hopeless=hopeless))

    def hasten(self, *, at: Instant) -> None:
        """Make every open damage due at that time, including the hopeless ones."""
        change = sa.update(damages).where(damages.c.healed_at.is_(None))
        with writing(self._engine) as db:
            db.execute(change.values(next_at=at, hopeless=None))

    def healed(self, key: ObjectKey, *, at: Instant, source: str) -> bool:
        """Mark the object as healed from `source`. Return whether the damage was open."""
        change = sa.update(damages).where(_is(key), damages.c.healed_at.is_(None))
        with writing(self._engine) as db:
            return bool(db.execute(change.values(healed_at=at, healed_from=source)).rowcount)

    def prune(self, *, before: Instant) -> int:
        """Delete the damages that were healed before that time; return their number."""
        with writing(self._engine) as db:
            return int(db.execute(sa.delete(damages).where(damages.c.healed_at < before)).rowcount)


def _is(key: ObjectKey) -> sa.ColumnElement[bool]:
    return sa.and_(
        damages.c.dataset == key.dataset,
        damages.c.kind == key.kind.value,
        damages.c.hash == key.hash,
    )


def _damage(row: sa.RowMapping) -> Damage:
    key = ObjectKey(row["dataset"], ObjectKind(row["kind"]), row["hash"])
    return Damage(key=key, **{name: row[name] for name in _STATE})
