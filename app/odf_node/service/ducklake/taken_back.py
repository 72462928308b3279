"""The rows of a dataset that were taken back, each with the version that did it.

A lake tells for each row from which snapshot on it is gone. Versions only add to these rows, so
they are kept beside the dataset, and continued when it has new versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from anyio import to_thread

from odf_protocol.delta.vectors import positions
from odf_protocol.errors import LimitExceeded, Unavailable
from odf_protocol.typed import convert
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.versions.dead_rows import DeadRows
from odf_storage.datasets.versions.versions import version_files
from odf_storage.stores.keyed.folder import Below

from ..history.versions import Versioned, VersionReads

Numbers = np.ndarray[Any, np.dtype[np.int64]]
DUCKLAKE_STEPS = 200
"""Most versions that take rows back, of one dataset, that are looked at for one request."""
_KEY = "ducklake/taken-back"
_ROW_BYTES = 16


class TakenBack(msgspec.Struct, frozen=True, kw_only=True):
    """Positions of rows in the slices of a dataset, and the versions that took them back."""

    epoch: str
    """Epoch of the history: positions of a replaced history mean nothing."""
    version: int = -1
    """The newest version that was looked at."""
    slices: dict[str, tuple[bytes, bytes]] = {}
    """By hash of the slice: positions, and a version for each, both as numbers of 64 bits."""

    @property
    def count(self) -> int:
        return sum(len(each[0]) // 8 for each in self.slices.values())

    def of(self, slice_hash: str) -> tuple[Numbers, Numbers]:
        """Return positions and versions of a slice."""
        told = self.slices.get(slice_hash, (b"", b""))
        return np.frombuffer(told[0], "<i8"), np.frombuffer(told[1], "<i8")

    def continued(self, version: int, dead: DeadRows) -> TakenBack:
        """Return these rows with those that this version took back. `dead` has all of them."""
        slices = dict(self.slices)
        for name, bitmap in dead.items():
            before, by = self.of(name)
            if bitmap.cardinality > len(before):
                new = np.setdiff1d(positions(bitmap.portable), before).astype("<i8")
                told = np.full(len(new), version, "<i8")
                slices[name] = before.tobytes() + new.tobytes(), by.tobytes() + told.tobytes()
        return TakenBack(epoch=self.epoch, version=version, slices=slices)


@dataclass(frozen=True)
class TakenBackReads:
    """Finds the rows. Use it in the thread of the event loop, once at a time for a dataset."""

    reads: VersionReads
    most_rows: int
    """Limit of the rows of one dataset."""
    most_steps: int
    """Limit of versions that are looked at for one request."""

    async def of(self, found: Versioned, caller: str) -> TakenBack:
        """Return the rows as of the newest version.

        Raises:
            TooManyDeletedRows. HistoryBusy: so many versions took rows back that more requests have
                to look at them. The errors of `VersionReads`.
        """
        epoch = found.history.epoch
        if not found.history.changed:
            return TakenBack(epoch=epoch)
        files = version_files(self.reads.stores.projections, found.dataset.id)
        known = await to_thread.run_sync(self._read, files, epoch)
        ahead = [each for each in found.history.changed if each > known.version]
        for version in ahead[: self.most_steps]:
            dead = await self.reads.dead_rows(found, version, Projection.FACTS, caller)
            known = known.continued(version, dead)
            if known.count > self.most_rows:
                raise LimitExceeded(
                    "TooManyDeletedRows",
                    f"more than {self.most_rows} of its rows were taken back: compact it, or read "
                    "its changelog",
                    limit=self.most_rows,
                    setting="ODF_DUCKLAKE_DELETED_ROWS",
                )
        if ahead:
            await to_thread.run_sync(files.put, _KEY, [msgspec.msgpack.encode(known)])
        left = len(ahead) - self.most_steps
        if left > 0:
            raise Unavailable(
                "HistoryBusy",
                f"{left} more of its versions that took rows back are to be looked at; ask again "
                "for the lake",
            )
        return known

    def _read(self, files: Below, epoch: str) -> TakenBack:
        content = files.read(_KEY, most=2 * _ROW_BYTES * self.most_rows + (1 << 20))
        if content is not None:
            known = convert(msgspec.msgpack.decode(content.raw), TakenBack)
            if known.epoch == epoch:
                return known
        return TakenBack(epoch=epoch)
