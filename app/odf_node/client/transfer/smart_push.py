"""Push by the smart protocol: send the blocks that the node lacks, and upload their objects.

    GET refs/head                      the node's head; if it is ours: no WebSocket
    WebSocket push                     request → batch of blocks → objects request
        uploads, in parallel           see `uploads.py`; progress answered meanwhile
    Complete, commit, confirmation
    Close 1000

The node's progress request and its confirmation are both `{}`. So the client takes a `{}` after the
commit as the confirmation only if the node's chain has our head.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial

from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash
from odf_protocol.transfer.bundle import pack
from odf_protocol.transfer.messages import (
    PUSH_SUCCEEDED,
    Accepted,
    DatasetPushComplete,
    DatasetPushMetadataRequest,
    DatasetPushMetadataResponse,
    DatasetPushObjectsTransferRequest,
    DatasetPushObjectsTransferResponse,
    DatasetPushObjectsUploadProgressResponse,
    DatasetPushRequest,
    DatasetPushResponse,
    ObjectsTransferStrategies,
    Running,
    TransferUrl,
    UploadedSoFar,
)
from odf_protocol.transfer.messages import Visibility as WireVisibility
from odf_protocol.transfer.phases import transfer_plan
from odf_storage.stores.ports.values import Visibility

from ..nodes.http import TransferFailed, open_http
from ..nodes.later import httpx
from ..nodes.limits import LIMITS, ClientLimits
from ..nodes.remotes import Location
from ..nodes.repositories import HttpRepository
from .folder import FolderRepository
from .linked import links_to_push, run_all
from .receive import (
    UNWATCHED,
    ChainReader,
    Diverged,
    NeededObject,
    Outcome,
    Progress,
    SourceObjectMissing,
    check_continues,
    compare,
    object_size_mismatch,
    objects_of,
    refuse_uncommon,
)
from .smart_pull import reference_to, success_of, targets_for
from .socket import ClientConversation, Disconnected, NodeFailed, conversation, error_in_text
from .uploads import Uploader


def push_smart(
    folder: FolderRepository,
    target: Location,
    *,
    token: str | None = None,
    force: bool = False,
    visibility: Visibility = Visibility.PRIVATE,
    create: bool = True,
    limits: ClientLimits = LIMITS,
    progress: Progress = UNWATCHED,
) -> Outcome:
    """Bring the node to the head of the folder; with `create`, create a missing dataset.

    Raises:
        DatasetMissing, ChainRuleBroken, SourceObjectMissing, ObjectSizeMismatch: the folder is
            not valid.
        DestinationAhead, Diverged, HeadMoved, RefCollision, NameCollision, SeedOverwrite,
        Refused, TransferFailed: the node does not accept the push.
    """
    head = folder.head()
    with open_http(limits) as http:
        remote = HttpRepository(target.base, token, http=http, limits=limits)
        there = remote.find_head() if create else remote.head()
        if there == head:
            return Outcome(outcome="up-to-date", old_head=there, new_head=head)
        ours = ChainReader(folder, limits=limits)
        new = _blocks_to_push(ours, head, remote, there, force=force, limits=limits)
        needed = objects_of(new)
        _check_present(folder, needed)
        named = {one.hash for one in needed}
        needed += [one for one in links_to_push(folder, ours, new) if one.hash not in named]
        progress.expect_blocks(len(new))
        exchange = _Exchange(folder, remote, http, limits, progress)
        with conversation(target, "push", token, limits=limits) as talk:
            request = DatasetPushRequest(
                current_head=there,
                transfer_plan=transfer_plan(new),
                force_update_if_diverged=force,
                visibility_for_created_dataset=WireVisibility(visibility.value),
            )
            try:
                sent = exchange.run(talk, request, new, needed)
            except NodeFailed:  # peers do not say why blocks are wrong; our check may
                check_continues((), ours.chain(head))
                raise
    return Outcome(
        outcome="updated",
        old_head=there,
        new_head=head,
        blocks=len(new),
        objects=len(sent),
        bytes=sum(one.size for one in sent),
    )


def _blocks_to_push(
    ours: ChainReader,
    head: Multihash,
    remote: HttpRepository,
    there: Multihash | None,
    *,
    force: bool,
    limits: ClientLimits,
) -> list[HashedBlock]:
    """Return the blocks after the node's head in our chain; the whole chain if the node has none.

    With `force`, return the whole chain also if the node's head is not in it. We check a whole
    chain by the rules here. For a continuation we read only the new blocks, and the node checks.
    """
    new = ours.chain(head, after=there)
    if new[0].prev is not None:
        return new
    if there is not None and not force:
        refuse_uncommon(compare(ours, head, ChainReader(remote, limits=limits), there))
        raise Diverged
    check_continues((), new)
    return new


def _check_present(folder: FolderRepository, needed: Sequence[NeededObject]) -> None:
    """Check before any request that the folder has every needed object in its size."""
    for one in needed:
        size = folder.size_of(one.kind, one.hash)
        if size is None:
            raise SourceObjectMissing(one)
        if size != one.size:
            raise object_size_mismatch(one, size)


class _Exchange:
    """One push of one folder."""

    def __init__(
        self,
        folder: FolderRepository,
        remote: HttpRepository,
        http: httpx.Client,
        limits: ClientLimits,
        progress: Progress,
    ) -> None:
        self._folder, self._remote, self._http = folder, remote, http
        self._limits, self._progress = limits, progress

    def run(
        self,
        talk: ClientConversation,
        request: DatasetPushRequest,
        new: Sequence[HashedBlock],
        needed: Sequence[NeededObject],
    ) -> list[NeededObject]:
        """Run the whole conversation. Return the uploaded objects."""
        talk.send(request)
        success_of(talk.receive(DatasetPushResponse), Accepted)
        talk.send(DatasetPushMetadataRequest(new_blocks=pack(new, encoding=talk.encoding)))
        success_of(talk.receive(DatasetPushMetadataResponse), Accepted)
        for _ in new:
            self._progress.block()
        files = tuple(reference_to(one) for one in needed)
        talk.send(DatasetPushObjectsTransferRequest(object_files=files, is_truncated=False))
        uploads = self._uploads(needed, talk.receive(DatasetPushObjectsTransferResponse))
        self._upload_all(talk, uploads)
        talk.send(DatasetPushObjectsUploadProgressResponse(details="Complete"))
        talk.send(DatasetPushComplete())
        self._progress.committing()
        self._await_commit(talk, new[-1])
        talk.close(PUSH_SUCCEEDED)
        return [one for one, _ in uploads]

    def _uploads(
        self, needed: Sequence[NeededObject], answer: DatasetPushObjectsTransferResponse
    ) -> list[tuple[NeededObject, TransferUrl]]:
        strategies = success_of(answer, ObjectsTransferStrategies).object_transfer_strategies
        uploads = []
        for one, strategy in targets_for(needed, strategies):
            if strategy.push_strategy == "SkipUpload":
                continue
            if strategy.upload_to is None:
                raise TransferFailed(
                    "UnintelligibleAnswer", f"the node wants {one.name}, but says not where"
                )
            uploads.append((one, strategy.upload_to))
        return uploads

    def _upload_all(
        self, talk: ClientConversation, uploads: Sequence[tuple[NeededObject, TransferUrl]]
    ) -> None:
        """Upload in parallel, and answer the node's progress requests from this thread."""
        self._progress.expect_objects(len(uploads), sum(one.size for one, _ in uploads))

        def meanwhile(done: int) -> None:
            while talk.poll(0) is not None:
                running = Running(running=UploadedSoFar(uploaded_objects_count=done))
                talk.send(DatasetPushObjectsUploadProgressResponse(details=running))

        stop = threading.Event()
        base, limits = self._remote.base, self._limits
        uploader = Uploader(self._folder, base, self._http, stop, limits, self._progress)
        run_all(
            [partial(uploader.upload, one, target) for one, target in uploads],
            limits.parallel_smart,
            stop,
            meanwhile=meanwhile,
        )

    def _await_commit(self, talk: ClientConversation, head: HashedBlock) -> None:
        """Wait until the node confirms the commit and its chain has our head."""
        deadline = time.monotonic() + self._limits.confirm_s
        while time.monotonic() < deadline:
            try:
                text = talk.poll(max(0.0, deadline - time.monotonic()))
            except Disconnected:
                break
            if text is None:
                break
            if (error := error_in_text(text)) is not None:
                raise error
            if self._is_committed(head):
                return
            # this `{}` was a progress request that the node sent before it read "Complete"
        if not self._is_committed(head):
            raise TransferFailed(
                "PushUnconfirmed",
                "the node did not confirm the push; push again to find out what became of it",
                head=str(head.hash),
            )

    def _is_committed(self, head: HashedBlock) -> bool:
        """Return whether the node's chain has our head; others may have appended to it."""
        there = self._remote.find_head()
        if there is None or there == head.hash:
            return there is not None
        chain = ChainReader(self._remote, limits=self._limits)
        at: HashedBlock | None = chain.block(there)
        while at is not None and at.sequence_number > head.sequence_number:
            at = chain.before(at)
        return at is not None and at.hash == head.hash
