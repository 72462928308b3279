"""Authors of definitions (transforms and polling sources): check and record the author when a
definition comes into force.

A definition runs with the rights of its author (`odf_storage/stores/definitions`), so an editor of
one dataset, or a token for it, cannot use it to read what only the owner may read. The author is
recorded before the head moves; if the move fails, the record does no harm. If other actors push a
definition that is already in force, it keeps its author, but the owner of the dataset becomes the
author by doing so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import re2

from odf_protocol.chain.state import ChainState
from odf_protocol.codec.manifests import to_data
from odf_protocol.errors import Refused
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import (
    DisablePollingSource,
    HashedBlock,
    SetPollingSource,
    SetTransform,
)
from odf_protocol.metadata.sources import FetchStepContainer
from odf_protocol.sources.templates import templates
from odf_storage.datasets.node.rights import owner_of
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.following import NOBODY, Author, Definition, definition_hash
from odf_storage.stores.ports.values import DatasetEntry, Reach

from ..auth.access import owns
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess

_VARIABLE = re2.compile(r"\benv\.([A-Za-z0-9_-]+)")


def definition_reads_hidden(inputs: Iterable[DatasetId]) -> Refused:
    """The author of the transform may not read its inputs."""
    named = [str(one) for one in inputs]
    return Refused(
        "DefinitionReadsHidden",
        f"the transform reads datasets that are not here, or not shown to you: {', '.join(named)}",
        inputs=named,
    )


def account_secrets_refused(names: Iterable[str]) -> Refused:
    """The source uses variables of the owner's account, and its author may not act for the
    owner."""
    listed = sorted(names)
    return Refused(
        "AccountSecretsRefused",
        f"the source uses variables of the account that owns the dataset "
        f"({', '.join(listed)}); only that account may define it: give the dataset its own",
        variables=listed,
    )


class InForce(NamedTuple):
    """The definitions that are in force at some block of a dataset."""

    transform: SetTransform | None = None
    source: SetPollingSource | None = None

    @classmethod
    def of(cls, state: ChainState) -> InForce:
        return cls(state.transform, state.polling_source)

    def after(self, blocks: Iterable[HashedBlock]) -> InForce:
        """Return the definitions after these further blocks."""
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
        """Yield the definitions that were not in force before."""
        for now, then in zip(self, before, strict=True):
            if now is not None and now != then:
                yield now


@dataclass(frozen=True)
class Defining:
    """The dependencies of checks of definitions."""

    stores: Stores
    access: DatasetAccess


def check_definitions(
    defining: Defining, actor: Actor, entry: DatasetEntry, before: InForce, after: InForce
) -> None:
    """Check that the actor may bring these definitions into force.

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
    """Check the definitions that come into force, and record their author. Raises the same errors
    as `check_definitions`.

    `said` are the events that the actor sends.
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
    """Record the author of the definitions that come into force, and of those in force that are
    also in `again`."""
    taken = [each for each in after.new(InForce()) if each in again]
    new = [*after.new(before), *taken]
    if not new:
        return
    if not stores.definitions.of_dataset(entry.id):  # defined before authors were recorded
        for known in before.new(InForce()):
            stores.definitions.put(entry.id, definition_hash(known), owner_of(stores, entry))
    for definition in new:
        stores.definitions.put(entry.id, definition_hash(definition), author)


def _acts_for_owner(actor: Actor, entry: DatasetEntry) -> bool:
    """Return whether the actor has all rights of the owner, also on datasets and variables that
    do not exist yet."""
    if actor.account is None or actor.reach is Reach.DATASET:
        return False
    return owns(actor, entry.alias) or (actor.account.is_admin and actor.reach is Reach.NODE)


def _check_inputs(access: DatasetAccess, actor: Actor, transform: SetTransform) -> None:
    named = [item.dataset_ref for item in transform.inputs]
    hidden = [ref.id for ref in named if ref.id and access.visible(actor, ref.id) is None]
    if hidden:
        raise definition_reads_hidden(hidden)


def _check_variables(stores: Stores, entry: DatasetEntry, source: SetPollingSource) -> None:
    account = owner_of(stores, entry).account
    theirs = {} if account is None else stores.variables.of_owner(account)
    own = stores.variables.of_owner(str(entry.id))
    used = variables_in(source) & (theirs.keys() - own.keys())
    if used:
        raise account_secrets_refused(used)


def variables_in(source: SetPollingSource) -> set[str]:
    """Return the names of the variables that the templates of a source use."""
    found = set(_named_in(to_data(source)))
    if isinstance(source.fetch, FetchStepContainer):
        found |= {entry.name for entry in source.fetch.env or () if entry.value is None}
    return found


def _named_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            for begin, end in templates(value):
                yield from _VARIABLE.findall(value[begin:end])
        case Mapping():
            for inner in value.values():
                yield from _named_in(inner)
        case list() | tuple():
            for inner in value:
                yield from _named_in(inner)
