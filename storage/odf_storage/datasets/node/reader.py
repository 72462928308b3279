"""Reads of the index that share a transaction: a use case opens a reader and passes it on.

The data may be as old as the first of the reads. Commits compare and swap the head, so they refuse
a stale one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import sqlalchemy as sa

from odf_protocol.identity import DatasetId

from ...stores.index.sql import SqlDatasetEntries, SqlHeads
from ...stores.index.sql_blocks import SqlBlockIndex, SqlKeptStates
from ...stores.ports import (
    BlockIndex,
    BlocksBehind,
    DatasetEntries,
    Heads,
    Identities,
    MirrorReads,
    RoleReads,
)
from ...stores.registers.access import SqlRoleReads
from ...stores.registers.accounts import SqlIdentities
from ...stores.registers.following import SqlMirrorReads
from ..dataset.state_cache import Chain, StateCache, StatesOfReads


class Reader:
    """The reading parts of the ports, bound to one connection. For one thread, while it is open."""

    def __init__(self, db: sa.Connection, states: StateCache) -> None:
        self._db = db
        self.states = StatesOfReads(states, SqlKeptStates(db).load)

    @property
    def registry(self) -> DatasetEntries:
        return SqlDatasetEntries(self._db)

    @property
    def refs(self) -> Heads:
        return SqlHeads(self._db)

    @property
    def blocks(self) -> BlockIndex:
        return SqlBlockIndex(self._db)

    @property
    def blocks_behind(self) -> BlocksBehind:
        return SqlBlockIndex(self._db)

    @property
    def mirrors(self) -> MirrorReads:
        return SqlMirrorReads(self._db)

    @property
    def accounts(self) -> Identities:
        return SqlIdentities(self._db)

    @property
    def roles(self) -> RoleReads:
        return SqlRoleReads(self._db)

    def chain(self, dataset: DatasetId) -> Chain:
        """Return the chain of a dataset, which need not be on this node."""
        return Chain(dataset, self.refs, self.blocks, self.states)


Reading = Callable[[], AbstractContextManager[Reader]]
"""A function that opens a reader: `Stores.reading`."""
