"""Committed rows that were not hashed yet: a note beside the objects (`info/unverified`).

It is written before the head moves, so that unverified rows never count as verified. A job removes
it, and so does a complete verification that finds nothing wrong.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.typed import decode_json

from ...stores.ports import DatasetNotes

NOTE = "unverified"


class Unverified(Struct, frozen=True, kw_only=True, rename="camel"):
    """Blocks whose rows were not checked yet: those after `after`, up to `upto`."""

    after: str | None
    """None: from the first block."""
    upto: str
    since: str
    problem: str | None = None
    """Why the rows do not match their blocks, once a check has found it."""


def write_unverified(objects: DatasetNotes, dataset: DatasetId, note: Unverified | None) -> None:
    text = "" if note is None else msgspec.json.encode(note).decode()
    objects.write_info(dataset, NOTE, text)


def read_unverified(objects: DatasetNotes, dataset: DatasetId) -> Unverified | None:
    """Return the note; None if all rows were checked, before or after their commit."""
    text = objects.read_info(dataset, NOTE)
    if not text:
        return None
    try:
        return decode_json(text.encode(), Unverified)
    except msgspec.MsgspecError:
        return None
