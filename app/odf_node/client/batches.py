"""Convert between the client's values and the messages of the smart protocol."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from odf_protocol.metadata.block import HashedBlock
from odf_protocol.multihash import HashMismatch
from odf_protocol.transfer.bundle import BundleLimits, unpack
from odf_protocol.transfer.messages import (
    BATCH_ENCODING,
    Message,
    MetadataBlocksBatch,
    ObjectFileReference,
    ObjectType,
    Reply,
    TransferPlan,
)
from odf_storage.runtime.garbage_collection import without_garbage_collection
from odf_storage.stores.ports.values import ObjectKind

from .limits import ClientLimits, TooMuch
from .receive import NeededObject
from .socket import UnintelligibleAnswer, error_of
from .walk import mismatch

_log = logging.getLogger("odf.client")
OBJECT_TYPES: dict[ObjectKind, ObjectType] = {
    ObjectKind.DATA: ObjectType.DataSlice,
    ObjectKind.CHECKPOINT: ObjectType.Checkpoint,
}


class Strategy(Protocol):
    """The node's transfer strategy for one object."""

    @property
    def object_file(self) -> ObjectFileReference: ...


M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=Strategy)


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
            raise UnintelligibleAnswer(
                f"the node answers for {file.object_type.value} {file.physical_hash}, "
                "which was not asked for, or answers twice"
            )
        answered.append((one, strategy))
    if asked:
        forgotten = next(iter(asked.values()))
        raise UnintelligibleAnswer(f"the node forgot to answer for {forgotten.name}")
    return answered


def check_plan(plan: TransferPlan, limits: ClientLimits) -> None:
    """Refuse a plan above the limits, before any transfer. Raises `TooMuch`."""
    if plan.num_blocks > limits.blocks:
        raise TooMuch("the announced number of blocks", limits.blocks)
    if plan.bytes_in_raw_blocks > limits.metadata_bytes:
        raise TooMuch("the announced size of the metadata", limits.metadata_bytes)
