"""Create datasets from manifests, append authored events, describe datasets.

Summaries of datasets, for lists.

Rename and delete datasets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from odf_protocol.chain.definition_rules import ChainRuleBroken
from odf_protocol.chain.rules import author
from odf_protocol.chain.snapshot import normalize_event, prepare
from odf_protocol.chain.state import EMPTY, ChainState, Vocab, says_nothing_new
from odf_protocol.codec.manifests import load_event, load_snapshots
from odf_protocol.commitments import SEED_BYTES, key_pair
from odf_protocol.errors import BadInput, Conflict
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef, Name
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    DatasetSnapshot,
    ExecuteTransform,
    HashedBlock,
    MetadataEvent,
    Seed,
    SetTransform,
    SetVocab,
)
from odf_protocol.multihash import Multihash
from odf_protocol.sources.source_rules import check_definition
from odf_storage.datasets.node.naming import RESERVED, SINGLE_OWNER, refuse_reserved
from odf_storage.datasets.node.overviews import overview_now
from odf_storage.datasets.node.rights import refuse_cycle, remember_declared
from odf_storage.datasets.node.stores import Stores, refuse_long
from odf_storage.runtime.clock import Clock, Random
from odf_storage.stores.index.sql import DatasetEntries
from odf_storage.stores.ports.errors import AliasTaken, RefConflict
from odf_storage.stores.ports.following import Author
from odf_storage.stores.ports.overviews import ListedOverview
from odf_storage.stores.ports.values import DatasetEntry, Visibility
from odf_storage.stores.registers.accounts.sealing import SecretKeys
from odf_storage.stores.registers.signed.dataset_keys import sealed_key

from ...client.uses.event_texts import chain_data
from ..auth.access import ActionForbidden, Unauthenticated, may_create, owns, unauthorized
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess, EntryMemory
from ..definitions.authors import (
    Defining,
    InForce,
    check_definitions,
    note_author,
    take_definitions,
)
from ..history.verify import unverified_of, validation_of


def summary(access: DatasetAccess, entry: DatasetEntry, base: str) -> dict[str, Any]:
    """Return the entry of a dataset in a list."""
    alias = access.shown_alias(entry)
    return {
        "id": str(entry.id),
        "alias": alias,
        "kind": str(entry.kind),
        "visibility": str(entry.visibility),
        "createdAt": str(entry.created_at),
        "url": f"{base}{alias}",
    }


def detailed_summary(
    stores: Stores, access: DatasetAccess, listed: ListedOverview, base: str
) -> dict[str, Any]:
    """Return the entry of a dataset in a list, with facts of its chain as of the head."""
    said = overview_now(stores, listed)
    return {
        **summary(access, listed.entry, base),
        "records": said.records,
        "dataSize": said.data_size,
        "blocks": said.blocks,
        "updatedAt": str(said.updated_at),
        "description": said.description,
        "license": said.license,
        "keywords": list(said.keywords),
    }


Resolve = Callable[[DatasetRef], DatasetId | None]
"""A function that returns the id of an input, None if there is no such dataset."""
APPEND_ATTEMPTS = 5
"""Limit of attempts to append an authored event while other writers move the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDefinition:
    """A dataset that is ready to be created: its events, `Seed` first, and their blocks."""

    entry: DatasetEntry
    events: tuple[MetadataEvent, ...]
    blocks: list[HashedBlock]
    state: ChainState
    author: Author
    key: bytes = field(repr=False)
    """The secret key of the dataset, sealed."""


@dataclass(frozen=True)
class Authoring:
    """The dependencies of functions that create datasets and append events."""

    stores: Stores
    access: DatasetAccess
    defining: Defining
    keys: SecretKeys
    clock: Clock
    random: Random


def prepare_dataset(
    authoring: Authoring, actor: Actor, manifest: bytes, visibility: Visibility
) -> PreparedDefinition:
    """Prepare the dataset that a `DatasetSnapshot` manifest describes, without writing anything.

    Raises:
        Unauthenticated, Unauthorized, MalformedManifest, OneSnapshotExpected, InvalidSnapshot,
        NameTooLong, ReservedName, MissingInputs, ChainRuleBroken.
    """
    if actor.account is None:  # refuse before any work is done for an anonymous actor
        raise Unauthenticated
    snapshots = load_snapshots(manifest)
    if len(snapshots) != 1:
        raise BadInput(
            "OneSnapshotExpected", f"one DatasetSnapshot is expected, there are {len(snapshots)}"
        )
    resolve = visible_inputs(authoring.access, actor)
    return prepare_snapshot(authoring, actor, snapshots[0], visibility, resolve)


def prepare_snapshot(
    authoring: Authoring,
    actor: Actor,
    snapshot: DatasetSnapshot,
    visibility: Visibility,
    resolve: Resolve,
) -> PreparedDefinition:
    """Prepare the dataset that a snapshot describes, without writing anything. `resolve` finds its
    inputs.

    Raises the same errors as `prepare_dataset`.
    """
    if actor.account is None:
        raise Unauthenticated
    alias = authoring.access.new_alias(actor, snapshot.name)
    if not owns(actor, alias):
        raise unauthorized(f"only the account {alias.account} makes datasets under this name")
    may_create(actor, alias)
    refuse_long(alias)
    refuse_reserved(alias)
    key = key_pair(authoring.random(SEED_BYTES))
    events = prepare(snapshot, dataset_id=key.dataset_id, resolve=resolve)
    vocab = next((event for event in events if isinstance(event, SetVocab)), SetVocab())
    for event in events:
        check_definition(event, Vocab.of(vocab))
    now = authoring.clock()
    blocks, state = author(EMPTY, events, system_time=now)
    entry = DatasetEntry(key.dataset_id, alias, snapshot.kind, visibility, now)
    if authoring.stores.registry.find(DatasetRef(alias=alias)) is not None:
        raise AliasTaken(authoring.access.written(alias))
    by = Author(actor.account.id, actor.reach)
    return PreparedDefinition(
        entry=entry,
        events=events,
        blocks=blocks,
        state=state,
        author=by,
        key=sealed_key(authoring.keys, key),
    )


def create_prepared(stores: Stores, prepared: PreparedDefinition) -> tuple[DatasetEntry, Multihash]:
    """Create the dataset; return its entry and head. Raises `AliasTaken`."""
    stores.create_dataset(prepared.entry, prepared.blocks, key=prepared.key)
    note_author(stores, prepared.entry, InForce(), InForce.of(prepared.state), prepared.author)
    remember_declared(stores.registry, prepared.entry.id, prepared.state)
    return prepared.entry, prepared.blocks[-1].hash


def create_dataset(
    authoring: Authoring, actor: Actor, manifest: bytes, visibility: Visibility
) -> tuple[DatasetEntry, Multihash]:
    """Prepare and create a dataset. Raises the errors of both functions."""
    return create_prepared(
        authoring.stores, prepare_dataset(authoring, actor, manifest, visibility)
    )


def visible_inputs(access: DatasetAccess, actor: Actor) -> Resolve:
    """Return a function that finds inputs among the datasets that the actor may read."""

    def resolve(ref: DatasetRef) -> DatasetId | None:
        if ref.alias is not None:
            ref = DatasetRef(alias=access.new_alias(actor, ref.alias))
        entry = access.registry.find(ref)
        return entry.id if entry and access.may_read(actor, entry) else None

    return resolve


def event_to_append(access: DatasetAccess, actor: Actor, manifest: bytes) -> MetadataEvent:
    """Parse the authored event in a manifest, in the form that a chain stores.

    Raises:
        MalformedManifest, EventNotAuthored, MissingInputs.
    """
    event = load_event(manifest)
    if isinstance(event, AddData | ExecuteTransform | Seed):
        raise BadInput(
            "EventNotAuthored",
            f"{type(event).__name__} cannot be sent as a manifest; post data or push a chain",
        )
    return normalize_event(event, visible_inputs(access, actor))


class Appended(NamedTuple):
    """The chain after an event, and whether the event said anything new."""

    state: ChainState
    is_new: bool


def append_event(
    authoring: Authoring,
    actor: Actor,
    entry: DatasetEntry,
    event: MetadataEvent,
    *,
    expected: Multihash | None = None,
    dry_run: bool = False,
) -> Appended:
    """Append one authored event and return the new state. The head must be `expected`, if given.

    A dry run checks all rules, and appends nothing. An event that says only what the chain says
    already is not appended either: no reader of the history could tell what changed.

    Raises:
        ChainRuleBroken, DependencyCycle, DefinitionReadsHidden, AccountSecretsRefused.
        RefConflict: the head is not `expected`, or other writers moved it at every attempt.
    """
    if isinstance(event, SetTransform):
        named = (item.dataset_ref.id for item in event.inputs)
        refuse_cycle(authoring.stores, entry.id, [one for one in named if one is not None])
    dataset = authoring.stores.dataset(DatasetRef(id=entry.id))
    for attempt in range(1, APPEND_ATTEMPTS + 1):
        head = dataset.head()
        if expected is not None and head != expected:
            raise RefConflict(expected, head)
        state = dataset.state(head)
        check_definition(event, state.vocab)
        made = _authored(state, event, authoring.clock())
        if made is None:
            if not dry_run:  # the owner takes over what is in force already
                same = InForce.of(state)
                take_definitions(authoring.defining, actor, entry, same, same, said=(event,))
            return Appended(state, is_new=False)
        blocks, after = made
        definitions = (InForce.of(state), InForce.of(after))
        check_definitions(authoring.defining, actor, entry, *definitions)
        if dry_run:
            return Appended(after, is_new=True)
        take_definitions(authoring.defining, actor, entry, *definitions, said=(event,))
        try:
            dataset.commit(blocks, expected=head)
        except RefConflict:
            if attempt == APPEND_ATTEMPTS:
                raise
        else:
            remember_declared(authoring.stores.registry, entry.id, after)
            return Appended(after, is_new=True)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _authored(
    state: ChainState, event: MetadataEvent, now: Instant
) -> tuple[list[HashedBlock], ChainState] | None:
    """Return the blocks of the event and the state after them; None if it says nothing new. Raises
    `ChainRuleBroken`."""
    if says_nothing_new(state, event):
        return None
    try:
        return author(state, (event,), system_time=_not_before(now, state))
    except ChainRuleBroken as broken:
        if broken.code == "NoOpEvent":
            return None
        raise


def _not_before(now: Instant, state: ChainState) -> Instant:
    return now if state.system_time is None else max(now, state.system_time)


def description(
    stores: Stores, access: DatasetAccess, entry: DatasetEntry, base: str
) -> dict[str, Any]:
    """Return a dataset as JSON: its summary, and the facts of its chain as of the head."""
    state = stores.dataset(DatasetRef(id=entry.id)).state()
    return {
        **summary(access, entry, base),
        **chain_data(state),
        "validation": validation_of(stores.objects, entry.id, state.head),
        "unverified": unverified_of(stores.objects, entry.id),
        "isMirror": stores.mirrors.find(entry.id) is not None,
    }


_log = logging.getLogger("odf.node")


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
        raise Conflict(
            "StillRead", f"derivatives read it: {shown}; delete those first", derivatives=names
        )
    published = stores.publications.find(entry.id)
    if published is not None and published.store is not None:
        raise Conflict(
            "StillPublished",
            f"the dataset is published at {published.store[:200]}: withdraw it first, or have the "
            "node forget its files (leaveFiles), which then stay there",
            store=published.store[:200],
        )
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
