"""Pull by the smart protocol: a plan, one batch with all new blocks, direct downloads.

    GET refs/head                      is there a dataset, and anything new?
    WebSocket pull                     request → plan → batch of blocks
        objects request → URLs         only for objects that the target lacks
        downloads, in parallel         hashed while they are written
    blocks and head are written        after every block and object was checked
    Close 1000

The client does not trust the node: it checks hashes, sizes, rules and counts. A plan is only an
announcement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import httpx

from odf_protocol.errors import NodeError
from odf_protocol.multihash import Multihash
from odf_protocol.transfer.messages import (
    PULL_SUCCEEDED,
    DatasetPullObjectsTransferRequest,
    DatasetPullObjectsTransferResponse,
    DatasetPullRequest,
    TransferUrl,
)

from .batches import reference_to, targets_for
from .http import TransferFailed, Unauthenticated, Unauthorized, open_http
from .limits import LIMITS, ClientLimits
from .linked import fetch_links
from .objects import Fetcher, UrlExpired, missing_in
from .progress import UNWATCHED, Progress
from .receive import Diverged, NeededObject, Outcome, objects_of, refuse_uncommon, while_at
from .repositories import HttpRepository, open_body
from .socket import Conversation, UnintelligibleAnswer, conversation
from .target import Target
from .urls import Location
from .walk import ChainReader, compare
from .whole_chain import receive_blocks

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

    def run(self, talk: Conversation, remote: HttpRepository) -> Outcome:
        new = receive_blocks(
            talk,
            DatasetPullRequest(begin_after=self._old, force_update_if_diverged=self._force),
            limits=self._limits,
            progress=self._progress,
        )
        if not new:
            talk.close(PULL_SUCCEEDED)
            if self._old is None:
                raise UnintelligibleAnswer("the node has a head, but announces no blocks")
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

    def _receive_objects(self, talk: Conversation, missing: Sequence[NeededObject]) -> None:
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

    def _receive_part(self, talk: Conversation, part: Sequence[NeededObject]) -> list[NeededObject]:
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
            headers = [(header.name, header.value) for header in target.headers]
            try:
                return open_body(self._http, target.url, headers, needed.name, limits=self._limits)
            except (Unauthorized, Unauthenticated, TransferFailed) as refused:
                if target.expires_at is not None and refused.facts.get("status") in EXPIRED:
                    raise UrlExpired(f"the URL of {needed.name} is not valid any more") from refused
                raise

        return Fetcher(self._target, open_source, limits=self._limits, progress=self._progress)
