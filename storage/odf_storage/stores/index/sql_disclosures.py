"""When what everybody may know of a dataset last changed: its head, its name, who may read it.

Who harvests a catalogue asks for what changed since a time, and is told what is gone. So the row of
a dataset outlives it. Times are those at which this node made the change; those in blocks may be
of another node, and older.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant

from ..ports.values import Visibility
from ..sql.engine import reading
from ..sql.tables import disclosures

_TOUCH = (
    sa.update(disclosures)
    .where(disclosures.c.dataset.in_(sa.bindparam("ids", expanding=True)))
    .values(at=sa.bindparam("now"))
)


def note_change(db: sa.Connection, changed: Collection[DatasetId], now: Instant) -> None:
    """Note that name or head of these datasets changed, or that they are gone, in the transaction
    that does it."""
    if changed:
        db.execute(_TOUCH, {"ids": list(changed), "now": now})


def note_visibility(
    db: sa.Connection, dataset: DatasetId, visibility: Visibility, now: Instant
) -> None:
    """Note that the dataset is made, or who may read it from now on."""
    told = {"at": now} | ({"was_public": True} if visibility is Visibility.PUBLIC else {})
    its = sa.update(disclosures).where(disclosures.c.dataset == dataset)
    if db.execute(its.values(**told)).rowcount == 0:
        row = {"dataset": dataset, "was_public": False, **told}
        db.execute(sa.insert(disclosures).values(**row))


class Disclosure(NamedTuple):
    """A dataset of which this node told everybody, and when that last changed."""

    at: Instant
    dataset: DatasetId


class Disclosures:
    """Reads these times. With `everything`, also of datasets that were never public."""

    def __init__(self, engine: sa.Engine, *, everything: bool) -> None:
        self._engine = engine
        self._told = sa.true() if everything else disclosures.c.was_public

    def page(
        self,
        *,
        after: Disclosure | None = None,
        since: Instant | None = None,
        before: Instant | None = None,
        limit: int,
    ) -> Sequence[Disclosure]:
        """Return changes in the order of their times, from `since` on and before `before`."""
        at, dataset = disclosures.c.at, disclosures.c.dataset
        query = sa.select(at, dataset).where(self._told).order_by(at, dataset).limit(limit)
        if since is not None:
            query = query.where(at >= since)
        if before is not None:
            query = query.where(at < before)
        if after is not None:
            behind = sa.and_(at == after.at, dataset > after.dataset)
            query = query.where(sa.or_(at > after.at, behind))
        with reading(self._engine) as db:
            return [Disclosure(*row) for row in db.execute(query)]

    def find(self, dataset: DatasetId) -> Disclosure | None:
        """Return the last change of a dataset, None if everybody never heard of it."""
        query = sa.select(disclosures.c.at, disclosures.c.dataset)
        its = query.where(disclosures.c.dataset == dataset, self._told)
        with reading(self._engine) as db:
            row = db.execute(its).one_or_none()
        return None if row is None else Disclosure(*row)
