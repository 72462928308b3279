"""The result of the last complete verification, as the description of a dataset shows it."""

from __future__ import annotations

from typing import Any

import msgspec

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_storage.datasets.verify.note import read_note
from odf_storage.datasets.verify.pending import read_unverified
from odf_storage.stores.ports import DatasetNotes


def validation_of(
    objects: DatasetNotes, dataset: DatasetId, head: Multihash | None
) -> dict[str, Any] | None:
    """Return up to which block, with which engines and when it was validated; None if never."""
    note = read_note(objects, dataset)
    if note is None:
        return None
    shown: dict[str, Any] = msgspec.to_builtins(note)
    shown.pop("version", None)
    return {**shown, "isCurrent": note.block == str(head)}


def unverified_of(objects: DatasetNotes, dataset: DatasetId) -> dict[str, Any] | None:
    """Return the committed blocks whose rows are not hashed yet; None if there are none."""
    note = read_unverified(objects, dataset)
    if note is None:
        return None
    return {"after": note.after, "upto": note.upto, "since": note.since, "problem": note.problem}
