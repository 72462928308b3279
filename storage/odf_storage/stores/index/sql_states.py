"""One summary of the chain state per dataset, so that a restart need not fold whole chains.

This is best effort: if a state cannot be saved or loaded, its chain is folded again.
"""

from __future__ import annotations

from contextlib import suppress

import sqlalchemy as sa

from odf_protocol.chain.state import ChainState
from odf_protocol.chain.summary import read_summary, summarize
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetId

from ..sql.engine import Source, reading, writing
from ..sql.tables import states


class SqlKeptStates:
    """The states that `SqlStates` saves, for read-only use."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def load(self, dataset: DatasetId) -> ChainState | None:
        query = sa.select(states.c.content).where(states.c.dataset == dataset)
        with reading(self._source) as db:
            content = db.execute(query).scalar_one_or_none()
        try:
            return None if content is None else read_summary(bytes(content))
        except BadInput:  # another version of this program saved it
            return None


class SqlStates(SqlKeptStates):
    """`StateKeeper` in SQL."""

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._engine = engine

    def save(self, dataset: DatasetId, state: ChainState) -> None:
        content = summarize(state)
        if content is None:
            return
        row = {"dataset": dataset, "hash": state.head, "content": content}
        with (
            suppress(sa.exc.DBAPIError, NodeError),
            writing(self._engine) as db,
        ):  # the dataset was forgotten, or the database is locked
            db.execute(sa.delete(states).where(states.c.dataset == dataset))
            db.execute(sa.insert(states).values(row))
