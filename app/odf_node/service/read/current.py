"""Whether a dataset has rows that were taken back: if not, its changelog is its current rows.

A node keeps with each dataset which of its blocks retract or correct rows (`versions`), so only
slices that came since are looked into. Blocks never change, so answers are remembered.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Protocol

from anyio import to_thread

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.view import Outline
from odf_storage.runtime.logs import line
from odf_storage.stores.ports.values import DatasetEntry

from .beside import Beside
from .outlines import Outlines
from .read import CHANGELOG, ReadRequest

MAX_REMEMBERED = 10_000
"""Limit of blocks that are remembered."""
_log = logging.getLogger("odf.read")


class ChangedBlocks(Protocol):
    """Port to the blocks of datasets that retract or correct rows."""

    async def first_changed(self, entry: DatasetEntry, caller: str, /) -> int | None:
        """Return the number of slices before the first one with such a row; None if there is none.

        Raises any error of reading slices.
        """


@dataclass(frozen=True)
class Current:
    """Tells whether rows of datasets were taken back. Use it in the thread of the event loop."""

    stores: Stores
    outlines: Outlines
    changed: ChangedBlocks
    remembered: dict[Multihash, bool] = field(default_factory=dict)
    """Whether rows were taken back up to a block with data."""
    beside: Beside = field(default_factory=Beside)

    async def takes_back_soon(self, entry: DatasetEntry, caller: str) -> bool | None:
        """Return whether rows were taken back up to the head; None if that has to be looked for in
        many slices. Then it is known later."""
        outline = await to_thread.run_sync(self._outlined, entry, None)
        return await self.beside.get(
            (entry.id, outline.head),
            lambda: self.takes_back(entry.id, outline, caller),
            slices=len(outline.slices),
        )

    async def takes_back(self, dataset: DatasetId, outline: Outline, caller: str) -> bool:
        """Return whether a row up to the block of the outline retracts or corrects another.

        Return True, too, if that cannot be told now: then the rows are compared by the reader or
        the engine, which gives the same rows later.
        """
        if not outline.slices:
            return False
        last = outline.blocks[-1]
        if last not in self.remembered:
            entry = await to_thread.run_sync(lambda: self.stores.dataset(DatasetRef(id=dataset)))
            try:
                first = await self.changed.first_changed(entry.entry, caller)
            except NodeError as unknown:
                _log.warning(line("rows taken back are not known", reason=unknown.message))
                return True
            if len(self.remembered) >= MAX_REMEMBERED:
                self.remembered.clear()
            self.remembered[last] = first is not None and first < len(outline.slices)
        return self.remembered[last]

    async def takes_back_upto(
        self, entry: DatasetEntry, block: Multihash | None, caller: str
    ) -> bool:
        """Return the same as `takes_back`, as of a block or the head. Raises `BlockNotFound`."""
        outline = await to_thread.run_sync(self._outlined, entry, block)
        return await self.takes_back(entry.id, outline, caller)

    def _outlined(self, entry: DatasetEntry, block: Multihash | None) -> Outline:
        dataset = self.stores.dataset(DatasetRef(id=entry.id))
        return self.outlines.of(dataset, block, indexed=False)[0]

    async def simplest(self, entry: DatasetEntry, asked: ReadRequest, caller: str) -> ReadRequest:
        """Return the request, or one for the changelog if that gives the same rows.

        Raises:
            InvalidTime, and `BlockNotFound`.
        """
        if not asked.is_of_facts:
            return asked
        if await self.takes_back_upto(entry, asked.block(), caller):
            return asked
        return replace(asked, projection=CHANGELOG)
