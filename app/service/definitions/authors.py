"""Who defines what a dataset is made by: checked when a definition comes into force, and noted.

A definition reads in the name of its author (`storage/stores/definitions`), so an editor of one
dataset, or a token for it, gets nothing of the owner's through it. The author is noted before the
head moves: should the move fail, the definition is nobody's but theirs. A definition that was in
force before keeps its author when others push it again; its owner takes it over by doing so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from odf_node.protocol.chain.state import ChainState
from odf_node.protocol.codec.manifests import to_data
from odf_node.protocol.errors import Refused
from odf_node.protocol.identity import DatasetId
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.events import DisablePollingSource, SetPollingSource, SetTransform
from odf_node.protocol.metadata.sources import FetchStepContainer
from odf_node.storage.datasets.node.rights import owner_of
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.stores.ports.definition_values import (
    NOBODY,
    Author,
    Definition,
    definition_hash,
)
from odf_node.storage.stores.ports.values import DatasetEntry, Reach

from ..auth.access import owns
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess

_TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_VARIABLE = re.compile(r"\benv\.([A-Za-z0-9_-]+)")


class DefinitionReadsHidden(Refused):
    """A transform by somebody who may not read its inputs."""

    def __init__(self, inputs: Iterable[DatasetId]) -> None:
        named = [str(one) for one in inputs]
        super().__init__(
            f"the transform reads datasets that are not here, or not shown to you: "
            f"{', '.join(named)}",
            inputs=named,
        )


class AccountSecretsRefused(Refused):
    """A source that uses variables of an account, by somebody else."""

    def __init__(self, names: Iterable[str]) -> None:
        listed = sorted(names)
        super().__init__(
            f"the source uses variables of the account that owns the dataset "
            f"({', '.join(listed)}); only that account may define it: give the dataset its own",
            variables=listed,
        )


class InForce(NamedTuple):
    """The definitions of a dataset as of some block."""

    transform: SetTransform | None = None
    source: SetPollingSource | None = None

    @classmethod
    def of(cls, state: ChainState) -> InForce:
        return cls(state.transform, state.polling_source)

    def after(self, blocks: Iterable[HashedBlock]) -> InForce:
        """With blocks behind, whatever else they hold."""
        transform, source = self
        for block in blocks:
            match block.event:
                case SetTransform() as event:
                    transform = event
                case SetPollingSource() as event:
                    source = event
                case DisablePollingSource():
                    source = None
        return InForce(transform, source)

    def new(self, before: InForce) -> Iterator[Definition]:
        """Those that were not in force before."""
        for now, then in zip(self, before, strict=True):
            if now is not None and now != then:
                yield now


@dataclass(frozen=True)
class Defining:
    """What decides who may define what."""

    stores: Stores
    access: DatasetAccess


def check_definitions(
    defining: Defining, actor: Actor, entry: DatasetEntry, before: InForce, after: InForce
) -> None:
    """Whether the actor may bring these definitions into force.

    Raises:
        DefinitionReadsHidden, AccountSecretsRefused.
    """
    if _acts_for_owner(actor, entry):
        return
    for definition in after.new(before):
        if isinstance(definition, SetTransform):
            _check_inputs(defining.access, actor, definition)
        else:
            _check_variables(defining.stores, entry, definition)


def take_definitions(
    defining: Defining,
    actor: Actor,
    entry: DatasetEntry,
    before: InForce,
    after: InForce,
    *,
    said: Collection[object] = (),
) -> None:
    """Check what comes into force, and note who it is by. Raises as `check_definitions`.

    `said` are the events the actor sends.
    """
    check_definitions(defining, actor, entry, before, after)
    account = None if actor.account is None else actor.account.id
    author = Author(account, actor.reach)
    again = said if _acts_for_owner(actor, entry) else ()
    note_author(defining.stores, entry, before, after, author, again=again)


def note_author(
    stores: Stores,
    entry: DatasetEntry,
    before: InForce,
    after: InForce,
    author: Author = NOBODY,
    *,
    again: Collection[object] = (),
) -> None:
    """From now on that is the author of what comes into force, or is in force `again`."""
    taken = [each for each in after.new(InForce()) if each in again]
    new = [*after.new(before), *taken]
    if not new:
        return
    if not stores.definitions.of_dataset(entry.id):  # those from before authors were noted
        for known in before.new(InForce()):
            stores.definitions.put(entry.id, definition_hash(known), owner_of(stores, entry))
    for definition in new:
        stores.definitions.put(entry.id, definition_hash(definition), author)


def _acts_for_owner(actor: Actor, entry: DatasetEntry) -> bool:
    """Whether all that is the owner's is the actor's: what they name may also come later."""
    if actor.account is None or actor.reach is Reach.DATASET:
        return False
    return owns(actor, entry.alias) or (actor.account.is_admin and actor.reach is Reach.NODE)


def _check_inputs(access: DatasetAccess, actor: Actor, transform: SetTransform) -> None:
    named = [item.dataset_ref for item in transform.inputs]
    hidden = [ref.id for ref in named if ref.id and access.visible(actor, ref.id) is None]
    if hidden:
        raise DefinitionReadsHidden(hidden)


def _check_variables(stores: Stores, entry: DatasetEntry, source: SetPollingSource) -> None:
    account = owner_of(stores, entry).account
    theirs = {} if account is None else stores.variables.of_owner(account)
    own = stores.variables.of_owner(str(entry.id))
    used = variables_in(source) & (theirs.keys() - own.keys())
    if used:
        raise AccountSecretsRefused(used)


def variables_in(source: SetPollingSource) -> set[str]:
    """Names of the variables that the templates of a source read."""
    found = set(_named_in(to_data(source)))
    if isinstance(source.fetch, FetchStepContainer):
        found |= {entry.name for entry in source.fetch.env or () if entry.value is None}
    return found


def _named_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            for template in _TEMPLATE.findall(value):
                yield from _VARIABLE.findall(template)
        case Mapping():
            for inner in value.values():
                yield from _named_in(inner)
        case list() | tuple():
            for inner in value:
                yield from _named_in(inner)
