"""Fetch the Seed of a remote dataset, which a node needs to create a mirror."""

from __future__ import annotations

from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import Seed
from odf_protocol.transfer.messages import (
    PULL_SUCCEEDED,
    DatasetMetadataPullResponse,
    DatasetPullMetadataRequest,
    DatasetPullRequest,
    DatasetPullResponse,
    DatasetPullSuccess,
)

from .batches import blocks_of, check_plan, success_of
from .http import open_http
from .limits import LIMITS, ClientLimits
from .repositories import HttpRepository
from .socket import UnintelligibleAnswer, conversation
from .urls import Location, Transfer
from .walk import ChainReader


def first_block(
    source: Location, token: str | None = None, *, limits: ClientLimits = LIMITS
) -> tuple[HashedBlock, Seed]:
    """Return the first block, checked to be a Seed.

    Neither protocol can return this block alone.

    Raises:
        DatasetMissing, Refused, TransferFailed, HashMismatch, BlockMissing, TooMuch
    """
    with open_http(limits) as http:
        remote = HttpRepository(source.base, token, http=http, limits=limits)
        head = remote.head()
        if source.transfer is Transfer.SMART:
            first = _of_batch(source, token, limits)
        else:
            first = ChainReader(remote, limits=limits).chain(head)[0]
    if not isinstance(first.event, Seed):
        raise UnintelligibleAnswer("the chain of the remote does not begin with a Seed")
    return first, first.event


def _of_batch(source: Location, token: str | None, limits: ClientLimits) -> HashedBlock:
    with conversation(source, "pull", token, limits=limits) as talk:
        talk.send(DatasetPullRequest(force_update_if_diverged=False))
        plan = success_of(talk.receive(DatasetPullResponse), DatasetPullSuccess).transfer_plan
        check_plan(plan, limits)
        talk.send(DatasetPullMetadataRequest())
        batch = talk.receive(DatasetMetadataPullResponse).blocks
        blocks = blocks_of(batch, limits, encoding=talk.encoding)
        talk.close(PULL_SUCCEEDED)
    if not blocks:
        raise UnintelligibleAnswer("the node has a head, but sends no blocks")
    return blocks[0]
