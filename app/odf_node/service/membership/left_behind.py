"""What stands still once an account is gone: definitions that run in its name or with its secrets.

A derivative reads what its author may read, a source may use variables of the account that owns its
dataset. Neither passes to an heir by itself: the heir has said nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef, Name
from odf_storage.datasets.node.rights import (
    RightsReader,
    author_of,
    hidden_from,
    owner_of,
    reader_of,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.following import Definition
from odf_storage.stores.ports.values import Account, DatasetEntry

from ..definitions.authors import variables_in


@dataclass(frozen=True)
class LeftBehind:
    """What an account leaves behind. `stays` says that its name and datasets do; an `heir` gets
    the datasets."""

    stores: Stores
    account: Account
    heir: Account | None
    stays: bool

    def told(self, datasets: list[DatasetEntry]) -> Iterator[str]:
        """Yield what stands still, of these datasets of the account and of those of others."""
        seen = set[DatasetId]()
        others = self.stores.definitions.datasets_of(self.account.id)
        gone = set() if self.stays or self.heir else {entry.id for entry in datasets}
        found = (self.stores.registry.find(DatasetRef(id=one)) for one in others)
        for entry in (*datasets, *(each for each in found if each is not None)):
            if entry.id in seen or entry.id in gone:
                continue
            seen.add(entry.id)
            try:
                state = self.stores.dataset(DatasetRef(id=entry.id)).state()
            except NodeError:  # it stands still already
                continue
            yield from self._of(entry, state)

    def _of(self, entry: DatasetEntry, state: ChainState) -> Iterator[str]:
        if state.transform is not None and self._reads_less(entry, state, state.transform):
            yield (
                f"{entry.alias} reads datasets that are not public in the name of "
                f"{self.account.name}: append its SetTransform again as its owner"
            )
        if state.polling_source is not None:
            own = self.stores.variables.of_owner(str(entry.id)).keys()
            theirs = self.stores.variables.of_owner(self.account.id).keys()
            used = sorted(variables_in(state.polling_source) & (theirs - own))
            if used and owner_of(self.stores, entry).account == self.account.id:
                yield (
                    f"{entry.alias} is polled with variables of {self.account.name} "
                    f"({', '.join(used)}): set them for the dataset"
                )

    def _reads_less(self, entry: DatasetEntry, state: ChainState, definition: Definition) -> bool:
        now = reader_of(self.stores, entry, definition)
        if now.account is None or now.account.id != self.account.id:
            return False
        then = self._reader_then(entry, definition, now)

        def may_read(item: DatasetEntry) -> bool:
            if self.heir is not None and now.owns(item):
                alias = DatasetAlias(item.alias.name, Name(self.heir.name))
                item = replace(item, alias=alias)
            return then is not None and then.may_read(self.stores, item)

        before = hidden_from(self.stores, state, lambda item: now.may_read(self.stores, item))
        return len(hidden_from(self.stores, state, may_read)) > len(before)

    def _reader_then(
        self, entry: DatasetEntry, definition: Definition, now: RightsReader
    ) -> RightsReader | None:
        if self.stays:  # without its roles
            return replace(now, account=self.account if self.account.is_admin else None)
        if self.heir is not None and author_of(self.stores, entry, definition) is None:
            return replace(now, name=Name(self.heir.name), account=self.heir)
        return None
