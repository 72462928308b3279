"""Pull by the smart protocol: a plan, one batch with all new blocks, direct downloads.

    GET refs/head                      is there a dataset, and anything new?
    WebSocket pull                     request → plan → batch of blocks
        objects request → URLs         only for objects that the target lacks; a node sends small
                                       ones in their URLs
        downloads, in parallel         hashed while they are written
    blocks and head are written        after every block and object was checked
    Close 1000

The client does not trust the node: it checks hashes, sizes, rules and counts. A plan is only an
announcement.

Convert between the client's values and the messages of the smart protocol.

A dataset on a node whose whole chain is needed: fetch all blocks in one message.

By the simple protocol a reader learns the hash of each block from the one after it, so a chain of a
thousand blocks takes a thousand requests. Objects are fetched as usual. If the message fails, the
blocks are requested one by one, which shows where the error is.
"""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import BinaryIO, TypeVar

import msgspec

from odf_protocol.errors import NodeError
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import HashMismatch, Multihash
from odf_protocol.transfer.bundle import BundleLimits, unpack
from odf_protocol.transfer.messages import (
    BATCH_ENCODING,
    INLINE,
    PULL_SUCCEEDED,
    DatasetMetadataPullResponse,
    DatasetPullMetadataRequest,
    DatasetPullObjectsTransferRequest,
    DatasetPullObjectsTransferResponse,
    DatasetPullRequest,
    DatasetPullResponse,
    DatasetPullSuccess,
    Message,
    MetadataBlocksBatch,
    ObjectFileReference,
    ObjectType,
    PullStrategy,
    PushStrategy,
    Reply,
    TransferPlan,
    TransferUrl,
)
from odf_storage.runtime.clock import without_garbage_collection
from odf_storage.stores.ports.values import ObjectKind

from ..nodes.http import TransferFailed, Unauthenticated, Unauthorized, open_http
from ..nodes.later import httpx
from ..nodes.limits import LIMITS, ClientLimits, too_much
from ..nodes.remotes import Location
from ..nodes.repositories import HttpRepository, open_body
from .linked import Fetcher, Target, UrlExpired, fetch_links, missing_in
from .receive import (
    UNWATCHED,
    ChainReader,
    Diverged,
    NeededObject,
    Outcome,
    Progress,
    compare,
    mismatch,
    objects_of,
    refuse_uncommon,
    while_at,
)
from .socket import ClientConversation, conversation, error_of

_log = logging.getLogger("odf.client")
OBJECT_TYPES: dict[ObjectKind, ObjectType] = {
    ObjectKind.DATA: ObjectType.DataSlice,
    ObjectKind.CHECKPOINT: ObjectType.Checkpoint,
}


M = TypeVar("M", bound=Message)
S = TypeVar("S", PullStrategy, PushStrategy)
"""The node's transfer strategy for one object."""


def success_of(reply: Reply, success: type[M]) -> M:
    """Return the content of `Ok`; raise the content of `Err` as a typed error."""
    result = reply.result
    if isinstance(result, success):
        return result
    facts = msgspec.to_builtins(result, enc_hook=str)
    raise error_of(type(result).__name__, facts)


def blocks_of(
    batch: MetadataBlocksBatch,
    limits: ClientLimits,
    *,
    encoding: str = BATCH_ENCODING,
) -> list[HashedBlock]:
    """Return the blocks of a batch, oldest first, each checked against its hash. A block may be
    there twice, see `once_each`.

    Raises:
        HashMismatch, MalformedBlock, MalformedBundle, BundleTooLarge
    """
    bounds = BundleLimits(max_blocks=limits.blocks, max_inflated=limits.metadata_bytes)
    try:
        with without_garbage_collection():
            return unpack(batch, limits=bounds, encoding=encoding, repeats=True)
    except HashMismatch as error:
        name = f"block {error.expected}"
        raise mismatch(error, name, block=error.expected) from error


def once_each(blocks: Sequence[HashedBlock]) -> list[HashedBlock]:
    """Return the blocks without identical repeats, oldest first. Versions of the reference node
    send the oldest block with data twice if there are a hundred of them, or a multiple of it."""
    found = {block.hash: block for block in blocks}
    if len(found) == len(blocks):
        return list(blocks)
    _log.warning("the node sent %d block(s) twice; they count once", len(blocks) - len(found))
    return sorted(found.values(), key=lambda block: block.sequence_number)


def reference_to(needed: NeededObject) -> ObjectFileReference:
    return ObjectFileReference(
        object_type=OBJECT_TYPES[needed.kind], physical_hash=needed.hash, size=needed.size
    )


def targets_for(
    needed: Sequence[NeededObject], strategies: Iterable[S]
) -> list[tuple[NeededObject, S]]:
    """Return each object with its strategy; the node must answer for exactly these objects."""
    asked = {(reference_to(one).object_type, one.hash): one for one in needed}
    answered: list[tuple[NeededObject, S]] = []
    for strategy in strategies:
        file = strategy.object_file
        one = asked.pop((file.object_type, file.physical_hash), None)
        if one is None:
            raise TransferFailed(
                "UnintelligibleAnswer",
                f"the node answers for {file.object_type.value} {file.physical_hash}, "
                "which was not asked for, or answers twice",
            )
        answered.append((one, strategy))
    if asked:
        forgotten = next(iter(asked.values()))
        raise TransferFailed(
            "UnintelligibleAnswer", f"the node forgot to answer for {forgotten.name}"
        )
    return answered


def check_plan(plan: TransferPlan, limits: ClientLimits) -> None:
    """Refuse a plan above the limits, before any transfer. Raises `TooMuch`."""
    if plan.num_blocks > limits.blocks:
        raise too_much("the announced number of blocks", limits.blocks)
    if plan.bytes_in_raw_blocks > limits.metadata_bytes:
        raise too_much("the announced size of the metadata", limits.metadata_bytes)


class WholeChainRepository(HttpRepository):
    """An `HttpRepository` of a node; the first request for a block fetches all of them."""

    def __init__(
        self,
        location: Location,
        token: str | None = None,
        *,
        http: httpx.Client,
        limits: ClientLimits = LIMITS,
    ) -> None:
        super().__init__(location.base, token, http=http, limits=limits)
        self._location, self._of, self._bounds = location, token, limits
        self._chain: dict[Multihash, bytes] | None = None
        self._asking = Lock()

    def block_bytes(self, block: Multihash) -> bytes:
        with self._asking:
            if self._chain is None:
                self._chain = self._asked()
        raw = self._chain.get(block)
        return super().block_bytes(block) if raw is None else raw

    def _asked(self) -> dict[Multihash, bytes]:
        request = DatasetPullRequest(force_update_if_diverged=False)
        try:
            with conversation(self._location, "pull", self._of, limits=self._bounds) as talk:
                blocks = receive_blocks(talk, request, limits=self._bounds)
                talk.close(PULL_SUCCEEDED)
        except NodeError as error:
            _log.info("blocks are asked for one by one: %s", error)
            return {}
        return {block.hash: block.raw for block in blocks}


def receive_blocks(
    talk: ClientConversation,
    request: DatasetPullRequest,
    *,
    limits: ClientLimits = LIMITS,
    progress: Progress = UNWATCHED,
) -> list[HashedBlock]:
    """Return the blocks of a pull request, oldest first, each checked against its hash."""
    talk.send(request)
    plan = success_of(talk.receive(DatasetPullResponse), DatasetPullSuccess).transfer_plan
    if plan.num_blocks == 0:
        return []
    check_plan(plan, limits)
    progress.expect_blocks(plan.num_blocks)
    talk.send(DatasetPullMetadataRequest())
    batch = talk.receive(DatasetMetadataPullResponse).blocks
    blocks = blocks_of(batch, limits, encoding=talk.encoding)
    if len(blocks) < plan.num_blocks:
        raise TransferFailed(
            "UnintelligibleAnswer",
            f"the node announced {plan.num_blocks} blocks and sent {len(blocks)}",
        )
    blocks = once_each(blocks)
    for _ in blocks:
        progress.block()
    return blocks


def content_of(url: str) -> bytes:
    """Return the bytes of an object that stands in its URL. Raises `UnintelligibleAnswer`."""
    try:
        return base64.b64decode(url[len(INLINE) :], validate=True)
    except ValueError:
        raise TransferFailed(
            "UnintelligibleAnswer", "the node sent an object in a URL that is no base64"
        ) from None


EXPIRED = frozenset({400, 401, 403})
"""Statuses with which object stores refuse an expired URL."""


def pull_smart(
    source: Location,
    target: Target,
    *,
    token: str | None = None,
    force: bool = False,
    limits: ClientLimits = LIMITS,
    progress: Progress = UNWATCHED,
) -> Outcome:
    """Bring the target to the head of the node; readers see the change only at the end.

    Raises:
        DatasetMissing, DestinationAhead, Diverged, SeedOverwrite, ChainRuleBroken,
        HashMismatch, SourceObjectMissing, SourceRewritten, ObjectSizeMismatch, Refused,
        TransferFailed, TooMuch, FolderBusy
    """
    with open_http(limits) as http:
        remote = HttpRepository(source.base, token, http=http, limits=limits)
        head = remote.head()
        with target.locked(), while_at(remote, head):
            old = target.find_head()
            if old == head:
                return Outcome(outcome="up-to-date", old_head=old, new_head=head)
            exchange = _Exchange(target, old, force, http, limits, progress)
            try:
                with conversation(source, "pull", token, limits=limits) as talk:
                    return exchange.run(talk, remote)
            except Diverged:
                raise exchange.how_diverged(remote, head) from None


class _Exchange:
    """One pull into one target, under its lock."""

    def __init__(
        self,
        target: Target,
        old: Multihash | None,
        force: bool,
        http: httpx.Client,
        limits: ClientLimits,
        progress: Progress,
    ) -> None:
        self._target, self._old, self._force = target, old, force
        self._http, self._limits, self._progress = http, limits, progress

    def run(self, talk: ClientConversation, remote: HttpRepository) -> Outcome:
        new = receive_blocks(
            talk,
            DatasetPullRequest(begin_after=self._old, force_update_if_diverged=self._force),
            limits=self._limits,
            progress=self._progress,
        )
        if not new:
            talk.close(PULL_SUCCEEDED)
            if self._old is None:
                raise TransferFailed(
                    "UnintelligibleAnswer", "the node has a head, but announces no blocks"
                )
            return Outcome(outcome="up-to-date", old_head=self._old, new_head=self._old)
        self._target.check(new, old=self._old, force=self._force)
        missing = missing_in(
            self._target, objects_of(new, self._limits), parallel=self._limits.parallel_smart
        )
        self._receive_objects(talk, missing)
        fetched = fetch_links(
            remote,
            self._target,
            new,
            old=self._old,
            limits=self._limits,
            progress=self._progress,
        )
        self._target.move_head(expected=self._old, new=new)
        talk.close(PULL_SUCCEEDED)
        return Outcome(
            outcome="updated",
            old_head=self._old,
            new_head=new[-1].hash,
            blocks=len(new),
            objects=len(missing),
            linked=fetched,
            bytes=sum(one.size for one in missing),
        )

    def how_diverged(self, remote: HttpRepository, head: Multihash) -> NodeError:
        """Explain the node's "invalid interval" by comparing both chains, if they are readable."""
        if self._old is None:
            return Diverged()
        ours = ChainReader(self._target, limits=self._limits)
        try:
            found = compare(ChainReader(remote, limits=self._limits), head, ours, self._old)
        except NodeError:
            return Diverged()
        try:
            refuse_uncommon(found)
        except NodeError as reason:
            return reason
        return Diverged()

    def _receive_objects(self, talk: ClientConversation, missing: Sequence[NeededObject]) -> None:
        self._progress.expect_objects(len(missing), sum(one.size for one in missing))
        step = self._limits.objects_per_request
        for at in range(0, len(missing), step):
            part = list(missing[at : at + step])
            for _ in range(self._limits.attempts):
                part = self._receive_part(talk, part)
                if not part:
                    break
            else:
                raise UrlExpired(
                    f"URLs of the node expire before they can be used, that of {part[0].name} "
                    "among them; are the clocks right?",
                    object=part[0].name,
                )

    def _receive_part(
        self, talk: ClientConversation, part: Sequence[NeededObject]
    ) -> list[NeededObject]:
        """Request URLs and fetch the objects. Return the objects whose URLs had expired."""
        if not part:
            return []
        request = DatasetPullObjectsTransferRequest(
            object_files=tuple(reference_to(needed) for needed in part)
        )
        talk.send(request)
        answer = talk.receive(DatasetPullObjectsTransferResponse)
        urls = {
            needed: strategy.download_from
            for needed, strategy in targets_for(part, answer.object_transfer_strategies)
        }
        return self._fetcher(urls).fetch(part, parallel=self._limits.parallel_smart)

    def _fetcher(self, urls: dict[NeededObject, TransferUrl]) -> Fetcher:
        def open_source(needed: NeededObject) -> BinaryIO:
            target = urls[needed]
            if target.url.startswith(INLINE):
                return io.BytesIO(content_of(target.url))
            headers = [(header.name, header.value) for header in target.headers]
            try:
                return open_body(self._http, target.url, headers, needed.name, limits=self._limits)
            except (Unauthorized, Unauthenticated, TransferFailed) as refused:
                if target.expires_at is not None and refused.facts.get("status") in EXPIRED:
                    raise UrlExpired(f"the URL of {needed.name} is not valid any more") from refused
                raise

        return Fetcher(self._target, open_source, limits=self._limits, progress=self._progress)
