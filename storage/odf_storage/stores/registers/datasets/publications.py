"""Publications in a SQL database: what programs of others are shown of datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ...objects.layout import HEAD
from ...ports.errors import DatasetNotFound, publication_name_taken
from ...ports.following import Problem
from ...ports.publications import PublishedDataset
from ...ports.values import JobId
from ...sql.engine import insert_new, reading, writing
from ...sql.tables import (
    KEY_CHARS,
    HashColumn,
    InstantColumn,
    by_bytes,
    datasets,
    metadata,
    of_dataset,
    refs,
)

MAX_STORE_CHARS = 2048
MAX_UUID_CHARS = 200

publications = sa.Table(
    "publications",
    metadata,
    of_dataset(),
    sa.Column("store", by_bytes(MAX_STORE_CHARS), nullable=False),
    sa.Column("uuid", by_bytes(MAX_UUID_CHARS), nullable=False),
    sa.Column("definition", sa.JSON, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("tried_head", HashColumn),
    sa.Column("not_before", InstantColumn),
    sa.Column("job", sa.String(KEY_CHARS), index=True),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("problem", sa.JSON(none_as_null=True)),
    sa.Column("shown", sa.JSON(none_as_null=True)),
    sa.Index("ix_publications_store_uuid", "store", "uuid", unique=True),
)
"""`store` is empty if the node serves the publication itself."""


_C = publications.c
_PUBLISHED_HEAD = sa.and_(refs.c.dataset == _C.dataset, refs.c.name == HEAD)


class PublicationStore:
    """Datasets that are published, those that lag behind, and the jobs that publish them.

    Each dataset has at most one publication. Forgetting a dataset removes its publication.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def find(self, dataset: DatasetId) -> PublishedDataset | None:
        return next(iter(self._all(_C.dataset == dataset)), None)

    def served_as(self, uuid: str) -> PublishedDataset | None:
        """Return the publication that the node itself serves under this name."""
        return next(iter(self._all(_C.store == "", _C.uuid == uuid)), None)

    def put(self, publication: PublishedDataset) -> None:
        """Add or replace a definition, as the next version, for which there is no attempt yet.

        Raises:
            DatasetNotFound.
            PublicationNameTaken: in the same store another dataset has this name, or one of the
                two names begins with the other.
        """
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
        """Remove the publication, if there is one."""
        with writing(self._engine) as db:
            db.execute(sa.delete(publications).where(_C.dataset == dataset))

    def due(
        self, *, now: Instant, limit: int = 100
    ) -> Sequence[tuple[PublishedDataset, Multihash]]:
        """Return publications without a job whose head had no attempt yet, with that head."""
        query = (
            sa.select(publications, refs.c.hash.label("its_head"))
            .join(refs, _PUBLISHED_HEAD)
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
        """Record the job for this version and head; None: the job publishes the current head. With
        `if_due` nothing is recorded if another job was recorded for the head meanwhile."""
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
        """Record the outcome of that job; ignored if another job is recorded. `head` is the
        published head. With `retry_at` the same head is due again at that time."""
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
            raise publication_name_taken(uuid)


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
