"""Authors of definitions in a SQL database."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash

from ..ports.definition_values import Author
from ..ports.errors import DatasetNotFound
from ..ports.values import AccountId, Reach
from ..sql.definition_tables import definition_authors
from ..sql.engine import insert_new, reading, writing
from ..sql.tables import datasets


class SqlDefinitionAuthors:
    """`DefinitionAuthors` in SQL."""

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
        query = sa.select(definition_authors).where(definition_authors.c.dataset == dataset)
        with reading(self._engine) as db:
            rows = db.execute(query).mappings().all()
        return {row["definition"]: _author(row) for row in rows}


def _author(row: sa.RowMapping) -> Author:
    account = row["account"]
    return Author(None if account is None else AccountId(account), Reach(row["reach"]))
