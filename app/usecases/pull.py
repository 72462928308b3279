"""One smart pull, message by message. The head seen first stays the head until the end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from protocol.identity import DatasetRef
from protocol.metadata.block import HashedBlock
from protocol.multihash import Multihash
from protocol.transfer.bundle import pack
from protocol.transfer.messages import (
    INTERNAL_ERROR,
    DatasetMetadataPullResponse,
    DatasetPullMetadataRequest,
    DatasetPullObjectsTransferRequest,
    DatasetPullObjectsTransferResponse,
    DatasetPullRequest,
    DatasetPullResponse,
    DatasetPullSuccess,
    Internal,
    InvalidInterval,
    Message,
    PullPhase,
    Reply,
    TransferPhase,
)
from protocol.transfer.phases import PHASES, PullState, State
from protocol.transfer.plan import transfer_plan
from storage import dataset as storage_dataset
from storage.dataset import BlockNotFound, Dataset
from storage.values import DatasetEntry

from ..wiring import Node
from .links import Links

INITIAL = TransferPhase(pull=PullPhase.InitialRequest)


class PullExchange:
    """The server's side of a pull: what to answer to each message."""

    start: State = PullState.START

    def __init__(self, node: Node, entry: DatasetEntry, links: Links) -> None:
        self._links = links
        self._dataset: Dataset = node.stores.dataset(DatasetRef(id=entry.id))
        self._after: Multihash | None = None
        self._upto: Multihash | None = None

    def answer(self, message: Message) -> Message | None:
        match message:
            case DatasetPullRequest():
                return self._plan(message)
            case DatasetPullMetadataRequest():
                return DatasetMetadataPullResponse(blocks=pack(self._blocks()))
            case DatasetPullObjectsTransferRequest(object_files=files):
                strategies = (self._links.pull(self._dataset.id, file) for file in files)
                return DatasetPullObjectsTransferResponse(
                    object_transfer_strategies=tuple(strategies)
                )
        return None

    def settle(self) -> None:
        """A pull has nothing to do between its messages."""

    def failure(self, state: State, error: Exception) -> Reply:  # noqa: ARG002
        """What the Close frame says of an error: that there was one, and where."""
        return DatasetPullResponse(
            result=Internal(phase=PHASES[state], error_message=INTERNAL_ERROR)
        )

    def _plan(self, request: DatasetPullRequest) -> DatasetPullResponse:
        """The interval, pinned; force falls back to the whole chain if histories differ."""
        self._upto = request.stop_at or self._dataset.head()
        self._after = request.begin_after
        try:
            plan = transfer_plan(self._blocks())
        except storage_dataset.InvalidInterval as differ:
            if not request.force_update_if_diverged:
                return DatasetPullResponse(
                    result=InvalidInterval(head=differ.head, tail=differ.tail)
                )
            self._after = None
            plan = transfer_plan(self._blocks())
        except BlockNotFound as missing:
            return DatasetPullResponse(
                result=Internal(phase=INITIAL, error_message=missing.message)
            )
        return DatasetPullResponse(result=DatasetPullSuccess(transfer_plan=plan))

    def _blocks(self) -> Iterator[HashedBlock]:
        return chain.from_iterable(self._dataset.pages(after=self._after, upto=self._upto))
