"""A dataset on a node whose whole chain is needed: fetch all blocks in one message.

By the simple protocol a reader learns the hash of each block from the one after it, so a chain of a
thousand blocks takes a thousand requests. Objects are fetched as usual. If the message fails, the
blocks are requested one by one, which shows where the error is.
"""

from __future__ import annotations

import logging
from threading import Lock

import httpx

from odf_protocol.errors import NodeError
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.multihash import Multihash
from odf_protocol.transfer.messages import (
    PULL_SUCCEEDED,
    DatasetMetadataPullResponse,
    DatasetPullMetadataRequest,
    DatasetPullRequest,
    DatasetPullResponse,
    DatasetPullSuccess,
)

from .batches import blocks_of, check_plan, once_each, success_of
from .limits import LIMITS, ClientLimits
from .progress import UNWATCHED, Progress
from .repositories import HttpRepository
from .socket import Conversation, UnintelligibleAnswer, conversation
from .urls import Location

_log = logging.getLogger("odf.client")


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
    talk: Conversation,
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
        raise UnintelligibleAnswer(
            f"the node announced {plan.num_blocks} blocks and sent {len(blocks)}"
        )
    blocks = once_each(blocks)
    for _ in blocks:
        progress.block()
    return blocks
