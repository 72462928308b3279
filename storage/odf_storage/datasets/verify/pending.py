"""Committed rows that were not hashed yet: a note beside the objects (`info/unverified`).

It is written before the head moves, so that unverified rows never count as verified. A job removes
it, and so does a complete verification that finds nothing wrong. A note that cannot be read counts
as a mark of the whole chain.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from odf_protocol.identity import DatasetId
from odf_protocol.typed import decode_json

from ...stores.objects.layout import MAX_INFO_BYTES
from ...stores.ports import ObjectStore

NOTE = "unverified"


class Unverified(Struct, frozen=True, kw_only=True, rename="camel"):
    """Blocks whose rows were not checked yet: those after `after`, up to `upto`."""

    after: str | None
    """None: from the first block."""
    upto: str | None
    """None: up to the head."""
    since: str | None
    problem: str | None = None
    """Why the rows do not match their blocks, once a check has found it."""
    by: str = ""
    """Identifies the push that wrote the note."""


UNREADABLE = Unverified(
    after=None, upto=None, since=None, problem="the note on unverified rows cannot be read"
)


def write_unverified(objects: ObjectStore, dataset: DatasetId, note: Unverified | None) -> None:
    """Store the note, or remove it if None. The end of a problem that is too long is cut off."""
    raw = b"" if note is None else msgspec.json.encode(note)
    while note is not None and note.problem and len(raw) > MAX_INFO_BYTES:
        note = replace(note, problem=note.problem[: len(note.problem) * 3 // 4])
        raw = msgspec.json.encode(note)
    objects.write_info(dataset, NOTE, raw.decode())


def read_unverified(objects: ObjectStore, dataset: DatasetId) -> Unverified | None:
    """Return the note; None if all rows were checked, before or after their commit."""
    text = objects.read_info(dataset, NOTE)
    if not text:
        return None
    try:
        return decode_json(text.encode(), Unverified)
    except msgspec.MsgspecError:
        return UNREADABLE
