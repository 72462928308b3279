"""What a definition may read when it runs: datasets by the rights of its author, and secrets.

It may use the secrets of the dataset's account only if its author may act for that account.
The service checks this before it queues work, and the worker before it does the work, because
definitions and rights change while jobs wait.

The graph of the datasets of a node: which datasets a derivative reads, and which read it.

A chain contains the inputs of its dataset; the registry knows the other direction. The walk ends
at datasets that are not on this node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import BadInput, Conflict
from odf_protocol.identity import DatasetId, DatasetRef, Name

from ...stores.index.sql import DatasetRegistry
from ...stores.ports.errors import AccountNotFound
from ...stores.ports.following import NOBODY, Author, Definition, definition_hash
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
    transform = state.transform
    if transform is None:
        return []
    reader = cache(lambda: reader_of(stores, entry, transform))

    def may_read(item: DatasetEntry) -> bool:
        return everything_is_read or reader().may_read(stores, item)

    return hidden_from(stores, state, may_read)


def hidden_from(
    stores: Stores, state: ChainState, may_read: Callable[[DatasetEntry], bool]
) -> list[str]:
    """Return the inputs that are not here, and those that are neither public nor may be read."""
    hidden = []
    for one in () if state.transform is None else state.transform.inputs:
        item = stores.registry.find(one.dataset_ref)
        if item is not None and item.visibility is Visibility.PUBLIC:
            continue
        if item is None or not may_read(item):
            hidden.append(str(one.dataset_ref))
    return hidden


def refuse_hidden_inputs(
    stores: Stores, entry: DatasetEntry, state: ChainState, *, everything_is_read: bool
) -> None:
    """Check that the author of the definition may read all inputs of a derivative.

    The rights of the owner do not count: a pushed chain could name any dataset whose id is known.
    The error is the same as for an absent input. The worker repeats the check, because rights may
    change while a job waits.

    Raises:
        InputsNotHere
    """
    hidden = hidden_inputs(stores, entry, state, everything_is_read=everything_is_read)
    if hidden and state.transform is not None:
        raise inputs_not_here(hidden, by_nobody=has_no_author(stores, entry, state.transform))


def has_no_author(stores: Stores, entry: DatasetEntry, definition: Definition) -> bool:
    """Return whether nobody with an account here is known to have defined it."""
    author = author_of(stores, entry, definition)
    return author is not None and _account(stores, author) is None


def has_account_secrets(stores: Stores, entry: DatasetEntry, source: Definition) -> bool:
    """Return whether a source may use the secrets of the owner's account: the owner or an
    administrator defined it, with a token that reaches further than the dataset."""
    return reader_of(stores, entry, source).acts_for(entry)


@dataclass(frozen=True, slots=True)
class RightsReader:
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


def reader_of(stores: Stores, entry: DatasetEntry, definition: Definition) -> RightsReader:
    """Return the account in whose name the definition reads, with its present rights."""
    author = author_of(stores, entry, definition)
    if author is None:
        name = entry.alias.account
        account = None if name is None else stores.accounts.find_account(str(name))
        return RightsReader(name, account, Reach.NODE, entry.id)
    account = _account(stores, author)
    name = None if account is None else Name(account.name)
    return RightsReader(name, account, author.reach, entry.id)


def _account(stores: Stores, author: Author) -> Account | None:
    try:
        return None if author.account is None else stores.accounts.account(author.account)
    except AccountNotFound:
        return None


def inputs_not_here(missing: Sequence[str], *, by_nobody: bool = False) -> BadInput:
    """Inputs are not on this node, or are hidden from the author of the definition. Such a
    definition may be `by_nobody` with an account here, who could be shown anything."""
    way = (
        "nobody with an account here defined the derivative, so it reads public datasets only: "
        "append the same SetTransform in the name of its owner, who then reads them, and refresh it"
        if by_nobody
        else "create or pull them first, or have them shown to who defined the derivative"
    )
    return BadInput(
        "InputsNotHere",
        f"inputs that are not here: {', '.join(missing)}; {way}",
        missing=list(missing),
    )


def declared(state: ChainState) -> list[DatasetId]:
    """Return the ids of the inputs of a derivative, each once; none for a root dataset."""
    return list(dict.fromkeys(item for item in state.declared_inputs or () if item is not None))


def remember_inputs(stores: Stores, dataset: DatasetId) -> None:
    """Copy the inputs from the chain to the registry. Raises `DatasetNotFound`."""
    stores.registry.set_inputs(dataset, inputs_of(stores, dataset))


def remember_declared(registry: DatasetRegistry, dataset: DatasetId, state: ChainState) -> None:
    """Copy the inputs that the state declares, if any, to the registry."""
    if inputs := declared(state):
        registry.set_inputs(dataset, inputs)


def inputs_of(stores: Stores, dataset: DatasetId) -> list[DatasetId]:
    """Return the inputs of a dataset; none if the dataset is not here."""
    if stores.registry.find(DatasetRef(id=dataset)) is None:
        return []
    return declared(stores.dataset(DatasetRef(id=dataset)).state())


def upstream(stores: Stores, dataset: DatasetId) -> dict[DatasetId, int]:
    """Return all datasets that a dataset depends on, with the longest distance to each."""
    return depths(dataset, lambda one: inputs_of(stores, one))


def downstream(stores: Stores, dataset: DatasetId) -> dict[DatasetId, int]:
    """Return all datasets that depend on a dataset, with the longest distance to each."""
    return depths(dataset, stores.registry.dependants)


def refuse_cycle(stores: Stores, dataset: DatasetId, inputs: Iterable[DatasetId]) -> None:
    """Raise `DependencyCycle` if the dataset is one of these inputs or depends on itself by
    them."""
    for one in inputs:
        if one == dataset or dataset in upstream(stores, one):
            raise Conflict(
                "DependencyCycle", f"{dataset} would depend on itself", dataset_id=str(dataset)
            )


def depths(
    start: DatasetId, next_of: Callable[[DatasetId], Sequence[DatasetId]]
) -> dict[DatasetId, int]:
    """Return the length of the longest path to each reachable dataset; a cycle is walked once."""
    depths, order, begun = dict[DatasetId, int](), list[DatasetId](), {start}
    steps = [(start, iter(next_of(start)))]
    edges = dict[DatasetId, list[DatasetId]]()
    while steps:
        one, rest = steps[-1]
        child = next(rest, None)
        if child is None:
            order.append(one)
            steps.pop()
            continue
        edges.setdefault(one, []).append(child)
        if child not in begun:
            begun.add(child)
            steps.append((child, iter(next_of(child))))
    position = {one: at for at, one in enumerate(reversed(order))}
    for one in reversed(order):
        for child in edges.get(one, ()):
            if position[child] > position[one]:  # else it closes a cycle
                depths[child] = max(depths.get(child, 0), depths.get(one, 0) + 1)
    if any(start in edges.get(one, ()) for one in begun):
        depths[start] = len(begun)
    return depths
