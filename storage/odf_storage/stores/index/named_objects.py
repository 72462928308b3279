"""The objects that an event names: data slices and checkpoints, with their declared sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from odf_protocol.metadata.events import AddData, ExecuteTransform, MetadataEvent, UnknownEvent
from odf_protocol.multihash import Multihash

from ..ports.values import ObjectKind


@dataclass(frozen=True, slots=True)
class NamedObject:
    """One object and its declared size in bytes."""

    kind: ObjectKind
    hash: Multihash
    size: int


def named_objects(event: MetadataEvent | UnknownEvent) -> Iterator[NamedObject]:
    """Yield the slice, then the checkpoint, of a data event; nothing for any other event."""
    if not isinstance(event, AddData | ExecuteTransform):
        return
    if (part := event.new_data) is not None:
        yield NamedObject(ObjectKind.DATA, part.physical_hash, part.size)
    if (checkpoint := event.new_checkpoint) is not None:
        yield NamedObject(ObjectKind.CHECKPOINT, checkpoint.physical_hash, checkpoint.size)
