"""Sizes of a node for monitoring, read by a few cheap queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from odf_protocol.instant import Instant

from ...stores.ports.values import JobStatus
from ...stores.sql.damage_tables import damages
from ...stores.sql.engine import reading
from ...stores.sql.overview_tables import overviews
from ...stores.sql.tables import datasets, jobs, moves

_OPEN = (JobStatus.WAITING.value, JobStatus.RUNNING.value)


@dataclass(frozen=True, slots=True)
class Gauges:
    """Number of datasets; jobs that wait or run, by kind and status; number of the newest head
    move."""

    datasets: int = 0
    jobs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    waiting_since: Mapping[str, Instant] = field(default_factory=dict)
    """For each kind of job, when the longest waiting job was submitted."""
    last_move: int = 0
    damaged: int = 0
    """Number of objects that are damaged or missing."""
    data_size: int = 0
    """Bytes of the data of all datasets, according to their chains."""


def read_gauges(engine: sa.Engine) -> Gauges:
    """Return the current values."""
    amount = sa.func.count()
    open_jobs = (
        sa.select(jobs.c.kind, jobs.c.status, amount, sa.func.min(jobs.c.submitted_at))
        .where(jobs.c.status.in_(_OPEN))
        .group_by(jobs.c.kind, jobs.c.status)
    )
    with reading(engine) as db:
        rows = db.execute(open_jobs).all()
        return Gauges(
            datasets=db.scalar(sa.select(amount).select_from(datasets)) or 0,
            jobs={(kind, status): count for kind, status, count, _ in rows},
            waiting_since={kind: since for kind, status, _, since in rows if status == _OPEN[0]},
            damaged=db.scalar(
                sa.select(amount).select_from(damages).where(damages.c.healed_at.is_(None))
            )
            or 0,
            data_size=int(db.scalar(sa.select(sa.func.sum(overviews.c.data_size))) or 0),
            last_move=db.scalar(sa.select(sa.func.max(moves.c.number))) or 0,
        )
