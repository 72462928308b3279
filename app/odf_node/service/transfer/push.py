"""One smart push, message by message: compare heads, check blocks, create, receive, commit.

New blocks stay in memory until the commit writes them. A failure is reported in a
Close frame (see `failure`); only a head that has moved is an ordinary response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odf_protocol.chain.rules import fold_received as fold
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.errors import BadInput, NodeError, code_of
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.metadata.events import HashedBlock, Seed, SetTransform
from odf_protocol.multihash import Multihash
from odf_protocol.transfer import messages
from odf_protocol.transfer.bundle import BundleLimits, unpack
from odf_protocol.transfer.messages import (
    BATCH_ENCODING,
    INTERNAL_ERROR,
    Accepted,
    DatasetPushComplete,
    DatasetPushCompleteConfirmed,
    DatasetPushMetadataRequest,
    DatasetPushMetadataResponse,
    DatasetPushObjectsTransferRequest,
    DatasetPushObjectsTransferResponse,
    DatasetPushRequest,
    DatasetPushResponse,
    Internal,
    InvalidHead,
    Message,
    MetadataBlocksBatch,
    NameCollision,
    ObjectsTransferStrategies,
    PushPhase,
    PushStrategy,
    RefCollision,
    Reply,
    TransferPhase,
)
from odf_protocol.transfer.phases import PHASES, PushState, State
from odf_storage.datasets.dataset.dataset import Dataset, SeedBlockOverwriteRestricted
from odf_storage.datasets.gate.gate import DataDoesNotMatchMetadata
from odf_storage.datasets.node.rights import refuse_cycle, remember_declared
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock, without_garbage_collection
from odf_storage.stores.index.named_objects import named_objects
from odf_storage.stores.index.sql_sizes import QUOTA_EXCEEDED, Named, account_of
from odf_storage.stores.ports.errors import AliasTaken, DatasetIdTaken, DatasetNotFound
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind, Visibility

from ..auth.actors import Actor
from ..auth.dataset_access import refuse_mirror
from ..definitions.authors import (
    Defining,
    InForce,
    check_definitions,
    take_definitions,
)
from .admission import (
    Admission,
    PushBeingValidated,
    PushNotValidated,
    Receiving,
    commit_received,
    commit_validated,
    needs_validation,
)
from .pull import Links

_DEFINITIONS_REFUSED = {
    "DefinitionReadsHidden": "it reads datasets not shown to you",
    "AccountSecretsRefused": "it uses secrets of the account",
}
"""Reason of a refusal by code of the error, short enough for a Close frame."""


class FirstBlockIsNoSeed(BadInput):
    """The first block of a push that creates a dataset is not a Seed."""


@dataclass(frozen=True)
class Pushing:
    """The parts of the node that a push needs, and the limits of its batches."""

    stores: Stores
    defining: Defining
    receiving: Receiving
    admission: Admission
    limits: BundleLimits
    clock: Clock


class PushExchange:
    """The server's side of a push: answers each message of the client."""

    start: State = PushState.START

    def __init__(
        self,
        pushing: Pushing,
        alias: DatasetAlias,
        entry: DatasetEntry | None,
        links: Links,
        *,
        actor: Actor,
        encoding: str = BATCH_ENCODING,
    ) -> None:
        self._pushing, self._alias, self._links = pushing, alias, links
        self._stores = pushing.stores
        self._actor = actor
        self._encoding = encoding
        self._entry = entry
        self._granted = None if entry is None else entry.id
        self._request: DatasetPushRequest | None = None
        self._blocks: list[HashedBlock] = []
        self._expected: Multihash | None = None
        self._unsettled = False
        self._offered: set[Multihash] = set()
        """Hashes of all data objects that the client has offered, including linked objects."""

    def answer(self, message: Message) -> Message | None:
        match message:
            case DatasetPushRequest():
                return self._compare_heads(message)
            case DatasetPushMetadataRequest(new_blocks=batch):
                self._take(batch)
                return DatasetPushMetadataResponse(result=Accepted())
            case DatasetPushObjectsTransferRequest(object_files=files):
                dataset = self._dataset_id()
                self._offered |= {
                    file.physical_hash
                    for file in files
                    if file.object_type is messages.ObjectType.DataSlice
                }
                strategies = tuple(self._links.push(dataset, file) for file in files)
                self._require_room(strategies)
                return DatasetPushObjectsTransferResponse(
                    result=ObjectsTransferStrategies(object_transfer_strategies=strategies)
                )
            case DatasetPushComplete():
                self._commit()
                return DatasetPushCompleteConfirmed()
        return None

    def settle(self) -> None:
        """Check an accepted batch against the chain, or create the new dataset from it.

        The exchange does this after it has accepted the batch: at that time the client waits for
        the response to its objects request, and peers understand an error there.
        """
        if not self._unsettled:
            return
        self._unsettled = False
        if self._entry is None:
            self._create(self._blocks[0])
            return
        if self._asked().force_update_if_diverged:
            fold(self._blocks, self._forced_base())
        elif self._expected is not None:
            self._dataset().check(self._blocks, expected=self._expected)
        check_definitions(self._pushing.defining, self._actor, self._entry, *self._definitions())

    def failure(self, state: State, error: Exception) -> Reply:
        """Return what the Close frame says about an error."""
        match error:
            case SeedBlockOverwriteRestricted():
                return DatasetPushMetadataResponse(result=messages.SeedBlockOverwriteRestricted())
            case DatasetIdTaken():
                taken = DatasetId.parse(str(error.facts["dataset_id"]))
                return DatasetPushObjectsTransferResponse(result=RefCollision(dataset_id=taken))
            case AliasTaken():
                alias = NameCollision(dataset_alias=str(self._alias))
                return DatasetPushObjectsTransferResponse(result=alias)
        phase = PHASES[state]
        if isinstance(error, PushNotValidated | PushBeingValidated):
            said = Internal(phase=phase, error_message=error.message)
            return DatasetPushResponse(result=said)
        if isinstance(error, DataDoesNotMatchMetadata):
            told = f"block {error.sequence_number}: {error.reason}"
            return DatasetPushResponse(result=Internal(phase=phase, error_message=told))
        if why := _DEFINITIONS_REFUSED.get(code_of(error)):
            said = Internal(phase=phase, error_message=why)
            return DatasetPushResponse(result=said)
        if code_of(error) == QUOTA_EXCEEDED and isinstance(error, NodeError):
            told = f"quota: {error.facts['used']} of {error.facts['limit']} bytes used"
            return DatasetPushResponse(result=Internal(phase=phase, error_message=told))
        if isinstance(error, FirstBlockIsNoSeed):
            phase = TransferPhase(push=PushPhase.ObjectsUploadProgress)
        return DatasetPushResponse(result=Internal(phase=phase, error_message=INTERNAL_ERROR))

    def _compare_heads(self, request: DatasetPushRequest) -> DatasetPushResponse:
        """Refuse unless the client has seen the current head. Mind the names in `InvalidHead`: its
        `actual_head` is the client's head, its `expected_head` is ours."""
        self._entry = self._found()
        head = self._head()
        if request.current_head != head:
            return DatasetPushResponse(
                result=InvalidHead(actual_head=request.current_head, expected_head=head)
            )
        self._request, self._expected = request, head
        return DatasetPushResponse(result=Accepted())

    def _found(self) -> DatasetEntry | None:
        """Return the dataset that the alias now names: the one whose rights were checked, or a new
        one of the caller's account. Raises `DatasetNotFound`, `IsRemote`."""
        found = self._stores.registry.find(DatasetRef(alias=self._alias))
        if self._granted is not None and (found is None or found.id != self._granted):
            raise DatasetNotFound(DatasetRef(alias=self._alias))
        if found is not None:
            refuse_mirror(self._stores.mirrors, found)
        return found

    def _head(self) -> Multihash | None:
        if self._entry is None:
            return None
        try:
            return self._stores.refs.head(self._entry.id)
        except DatasetNotFound:
            return None

    def _take(self, batch: MetadataBlocksBatch) -> None:
        """Unpack the batch. A forced batch that begins with a Seed must keep the dataset's identity
        and kind."""
        request = self._asked()
        if batch.num_blocks != request.transfer_plan.num_blocks:
            raise BadInput(
                "PlanBroken",
                f"{batch.num_blocks} blocks where the plan announced "
                f"{request.transfer_plan.num_blocks}",
            )
        with without_garbage_collection():
            self._blocks = unpack(batch, limits=self._pushing.limits, encoding=self._encoding)
        self._unsettled = bool(self._blocks)
        if self._blocks and self._entry is not None and request.force_update_if_diverged:
            seed = self._blocks[0].event
            own = (self._entry.id, self._entry.kind)
            if isinstance(seed, Seed) and (seed.dataset_id, seed.dataset_kind) != own:
                raise SeedBlockOverwriteRestricted(self._entry.id)

    def _forced_base(self) -> ChainState:
        """Return the state that the new blocks continue."""
        first = self._blocks[0]
        return EMPTY if first.prev is None else self._dataset().state(first.prev)

    def _definitions(self) -> tuple[InForce, InForce]:
        """Return the definitions in force now, and those in force after the new blocks."""
        dataset, first = self._dataset(), self._blocks[0]
        base = InForce() if first.prev is None else InForce.of(dataset.state(first.prev))
        return InForce.of(dataset.state()), base.after(self._blocks)

    def _dataset(self) -> Dataset:
        return self._stores.dataset(DatasetRef(id=self._dataset_id()))

    def _create(self, first: HashedBlock) -> None:
        """Create the dataset with its Seed, after all new blocks have passed the chain rules."""
        if not isinstance(first.event, Seed):
            raise FirstBlockIsNoSeed("a new dataset begins with a Seed block")
        state = fold(self._blocks)
        public = self._asked().visibility_for_created_dataset is messages.Visibility.Public
        entry = DatasetEntry(
            id=first.event.dataset_id,
            alias=self._alias,
            kind=first.event.dataset_kind,
            visibility=Visibility.PUBLIC if public else Visibility.PRIVATE,
            created_at=self._pushing.clock(),
        )
        unfinished = len(self._blocks) > 1
        self._stores.create_dataset(entry, [first], pushed=True, unfinished=unfinished)
        self._stores.states.put(entry.id, self._blocks[-1].hash, state)
        self._entry, self._expected = entry, first.hash
        self._blocks = self._blocks[1:]

    def _commit(self) -> None:
        """Append the blocks and move the head: by compare-and-swap, or unconditionally by force."""
        if not self._blocks or self._expected is None:
            return
        dataset = self._dataset()
        force = self._asked().force_update_if_diverged
        sliced = {one.hash for block in self._blocks for one in named_objects(block.event)}
        linked = dict[Named, int]()
        for name in self._offered - sliced:
            info = self._stores.objects.settle(ObjectKey(dataset.id, ObjectKind.DATA, name))
            if info is not None:
                linked[ObjectKind.DATA, name] = info.size
        self._stores.quotas.register(dataset.id, linked)
        for block in self._blocks:
            if isinstance(event := block.event, SetTransform):
                named = (item.dataset_ref.id for item in event.inputs)
                refuse_cycle(self._stores, dataset.id, [one for one in named if one])
        said = [block.event for block in self._blocks]
        before, after = self._definitions()
        take_definitions(
            self._pushing.defining, self._actor, dataset.entry, before, after, said=said
        )
        pushing, expected = self._pushing, self._expected
        if needs_validation(pushing.admission, dataset, self._blocks):
            commit_validated(
                pushing.admission, dataset, self._blocks, expected=expected, force=force
            )
        else:
            commit_received(
                pushing.receiving, dataset, self._blocks, expected=expected, force=force
            )
        state = dataset.state(self._blocks[-1].hash)
        remember_declared(self._stores.registry, dataset.id, state)
        if self._blocks[0].sequence_number <= 1:  # these may be the first push
            self._stores.finish_push(dataset.id)

    def _require_room(self, strategies: Sequence[PushStrategy]) -> None:
        """Refuse objects that do not fit into a quota before they are sent; the commit judges
        exactly. Raises `QuotaExceeded`."""
        size = sum(one.object_file.size for one in strategies if one.upload_to is not None)
        self._stores.quotas.require_room(account_of(self._alias), size)

    def _dataset_id(self) -> DatasetId:
        if self._entry is None:
            raise DatasetNotFound(DatasetRef(alias=self._alias))
        return self._entry.id

    def _asked(self) -> DatasetPushRequest:
        if self._request is None:
            raise BadInput("PlanBroken", "no push was asked for")
        return self._request
