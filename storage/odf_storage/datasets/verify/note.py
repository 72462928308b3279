"""The last validation of a dataset, stored beside its objects (`info/validation`) as a JSON line.

A note is about the chain up to one block; later blocks were not checked.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from odf_protocol.identity import DatasetId
from odf_protocol.typed import decode_json

from ...stores.ports import ObjectStore

NOTE = "validation"


class ValidationNote(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a validation up to a block, with its time and engines."""

    version: Literal[1] = 1
    ok: bool
    block: str
    sequence_number: int
    at: str
    engines: tuple[str, ...] = ()
    """Engines with their versions; empty if no execution had to be repeated."""
    replayed: int = 0
    not_verifiable: int = 0
    problems: int = 0
    warnings: int = 0
    first_problem: str | None = None
    """Kind and block of the first problem."""


def write_note(objects: ObjectStore, dataset: DatasetId, note: ValidationNote) -> None:
    objects.write_info(dataset, NOTE, msgspec.json.encode(note).decode())


def read_note(objects: ObjectStore, dataset: DatasetId) -> ValidationNote | None:
    """Return the note; None if there is none or it is malformed."""
    text = objects.read_info(dataset, NOTE)
    if text is None:
        return None
    try:
        return decode_json(text.encode(), ValidationNote)
    except msgspec.MsgspecError:
        return None
