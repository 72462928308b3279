"""What the last complete verification of a dataset found, as it is shown with the dataset."""

from __future__ import annotations

from typing import Any

import msgspec

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.verify.note import read_note
from odf_node.storage.datasets.verify.pending import read_unverified
from odf_node.storage.stores.ports import DatasetNotes


def validation_of(
    objects: DatasetNotes, dataset: DatasetId, head: Multihash | None
) -> dict[str, Any] | None:
    """Validated up to which block, by which engines, when; None if that never happened."""
    note = read_note(objects, dataset)
    if note is None:
        return None
    shown: dict[str, Any] = msgspec.to_builtins(note)
    shown.pop("version", None)
    return {**shown, "isCurrent": note.block == str(head)}


def unverified_of(objects: DatasetNotes, dataset: DatasetId) -> dict[str, Any] | None:
    """Blocks whose rows count and were not hashed yet; None where there are none."""
    note = read_unverified(objects, dataset)
    return None if note is None else msgspec.to_builtins(note)
