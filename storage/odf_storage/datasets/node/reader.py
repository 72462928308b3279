"""Reads of the index that share a transaction: a use case opens a reader and passes it on.

The data may be as old as the first of the reads. Commits compare and swap the head, so they refuse
a stale one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import sqlalchemy as sa

from odf_protocol.identity import DatasetId

from ...stores.index.sql import DatasetEntries, Heads
from ...stores.index.sql_blocks import KeptStates, SqlBlockIndex
from ...stores.registers.accounts.access import RoleReads
from ...stores.registers.accounts.accounts import Identities
from ...stores.registers.datasets.following import MirrorReads
from ..dataset.state_cache import CachedChain, StateCache, StatesOfReads


class Reader:
    """The reading parts of the stores, on one connection. For one thread, while it is open."""

    def __init__(self, db: sa.Connection, states: StateCache) -> None:
        self._db = db
        self.states = StatesOfReads(states, KeptStates(db).load)

    @property
    def registry(self) -> DatasetEntries:
        return DatasetEntries(self._db)

    @property
    def refs(self) -> Heads:
        return Heads(self._db)

    @property
    def blocks(self) -> SqlBlockIndex:
        return SqlBlockIndex(self._db)

    @property
    def mirrors(self) -> MirrorReads:
        return MirrorReads(self._db)

    @property
    def accounts(self) -> Identities:
        return Identities(self._db)

    @property
    def roles(self) -> RoleReads:
        return RoleReads(self._db)

    def chain(self, dataset: DatasetId) -> CachedChain:
        """Return the chain of a dataset, which need not be on this node."""
        return CachedChain(dataset, self.refs, self.blocks, self.states)


Reading = Callable[[], AbstractContextManager[Reader]]
"""A function that opens a reader: `Stores.reading`."""
