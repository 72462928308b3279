"""What readers of versions were told of a history: kept, so that they notice when it is replaced.

A dataset whose history is rewritten gets another epoch, and with that tables of another identity:
clients that remember versions never join two histories.
"""

from __future__ import annotations

import hashlib
import uuid

import msgspec

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.typed import decode_json

from ...stores.keyed.below import Below
from ...stores.objects.layout import dataset_folder
from ...stores.ports import KeyedStore
from .versions import Versions

_FOLDER = "versions"
_KEY = "history.json"
MAX_BYTES = 64 << 20
"""Longest record that is read: some eight bytes for each version that takes rows back."""
_NAMESPACE = uuid.UUID("4b1a2f38-3a8c-5f0e-9d53-0df0de17a5e0")


class History(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A history as it was last looked at. Without a block: a dataset without data."""

    epoch: str = ""
    version: int = -1
    """The newest one."""
    block: str = ""
    """Its block."""
    replaced: int = 0
    """How often another history came in place of this one."""
    changed: tuple[int, ...] = ()
    """Versions with rows that take others back."""

    def identity(self, dataset: DatasetId, view: str) -> str:
        """A text that no other table has, and no other history of this one."""
        return str(uuid.uuid5(_NAMESPACE, f"{dataset} {self.epoch} {view}"))

    def is_of(self, versions: Versions) -> bool:
        """Whether these versions continue the history."""
        if self.version < 0:
            return True
        is_there = self.version < len(versions)
        return is_there and str(versions[self.version].block) == self.block

    def continued(self, versions: Versions, changed: tuple[int, ...]) -> History:
        """The history up to the newest of the versions; `changed` are those that are new."""
        kept = self if self.is_of(versions) else self._replaced(versions)
        newest = len(versions) - 1
        return msgspec.structs.replace(
            kept,
            version=newest,
            block=str(versions[newest].block) if newest >= 0 else "",
            changed=(*kept.changed, *changed),
        )

    def _replaced(self, versions: Versions) -> History:
        said = f"{self.epoch} {self.block} {len(versions)}"
        epoch = hashlib.sha3_256(said.encode()).hexdigest()[:16]
        return History(epoch=epoch, replaced=self.replaced + 1)


def version_files(projections: KeyedStore, dataset: DatasetId) -> Below:
    """What is made of a dataset for readers of its versions, among all that is made of it."""
    return Below(projections, f"{dataset_folder(dataset)}/{_FOLDER}")


class Histories:
    """The record of a dataset, among what is made of it for readers."""

    def __init__(self, projections: KeyedStore, dataset: DatasetId) -> None:
        self._store = version_files(projections, dataset)

    def read(self) -> tuple[History, str | None]:
        """The record, and the tag of its file."""
        content = self._store.read(_KEY, most=MAX_BYTES)
        if content is None:
            return History(), None
        return decode_json(content.raw, History), content.tag

    def write(self, history: History, *, instead_of: str | None) -> None:
        """Raises `SwapLost`: somebody else wrote meanwhile."""
        self._store.swap(_KEY, msgspec.json.encode(history), expected=instead_of)
