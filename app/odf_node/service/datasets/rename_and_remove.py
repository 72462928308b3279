"""Rename and delete datasets."""

from __future__ import annotations

import logging

from odf_protocol.errors import Conflict
from odf_protocol.identity import DatasetAlias, DatasetRef, Name
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.naming import RESERVED, SINGLE_OWNER, refuse_reserved
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports import DatasetEntries
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.access import ActionForbidden, owns
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..auth.entry_cache import EntryMemory

_log = logging.getLogger("odf.node")


class StillRead(Conflict):
    """The dataset to delete is an input of other datasets."""


class StillPublished(Conflict):
    """Files of the dataset to delete are published in a folder or bucket outside the node."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"the dataset is published at {store[:200]}: withdraw it first, or have the node "
            "forget its files (leaveFiles), which then stay there",
            store=store[:200],
        )


def rename_dataset(
    stores: Stores, entries: EntryMemory, entry: DatasetEntry, name: str
) -> DatasetEntry:
    """Rename the dataset. Its id, its blocks and its derivatives do not change.

    Raises:
        MalformedName: the text is not a valid name. ReservedName, AliasTaken.
    """
    alias = DatasetAlias(Name(name), entry.alias.account)
    if alias.name != entry.alias.name:
        refuse_reserved(alias)
    stores.rename_dataset(entry.id, alias)
    entries.forget(entry.alias)
    _log.info("dataset renamed id=%s from=%s to=%s", entry.id, entry.alias, alias)
    return stores.registry.get(DatasetRef(id=entry.id))


def delete_dataset(
    stores: Stores,
    access: DatasetAccess,
    actor: Actor,
    entry: DatasetEntry,
    *,
    expected: Multihash | None = None,
) -> None:
    """Delete the dataset from this node: blocks, data, checkpoints, jobs, roles, its name.

    Copies on other nodes remain, and can be pushed here again.

    Raises:
        ActionForbidden: the actor is neither its owner nor an administrator.
        StillRead: derivatives of this node read it; they have to be deleted first.
        StillPublished: its files outside the node would be left without an owner.
        RefConflict: its head is not `expected`, if that is given.
    """
    if not owns(actor, entry.alias) and not (actor.account and actor.account.is_admin):
        raise ActionForbidden
    readers = stores.registry.dependants(entry.id)
    if readers:
        seen = [access.visible(actor, one) for one in readers]
        names = sorted(access.shown_alias(one) for one in seen if one is not None)
        shown = ", ".join(names) or f"{len(readers)} that you may not see"
        raise StillRead(f"derivatives read it: {shown}; delete those first", derivatives=names)
    published = stores.publications.find(entry.id)
    if published is not None and published.store is not None:
        raise StillPublished(published.store)
    stores.forget_dataset(entry.id, expected=expected)
    access.entries.forget(entry.alias)
    _log.info("dataset deleted id=%s alias=%s", entry.id, entry.alias)


def warn_of_reserved_names(registry: DatasetEntries) -> None:
    """Log a warning for each dataset of the single owner whose name was reserved later."""
    named = [DatasetAlias(Name(word), Name(SINGLE_OWNER)) for word in sorted(RESERVED)]
    for entry in registry.find_named(named).values():
        _log.warning(
            "the name of the dataset %s is reserved, some of its addresses are the node's own: "
            "odf-node dataset rename",
            entry.alias.name,
        )
