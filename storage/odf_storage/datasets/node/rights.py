"""What a definition may read when it runs: datasets by the rights of its author, and secrets.

It may use the secrets of the dataset's account only if its author may act for that account.
The service checks this before it queues work, and the worker before it does the work, because
definitions and rights change while jobs wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from odf_protocol.chain.state import ChainState
from odf_protocol.identity import DatasetId, Name

from ...stores.ports.definition_values import NOBODY, Author, Definition, definition_hash
from ...stores.ports.errors import AccountNotFound
from ...stores.ports.values import Account, DatasetEntry, Reach, Visibility
from .stores import Stores


def author_of(stores: Stores, entry: DatasetEntry, definition: Definition) -> Author | None:
    """Return the author of a definition. None stands for the owner of the dataset, if the chain is
    older than the records of authors."""
    known = stores.definitions.of_dataset(entry.id)
    return known.get(definition_hash(definition), NOBODY) if known else None


def owner_of(stores: Stores, entry: DatasetEntry) -> Author:
    """Return the account that owns the dataset, as an author."""
    name = entry.alias.account
    account = None if name is None else stores.accounts.find_account(str(name))
    return NOBODY if account is None else Author(account.id)


def hidden_inputs(
    stores: Stores, entry: DatasetEntry, state: ChainState, *, everything_is_read: bool = False
) -> list[str]:
    """Return the inputs that are not here, or that the author of the transform may not read (any
    more).

    With `everything_is_read`, from the setting `ODF_NODE_ANONYMOUS_READS`, all datasets here
    count as public; absent inputs are still returned.
    """
    if state.transform is None:
        return []
    reader: Reader | None = None
    hidden = []
    for one in state.transform.inputs:
        item = stores.registry.find(one.dataset_ref)
        if item is not None and (everything_is_read or item.visibility is Visibility.PUBLIC):
            continue
        reader = reader or reader_of(stores, entry, state.transform)
        if item is None or not reader.may_read(stores, item):
            hidden.append(str(one.dataset_ref))
    return hidden


def has_account_secrets(stores: Stores, entry: DatasetEntry, source: Definition) -> bool:
    """Return whether a source may use the secrets of the owner's account: the owner or an
    administrator defined it, with a token that reaches further than the dataset."""
    return reader_of(stores, entry, source).acts_for(entry)


@dataclass(frozen=True, slots=True)
class Reader:
    """The account in whose name a definition reads, limited by the reach of the token."""

    name: Name | None
    account: Account | None
    reach: Reach
    definition_of: DatasetId

    def owns(self, item: DatasetEntry) -> bool:
        return self.name is not None and self.name == item.alias.account

    def acts_for(self, item: DatasetEntry) -> bool:
        """Return whether this reader may act for the account that owns the dataset."""
        if self.reach is Reach.DATASET:
            return False
        return self.owns(item) or (self._is_admin and self.reach is Reach.NODE)

    def may_read(self, stores: Stores, item: DatasetEntry) -> bool:
        """Return whether this reader may read a dataset that is not public."""
        if self.reach is Reach.DATASET and item.id != self.definition_of:
            return False
        if self.owns(item):
            return True
        if self.account is None or self.reach is Reach.ACCOUNT:
            return False
        return self._is_admin or item.id in stores.roles.of_account(self.account.id)

    @property
    def _is_admin(self) -> bool:
        return self.account is not None and self.account.is_admin


def reader_of(stores: Stores, entry: DatasetEntry, definition: Definition) -> Reader:
    """Return the account in whose name the definition reads, with its present rights."""
    author = author_of(stores, entry, definition)
    if author is None:
        name = entry.alias.account
        account = None if name is None else stores.accounts.find_account(str(name))
        return Reader(name, account, Reach.NODE, entry.id)
    account = _account(stores, author)
    name = None if account is None else Name(account.name)
    return Reader(name, account, author.reach, entry.id)


def _account(stores: Stores, author: Author) -> Account | None:
    try:
        return None if author.account is None else stores.accounts.account(author.account)
    except AccountNotFound:
        return None
