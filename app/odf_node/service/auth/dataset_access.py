"""Access to datasets: look up a dataset by address or id, and authorize the actor."""

from __future__ import annotations

from dataclasses import dataclass

from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef, Name
from odf_storage.datasets.node.naming import SINGLE_OWNER
from odf_storage.datasets.node.reader import Reading
from odf_storage.runtime.context import add_facts
from odf_storage.stores.ports import DatasetEntries, OverviewReads
from odf_storage.stores.ports.values import DatasetEntry

from ..setting_groups.words import AnonymousReads, Tenancy
from .access import Action, DatasetHidden, DatasetRenamed, address, authorize, grants
from .actors import Actor
from .entry_cache import EntryMemory
from .mirror_rule import refuse_mirror


@dataclass(frozen=True)
class DatasetAccess:
    """The datasets of a node, with its policy: its tenancy, and what everybody may read."""

    registry: DatasetEntries
    overviews: OverviewReads
    entries: EntryMemory
    reading: Reading
    tenancy: Tenancy
    reads: AnonymousReads
    base: str = "/"
    """The URL of the node if the settings say it, with a slash at the end."""

    def resolve(
        self,
        actor: Actor,
        account: str | None,
        name: str,
        action: Action,
        *,
        registry: DatasetEntries | None = None,
    ) -> DatasetEntry:
        """Return the dataset of an address, if the actor may perform the action on it.

        `registry` is the registry of a `Reader`, if the lookup is to share its transaction.

        Raises:
            MalformedAddress, DatasetHidden, TokenInvalid, TokenExpired, ActionForbidden.
        """
        _, entry = self.find(actor, account, name, action, creates=False, registry=registry)
        if entry is None:  # `authorize` returns None with `creates` only
            raise DatasetHidden
        return entry

    def resolve_open(self, actor: Actor, account: str | None, name: str) -> DatasetEntry:
        """Return the dataset of an address. The actor must be allowed to write to it, and it must
        not be a mirror.

        Raises:
            The same errors as `resolve`, and IsRemote.
        """
        with self.reading() as reader:
            entry = self.resolve(actor, account, name, Action.WRITE, registry=reader.registry)
            refuse_mirror(reader.mirrors, entry)
        return entry

    def find(
        self,
        actor: Actor,
        account: str | None,
        name: str,
        action: Action,
        *,
        creates: bool,
        registry: DatasetEntries | None = None,
    ) -> tuple[DatasetAlias, DatasetEntry | None]:
        """As `resolve`, but return the alias too. With `creates` a missing dataset is no error."""
        alias = address(self.tenancy, account, name)
        if action is Action.READ:
            entry = self.entries.find(alias)
        else:
            entry = (registry or self.registry).find(DatasetRef(alias=alias))
        if entry is not None:
            add_facts(dataset=str(entry.id))
        try:
            return alias, authorize(actor, entry, action, self.reads, creates=creates)
        except DatasetHidden:
            raise self.hidden(actor, alias, registry) from None

    def hidden(
        self, actor: Actor, alias: DatasetAlias, registry: DatasetEntries | None = None
    ) -> DatasetHidden:
        """Return the error for a name at which the actor may see nothing: who may read the dataset
        that had the name before is told its name of today."""
        former = self.former(actor, alias, registry)
        if former is None:
            return DatasetHidden(actor.reason)
        return DatasetRenamed(self.shown_alias(former), self.base, actor.reason)

    def former(
        self, actor: Actor, alias: DatasetAlias, registry: DatasetEntries | None = None
    ) -> DatasetEntry | None:
        """Return the dataset that had a name before, if the actor may read it.

        A hidden dataset, a missing one and a hidden one that was renamed cost the same reads.
        """
        found = (registry or self.registry).find_former(alias)
        return found if found is not None and self.may_read(actor, found) else None

    def visible(self, actor: Actor, dataset: DatasetId) -> DatasetEntry | None:
        """Return the dataset if it is on this node and the actor may read it, else None."""
        found = self.registry.find(DatasetRef(id=dataset))
        return found if found is not None and self.may_read(actor, found) else None

    def may_read(self, actor: Actor, entry: DatasetEntry) -> bool:
        return Action.READ in self.grants(actor, entry)

    def grants(self, actor: Actor, entry: DatasetEntry) -> frozenset[Action]:
        """Return all actions that the actor may perform on the dataset."""
        return grants(actor, entry, self.reads)

    @property
    def everything_is_read(self) -> bool:
        """Return whether everybody may read all datasets of the node."""
        return self.reads is AnonymousReads.ALL

    def new_alias(self, actor: Actor, name: DatasetAlias) -> DatasetAlias:
        """Return the full alias of a new dataset. A missing account is that of the actor, or of
        the single owner on a node without accounts."""
        own = SINGLE_OWNER if self.tenancy is Tenancy.SINGLE else ""
        account = name.account or Name(own or (actor.account.name if actor.account else ""))
        return DatasetAlias(name.name, account)

    def may_make_datasets(self, actor: Actor) -> bool:
        """Return whether the account makes datasets on this node: on a node of one tenant only
        the tenant does."""
        is_tenant = actor.account is not None and Name(actor.account.name) == Name(SINGLE_OWNER)
        return is_tenant or (actor.account is not None and self.tenancy is Tenancy.MULTI)

    def shown_alias(self, entry: DatasetEntry) -> str:
        """Return the alias as clients of this node write it: without account on a node of a
        single tenant."""
        return str(entry.alias.name if self.tenancy is Tenancy.SINGLE else entry.alias)
