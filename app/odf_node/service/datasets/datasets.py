"""Create datasets from manifests, append authored events, describe datasets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odf_protocol.chain.author import author
from odf_protocol.chain.snapshot import normalize_event, prepare
from odf_protocol.chain.state import EMPTY, ChainState, Vocab
from odf_protocol.codec.manifests import load_event, load_snapshots, to_data
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.keys import SEED_BYTES, key_pair
from odf_protocol.metadata.block import DatasetSnapshot, HashedBlock
from odf_protocol.metadata.events import (
    AddData,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetTransform,
    SetVocab,
)
from odf_protocol.multihash import Multihash
from odf_protocol.source_rules import check_definition
from odf_storage.datasets.node.dependencies import refuse_cycle, remember_declared
from odf_storage.datasets.node.naming import refuse_reserved
from odf_storage.datasets.node.stores import Stores, refuse_long
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.randomness import Random
from odf_storage.stores.ports.definition_values import Author
from odf_storage.stores.ports.errors import AliasTaken, RefConflict
from odf_storage.stores.ports.values import DatasetEntry, Visibility

from ..auth.access import Unauthenticated, Unauthorized, may_create, owns
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..definitions.authors import (
    Defining,
    InForce,
    check_definitions,
    note_author,
    take_definitions,
)
from ..verify.validation import unverified_of, validation_of
from .summaries import summary

Resolve = Callable[[DatasetRef], DatasetId | None]
"""A function that returns the id of an input, None if there is no such dataset."""
APPEND_ATTEMPTS = 5
"""Limit of attempts to append an authored event while other writers move the head."""


class OneSnapshotExpected(BadInput):
    """The manifest of a request to create a dataset describes none or several."""


class EventNotAuthored(BadInput):
    """The event may be appended only by the node itself or by a push."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A dataset that is ready to be created: its events, `Seed` first, and their blocks."""

    entry: DatasetEntry
    events: tuple[MetadataEvent, ...]
    blocks: list[HashedBlock]
    state: ChainState
    author: Author


@dataclass(frozen=True)
class Authoring:
    """The dependencies of functions that create datasets and append events."""

    stores: Stores
    access: DatasetAccess
    defining: Defining
    clock: Clock
    random: Random


def prepare_dataset(
    authoring: Authoring, actor: Actor, manifest: bytes, visibility: Visibility
) -> Prepared:
    """Prepare the dataset that a `DatasetSnapshot` manifest describes, without writing anything.

    Raises:
        Unauthenticated, Unauthorized, MalformedManifest, OneSnapshotExpected, InvalidSnapshot,
        NameTooLong, ReservedName, MissingInputs, ChainRuleBroken.
    """
    if actor.account is None:  # refuse before any work is done for an anonymous actor
        raise Unauthenticated
    snapshots = load_snapshots(manifest)
    if len(snapshots) != 1:
        raise OneSnapshotExpected(f"one DatasetSnapshot is expected, there are {len(snapshots)}")
    resolve = visible_inputs(authoring.access, actor)
    return prepare_snapshot(authoring, actor, snapshots[0], visibility, resolve)


def prepare_snapshot(
    authoring: Authoring,
    actor: Actor,
    snapshot: DatasetSnapshot,
    visibility: Visibility,
    resolve: Resolve,
) -> Prepared:
    """Prepare the dataset that a snapshot describes, without writing anything. `resolve` finds its
    inputs.

    Raises the same errors as `prepare_dataset`.
    """
    if actor.account is None:
        raise Unauthenticated
    alias = authoring.access.new_alias(actor, snapshot.name)
    if not owns(actor, alias):
        raise Unauthorized(f"only the account {alias.account} makes datasets under this name")
    may_create(actor, alias)
    refuse_long(alias)
    refuse_reserved(alias)
    dataset = key_pair(authoring.random(SEED_BYTES)).dataset_id
    events = prepare(snapshot, dataset_id=dataset, resolve=resolve)
    vocab = next((event for event in events if isinstance(event, SetVocab)), SetVocab())
    for event in events:
        check_definition(event, Vocab.of(vocab).event_time_column)
    now = authoring.clock()
    blocks, state = author(EMPTY, events, system_time=now)
    entry = DatasetEntry(dataset, alias, snapshot.kind, visibility, now)
    if authoring.stores.registry.find(DatasetRef(alias=alias)) is not None:
        raise AliasTaken(alias)
    by = Author(actor.account.id, actor.reach)
    return Prepared(entry=entry, events=events, blocks=blocks, state=state, author=by)


def create_prepared(stores: Stores, prepared: Prepared) -> tuple[DatasetEntry, Multihash]:
    """Create the dataset; return its entry and head. Raises `AliasTaken`."""
    stores.create_dataset(prepared.entry, prepared.blocks)
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
        raise EventNotAuthored(
            f"{type(event).__name__} cannot be sent as a manifest; post data or push a chain"
        )
    return normalize_event(event, visible_inputs(access, actor))


def append_event(
    authoring: Authoring,
    actor: Actor,
    entry: DatasetEntry,
    event: MetadataEvent,
    *,
    expected: Multihash | None = None,
    dry_run: bool = False,
) -> ChainState:
    """Append one authored event and return the new state. The head must be `expected`, if given.

    A dry run checks all rules, and appends nothing.

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
        check_definition(event, state.vocab.event_time_column)
        blocks, after = author(state, (event,), system_time=_not_before(authoring.clock(), state))
        definitions = (InForce.of(state), InForce.of(after))
        check_definitions(authoring.defining, actor, entry, *definitions)
        if dry_run:
            return after
        take_definitions(authoring.defining, actor, entry, *definitions, said=(event,))
        try:
            dataset.commit(blocks, expected=head)
        except RefConflict:
            if attempt == APPEND_ATTEMPTS:
                raise
        else:
            remember_declared(authoring.stores.registry, entry.id, after)
            return after
    raise AssertionError("unreachable: the last attempt returns or raises")


def _not_before(now: Instant, state: ChainState) -> Instant:
    return now if state.system_time is None else max(now, state.system_time)


def description(
    stores: Stores, access: DatasetAccess, entry: DatasetEntry, base: str
) -> dict[str, Any]:
    """Return a dataset as JSON: its summary, and the facts of its chain as of the head."""
    state = stores.dataset(DatasetRef(id=entry.id)).state()
    schema = state.data_schema
    return {
        **summary(access, entry, base),
        "head": str(state.head),
        "blocks": state.num_blocks,
        "records": state.num_records,
        "dataSize": state.data_size,
        "checkpointsSize": state.checkpoints_size,
        "linkedObjects": state.linked_objects,
        "linkedObjectsSize": state.linked_size,
        "lastOffset": state.last_offset,
        "watermark": None if state.watermark is None else str(state.watermark),
        "updatedAt": str(state.system_time),
        "description": state.info.description if state.info else None,
        "keywords": list(state.info.keywords or ()) if state.info else [],
        "license": _without_kind(to_data(state.license)) if state.license else None,
        "pushSources": sorted(state.push_sources),
        "pollingSource": state.polling_source is not None,
        "schema": None if schema is None else to_data(schema),
        "validation": validation_of(stores.objects, entry.id, state.head),
        "unverified": unverified_of(stores.objects, entry.id),
        "isMirror": stores.mirrors.find(entry.id) is not None,
    }


def _without_kind(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "kind"}
