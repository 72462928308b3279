"""Mirrors in a SQL database."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from odf_protocol.identity import DatasetId

from ..ports.errors import DatasetNotFound
from ..ports.mirror_values import Mirror, MirrorState, MirrorStatus
from ..sql.engine import Source, insert_new, reading, writing
from ..sql.mirror_tables import mirrors
from ..sql.tables import datasets

_OF_DATASET = sa.select(mirrors).where(mirrors.c.dataset == sa.bindparam("its_dataset"))
_AMONG = sa.select(mirrors.c.dataset).where(
    mirrors.c.dataset.in_(sa.bindparam("ids", expanding=True))
)


class SqlMirrorReads:
    """`MirrorReads` in SQL."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def find(self, dataset: DatasetId) -> Mirror | None:
        with reading(self._source) as db:
            row = db.execute(_OF_DATASET, {"its_dataset": dataset}).mappings().one_or_none()
        return None if row is None else _mirror(row)

    def among(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]:
        with reading(self._source) as db:
            return set(db.execute(_AMONG, {"ids": datasets}).scalars())


class SqlMirrorStore(SqlMirrorReads):
    """`MirrorStore` in SQL."""

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

    def note(self, dataset: DatasetId, status: MirrorStatus) -> None:
        change = sa.update(mirrors).where(mirrors.c.dataset == dataset)
        with writing(self._engine) as db:
            db.execute(change.values(**_columns(status)))

    def remove(self, dataset: DatasetId) -> None:
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
