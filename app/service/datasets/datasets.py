"""Creating datasets from manifests, appending authored events, describing them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odf_node.protocol.chain.author import author
from odf_node.protocol.chain.snapshot import normalize_event, prepare
from odf_node.protocol.chain.state import EMPTY, ChainState, Vocab
from odf_node.protocol.codec.manifests import load_event, load_snapshots, to_data
from odf_node.protocol.errors import BadInput
from odf_node.protocol.identity import DatasetId, DatasetRef
from odf_node.protocol.instant import Instant
from odf_node.protocol.keys import SEED_BYTES, key_pair
from odf_node.protocol.metadata.block import DatasetSnapshot, HashedBlock
from odf_node.protocol.metadata.events import (
    AddData,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetTransform,
    SetVocab,
)
from odf_node.protocol.multihash import Multihash
from odf_node.protocol.source_rules import check_definition
from odf_node.storage.datasets.node.dependencies import refuse_cycle, remember_declared
from odf_node.storage.datasets.node.naming import refuse_reserved
from odf_node.storage.datasets.node.stores import Stores, refuse_long
from odf_node.storage.runtime.clock import Clock
from odf_node.storage.runtime.randomness import Random
from odf_node.storage.stores.ports.definition_values import Author
from odf_node.storage.stores.ports.errors import AliasTaken, RefConflict
from odf_node.storage.stores.ports.values import DatasetEntry, Visibility

from ..auth.access import Unauthenticated, may_create
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
"""How inputs are found; None: there is none."""
APPEND_ATTEMPTS = 5
"""How often an authored event is put on top of a head that somebody else moved."""


class OneSnapshotExpected(BadInput):
    """A request that creates datasets names none or several."""


class EventNotAuthored(BadInput):
    """An event that only the node itself, or a push, may append."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A dataset that could be created: its events, `Seed` first, blocks made of them."""

    entry: DatasetEntry
    events: tuple[MetadataEvent, ...]
    blocks: list[HashedBlock]
    state: ChainState
    author: Author


@dataclass(frozen=True)
class Authoring:
    """What datasets and their authored events are made with."""

    stores: Stores
    access: DatasetAccess
    defining: Defining
    clock: Clock
    random: Random


def prepare_dataset(
    authoring: Authoring, actor: Actor, manifest: bytes, visibility: Visibility
) -> Prepared:
    """The dataset a `DatasetSnapshot` manifest describes; nothing is written.

    Raises:
        Unauthenticated, Unauthorized, MalformedManifest, OneSnapshotExpected, InvalidSnapshot,
        NameTooLong, ReservedName, MissingInputs, ChainRuleBroken.
    """
    if actor.account is None:  # before anything is read for a stranger
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
    """The dataset a snapshot describes, its inputs found by `resolve`; nothing is written.

    Raises as `prepare_dataset`.
    """
    if actor.account is None:
        raise Unauthenticated
    alias = authoring.access.new_alias(actor, snapshot.name)
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
    """Create it: its entry and head. Raises `AliasTaken`."""
    stores.create_dataset(prepared.entry, prepared.blocks)
    note_author(stores, prepared.entry, InForce(), InForce.of(prepared.state), prepared.author)
    remember_declared(stores.registry, prepared.entry.id, prepared.state)
    return prepared.entry, prepared.blocks[-1].hash


def create_dataset(
    authoring: Authoring, actor: Actor, manifest: bytes, visibility: Visibility
) -> tuple[DatasetEntry, Multihash]:
    """Prepare and create. Raises as both."""
    return create_prepared(
        authoring.stores, prepare_dataset(authoring, actor, manifest, visibility)
    )


def visible_inputs(access: DatasetAccess, actor: Actor) -> Resolve:
    """How inputs are found: what the actor may not read does not exist for them."""

    def resolve(ref: DatasetRef) -> DatasetId | None:
        if ref.alias is not None:
            ref = DatasetRef(alias=access.new_alias(actor, ref.alias))
        entry = access.registry.find(ref)
        return entry.id if entry and access.may_read(actor, entry) else None

    return resolve


def event_to_append(access: DatasetAccess, actor: Actor, manifest: bytes) -> MetadataEvent:
    """The authored event of a manifest, as a chain holds it.

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
    """Append one authored event, to the head that is expected if one is; the state with it.

    A dry run holds it to all rules, and appends nothing.

    Raises:
        ChainRuleBroken, DependencyCycle, DefinitionReadsHidden, AccountSecretsRefused.
        RefConflict: the head is another one than expected, or others kept winning.
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
    """A dataset as it stands: its summary and what its chain says."""
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
