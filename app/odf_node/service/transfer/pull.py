"""One smart pull, message by message. The head at the first request stays the head to the end.

URLs at which clients of a smart transfer fetch and put objects: presigned, or of this node.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain

from msgspec import Raw
from msgspec.structs import replace

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.multihash import HashMismatch, Multihash
from odf_protocol.transfer.bundle import Archive, archive_of, batch_of
from odf_protocol.transfer.messages import (
    BATCH_ENCODING,
    INLINE,
    INTERNAL_ERROR,
    PROTOCOL_VERSION,
    VERSION_HEADER,
    DatasetMetadataPullResponse,
    DatasetPullMetadataRequest,
    DatasetPullObjectsTransferRequest,
    DatasetPullObjectsTransferResponse,
    DatasetPullRequest,
    DatasetPullResponse,
    DatasetPullSuccess,
    Header,
    Internal,
    InvalidInterval,
    Message,
    ObjectFileReference,
    ObjectType,
    PullPhase,
    PullStrategy,
    PushStrategy,
    Reply,
    TransferPhase,
    TransferPlan,
    TransferUrl,
    encode,
)
from odf_protocol.transfer.phases import PHASES, PullState, State, payload_pieces, transfer_plan
from odf_storage.datasets.dataset import dataset as storage_dataset
from odf_storage.datasets.dataset.dataset import BlockNotFound, Dataset
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.index.named_objects import named_objects
from odf_storage.stores.ports import ObjectStore, values
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind

KINDS = {ObjectType.DataSlice: ObjectKind.DATA, ObjectType.Checkpoint: ObjectKind.CHECKPOINT}
INLINE_BYTES = 64 * 1024
"""Size in bytes of the largest object that is sent in its URL."""
INLINE_TOTAL_BYTES = 8 << 20
"""Limit in bytes of all objects that one answer has in URLs."""
AT_ONCE = 16
"""Number of objects that are looked up in a bucket in parallel."""
FOLDERS = {ObjectType.DataSlice: "data", ObjectType.Checkpoint: "checkpoints"}


@dataclass(frozen=True, slots=True)
class Links:
    """Makes the transfer strategies for the objects of one dataset, for one caller."""

    objects: ObjectStore
    dataset_url: str
    """URL of the dataset as the client addresses it, with a slash at the end."""
    bearer: str | None = field(repr=False)
    """The caller's token, which we return to it as a header for URLs of this node."""
    ttl: timedelta
    max_object_bytes: int
    """Limit of objects that this node accepts."""

    def missing(self, dataset: DatasetId, files: Sequence[ObjectFileReference]) -> list[ObjectKey]:
        """Return the keys of the files that this node does not have."""
        keys = [_key(dataset, file) for file in files]
        if len(keys) < AT_ONCE:
            found = [self.objects.stat(key) for key in keys]
        else:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                found = list(pool.map(self.objects.stat, keys))
        return [key for key, info in zip(keys, found, strict=True) if info is None]

    def pull(self, dataset: DatasetId, file: ObjectFileReference) -> PullStrategy:
        """Return how to fetch the file. This does not check that it exists; `missing` does."""
        url = self.objects.download_url(_key(dataset, file), ttl=self.ttl)
        return PullStrategy(object_file=file, download_from=self._given(url, file))

    def push(self, dataset: DatasetId, file: ObjectFileReference) -> PushStrategy:
        """Return how to upload the file; the client skips it if the dataset already has it."""
        key = _key(dataset, file)
        if self._is_here(key):
            return PushStrategy(object_file=file, push_strategy="SkipUpload")
        url = None
        if file.size <= self.max_object_bytes:  # a larger one goes to this node, which refuses it
            url = self.objects.upload_url(key, size=file.size, ttl=self.ttl)
        return PushStrategy(
            object_file=file, push_strategy="HttpUpload", upload_to=self._given(url, file)
        )

    def _is_here(self, key: ObjectKey) -> bool:
        """Return whether the object is stored; settle an upload of an aborted push first."""
        try:
            return self.objects.settle(key) is not None
        except HashMismatch:
            return False

    def _given(self, url: values.TransferUrl | None, file: ObjectFileReference) -> TransferUrl:
        """Return the presigned URL, or the URL of this node with its two headers in this order."""
        if url is not None:
            headers = tuple(Header(name=name, value=value) for name, value in url.headers)
            return TransferUrl(url=url.url, headers=headers, expires_at=url.expires_at)
        own = [Header(name=VERSION_HEADER, value=str(PROTOCOL_VERSION))]
        if self.bearer is not None:
            own.append(Header(name="authorization", value=f"Bearer {self.bearer}"))
        path = f"{FOLDERS[file.object_type]}/{file.physical_hash}"
        return TransferUrl(url=self.dataset_url + path, headers=tuple(own))


def _key(dataset: DatasetId, file: ObjectFileReference) -> ObjectKey:
    return ObjectKey(dataset, KINDS[file.object_type], file.physical_hash)


INITIAL = TransferPhase(pull=PullPhase.InitialRequest)
_HOLE = Raw(b'"?"')


class BlockBatch:
    """The response with all blocks: a large text, which is encoded while it is sent."""

    def __init__(self, archive: Archive, encoding: str) -> None:
        self._archive, self._encoding = archive, encoding
        self.message = DatasetMetadataPullResponse(blocks=batch_of(archive, _HOLE, encoding))

    def text(self) -> Iterator[str]:
        """Yield the JSON of the message in pieces of a few megabytes at most."""
        before, _, behind = encode(self.message).partition(bytes(_HOLE).decode())
        yield before
        for piece in payload_pieces(self._archive.content, self._encoding):
            yield piece.decode("ascii")
        yield behind


class PullExchange:
    """The server's side of a pull: answers each message of the client."""

    start: State = PullState.START

    def __init__(
        self,
        datasets: Stores,
        entry: DatasetEntry,
        links: Links,
        *,
        encoding: str = BATCH_ENCODING,
        inline: Callable[[], bool] | None = None,
    ) -> None:
        """`inline` is None if the client does not take small objects in their URLs; else it says
        whether the client may still read the dataset."""
        self._links, self._encoding, self._inline = links, encoding, inline
        self._dataset: Dataset = datasets.dataset(DatasetRef(id=entry.id))
        self._path: list[Multihash] = []
        self._upto: Multihash | None = None
        self._named: set[tuple[ObjectKind, Multihash]] | None = None

    def answer(self, message: Message) -> Message | BlockBatch | None:
        match message:
            case DatasetPullRequest():
                return self._plan(message)
            case DatasetPullMetadataRequest():
                return self._batch()
            case DatasetPullObjectsTransferRequest(object_files=files):
                self._refuse_unknown(files)
                return DatasetPullObjectsTransferResponse(
                    object_transfer_strategies=tuple(self._strategies(files))
                )
        return None

    def settle(self) -> None:
        """Do nothing: a pull has no work between its messages."""

    def failure(self, state: State, error: Exception) -> Reply:  # noqa: ARG002
        """Return what the Close frame says about an error: only the phase in which it occurred."""
        return DatasetPullResponse(
            result=Internal(phase=PHASES[state], error_message=INTERNAL_ERROR)
        )

    def _strategies(self, files: Sequence[ObjectFileReference]) -> Iterator[PullStrategy]:
        """Yield how to get each file. The node itself serves the files that have no presigned URL:
        it sends the small ones now, if the client takes them, and spares a request for each."""
        room = INLINE_TOTAL_BYTES if self._inline is not None and self._inline() else 0
        for file in files:
            strategy = self._links.pull(self._dataset.id, file)
            if file.size <= min(room, INLINE_BYTES) and self._is_own(strategy):
                content = self._content(file)
                if content is not None:
                    room -= len(content)
                    url = INLINE + base64.b64encode(content).decode()
                    strategy = replace(strategy, download_from=TransferUrl(url=url, headers=()))
            yield strategy

    def _is_own(self, strategy: PullStrategy) -> bool:
        return strategy.download_from.url.startswith(self._links.dataset_url)

    def _content(self, file: ObjectFileReference) -> bytes | None:
        """Return the bytes of a file; None if it is not whole or not as long as the client says:
        its URL answers with the reason, and heals the file."""
        kind, name = KINDS[file.object_type], file.physical_hash
        try:
            with self._dataset.open_object(kind, name) as stream:
                content = stream.read(file.size + 1)
        except NodeError:
            return None
        is_whole = len(content) == file.size and Multihash.of(content) == name
        return content if is_whole else None

    def _batch(self) -> BlockBatch:
        """Return all announced blocks. Raises `BlockNotFound`."""
        archive = archive_of(chain.from_iterable(self._dataset.raw_pages(self._path)))
        if archive.num_blocks != len(self._path):  # the dataset has been deleted since
            raise BlockNotFound(self._path[0])
        self._path = []
        return BlockBatch(archive, self._encoding)

    def _refuse_unknown(self, files: Sequence[ObjectFileReference]) -> None:
        """Refuse objects that are neither stored here nor named by a block. An object that a block
        names but this node has lost gets a URL: it leads to a 404, and the peer rightly reports
        that
        the source is corrupted.

        Raises:
            ObjectNotFound
        """
        missing = self._links.missing(self._dataset.id, files)
        if not missing:
            return
        if self._named is None:
            blocks = chain.from_iterable(self._dataset.along(self._dataset.path(upto=self._upto)))
            named = chain.from_iterable(named_objects(block.event) for block in blocks)
            self._named = {(one.kind, one.hash) for one in named}
        for key in missing:
            if (key.kind, key.hash) not in self._named:
                raise ObjectNotFound(key.kind, key.hash)

    def _plan(self, request: DatasetPullRequest) -> DatasetPullResponse:
        """Fix the interval and return its plan; force means the whole chain if histories differ."""
        upto, after = request.stop_at or self._dataset.head(), request.begin_after
        self._upto = upto
        try:
            self._path = self._dataset.path(after=after, upto=upto)
        except storage_dataset.InvalidInterval as differ:
            if not request.force_update_if_diverged:
                return DatasetPullResponse(
                    result=InvalidInterval(head=differ.head, tail=differ.tail)
                )
            after = None
            self._path = self._dataset.path(upto=upto)
        except BlockNotFound as missing:
            return DatasetPullResponse(
                result=Internal(phase=INITIAL, error_message=missing.message)
            )
        plan = self._totals(upto) if after is None else None
        if plan is None:
            plan = transfer_plan(chain.from_iterable(self._dataset.along(self._path)))
        return DatasetPullResponse(result=DatasetPullSuccess(transfer_plan=plan))

    def _totals(self, head: Multihash) -> TransferPlan | None:
        """Return the plan of a whole chain from its state, without reading a block."""
        try:
            state = self._dataset.state(head)
        except BadInput:  # a client may pull even a chain that breaks a rule
            return None
        return TransferPlan(
            num_blocks=state.num_blocks,
            num_objects=state.num_objects,
            num_records=state.num_records,
            bytes_in_raw_blocks=state.blocks_size,
            bytes_in_raw_objects=state.data_size + state.checkpoints_size,
        )
