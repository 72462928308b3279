"""Publications in a SQL database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ..objects.layout import HEAD
from ..ports.derivation_values import Problem
from ..ports.errors import DatasetNotFound, PublicationNameTaken
from ..ports.publication_values import PublishedDataset
from ..ports.values import JobId
from ..sql.engine import insert_new, reading, writing
from ..sql.publication_tables import publications
from ..sql.tables import datasets, refs

_C = publications.c
_ITS_HEAD = sa.and_(refs.c.dataset == _C.dataset, refs.c.name == HEAD)


class SqlPublicationStore:
    """`PublicationStore` in SQL."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def find(self, dataset: DatasetId) -> PublishedDataset | None:
        return next(iter(self._all(_C.dataset == dataset)), None)

    def served_as(self, uuid: str) -> PublishedDataset | None:
        return next(iter(self._all(_C.store == "", _C.uuid == uuid)), None)

    def put(self, publication: PublishedDataset) -> None:
        place = {"store": publication.store or "", "uuid": publication.uuid}
        row = {
            **place,
            "definition": publication.definition,
            "tried_head": None,
            "not_before": None,
            "attempts": 0,
            "problem": None,
        }
        with writing(self._engine) as db:
            _refuse_taken(db, publication.dataset, **place)
            insert = insert_new(db, publications).values(
                dataset=publication.dataset, version=1, **row
            )
            change = {**row, "version": _C.version + 1}
            db.execute(insert.on_conflict_do_update(index_elements=["dataset"], set_=change))

    def remove(self, dataset: DatasetId) -> None:
        with writing(self._engine) as db:
            db.execute(sa.delete(publications).where(_C.dataset == dataset))

    def due(
        self, *, now: Instant, limit: int = 100
    ) -> Sequence[tuple[PublishedDataset, Multihash]]:
        query = (
            sa.select(publications, refs.c.hash.label("its_head"))
            .join(refs, _ITS_HEAD)
            .where(
                _C.tried_head.is_distinct_from(refs.c.hash),
                _C.job.is_(None),
                sa.or_(_C.not_before.is_(None), _C.not_before <= now),
            )
            .order_by(_C.dataset)
            .limit(limit)
        )
        with reading(self._engine) as db:
            return [(_publication(row), row["its_head"]) for row in db.execute(query).mappings()]

    def at_work(self) -> Sequence[PublishedDataset]:
        return self._all(_C.job.is_not(None))

    def submitted(
        self,
        dataset: DatasetId,
        *,
        version: int,
        job: JobId,
        head: Multihash | None,
        not_before: Instant | None = None,
        if_due: bool = False,
    ) -> None:
        values: dict[str, Any] = {"job": job, "not_before": not_before}
        if head is not None:
            values["tried_head"] = head
        conditions = [_C.dataset == dataset, _C.version == version]
        if if_due:
            conditions += [_C.job.is_(None), _C.tried_head.is_distinct_from(head)]
        self._change(*conditions, **values)

    def ended(
        self,
        dataset: DatasetId,
        *,
        job: JobId,
        shown: Mapping[str, Any] | None = None,
        head: Multihash | None = None,
        problem: Problem | None = None,
        retry_at: Instant | None = None,
    ) -> None:
        values: dict[str, Any] = {
            "job": None,
            "problem": None if problem is None else asdict(problem),
            "attempts": 0 if problem is None else _C.attempts + 1,
        }
        if shown is not None:
            values["shown"] = dict(shown)
        if head is not None:
            values["tried_head"] = sa.case(
                (_C.tried_head.is_(None), None), else_=sa.literal(head, _C.tried_head.type)
            )
        if retry_at is not None:
            values |= {"tried_head": None, "not_before": retry_at}
        self._change(_C.dataset == dataset, _C.job == job, **values)

    def _change(self, *where: sa.ColumnElement[bool], **values: Any) -> None:
        with writing(self._engine) as db:
            db.execute(sa.update(publications).where(*where).values(**values))

    def _all(self, *where: sa.ColumnElement[bool]) -> list[PublishedDataset]:
        query = sa.select(publications).where(*where).order_by(_C.dataset)
        with reading(self._engine) as db:
            return [_publication(row) for row in db.execute(query).mappings()]


def _refuse_taken(db: sa.Connection, dataset: DatasetId, *, store: str, uuid: str) -> None:
    """Raise `DatasetNotFound` or `PublicationNameTaken` if the publication cannot be put."""
    known = sa.select(datasets.c.id).where(datasets.c.id == dataset)
    if db.execute(known).one_or_none() is None:
        raise DatasetNotFound(dataset)
    others = sa.select(_C.uuid).where(_C.store == store, _C.dataset != dataset)
    for other in db.execute(others).scalars():
        if other.startswith(uuid) or uuid.startswith(other):
            raise PublicationNameTaken(uuid)


def _publication(row: sa.RowMapping) -> PublishedDataset:
    problem = row["problem"]
    return PublishedDataset(
        dataset=row["dataset"],
        uuid=row["uuid"],
        store=row["store"] or None,
        definition=row["definition"],
        version=row["version"],
        tried_head=row["tried_head"],
        not_before=row["not_before"],
        job=None if row["job"] is None else JobId(row["job"]),
        attempts=row["attempts"],
        problem=None if problem is None else Problem(**problem),
        shown=row["shown"],
    )
