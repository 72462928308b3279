"""The last backup of a node, and what failed since: a note beside its objects.

Backups do not contain it, so a restored node begins without one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from odf_protocol.instant import Instant
from odf_protocol.typed import decode_json

from ...stores.keyed.folder import Below
from ...stores.ports import KeyedStore
from ...stores.ports.errors import SwapLost

FOLDER, NOTE = "backups", "last.json"
MOST_NOTE_BYTES = 64 << 10
MOST_PROBLEM_CHARS = 1_000
ATTEMPTS = 5


class LastBackup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last complete backup; if an attempt failed since, when, and why in words."""

    number: int | None = None
    at: str | None = None
    """The moment that it restores."""
    missing: int = 0
    """Objects that the node itself had lost."""
    failed_at: str | None = None
    problem: str | None = None

    def age_s(self, now: Instant) -> float | None:
        """Return the seconds since the moment of the backup; None without one."""
        return None if self.at is None else max(0.0, (now.ns - Instant.parse(self.at).ns) / 1e9)


def last_backup(kept: KeyedStore) -> LastBackup:
    """Return the note; an empty one if there is none, or none that can be read. `kept` has what the
    node keeps beside its objects."""
    return _read(Below(kept, FOLDER))[0]


def note_made(kept: KeyedStore, number: int, at: str, missing: int) -> None:
    """Note a complete backup, after which nothing failed."""
    _change(kept, lambda _: LastBackup(number=number, at=at, missing=missing))


def note_failed(kept: KeyedStore, at: Instant, problem: str) -> None:
    """Note that an attempt failed; `problem` has at most `MOST_PROBLEM_CHARS`."""
    _change(kept, lambda known: msgspec.structs.replace(known, failed_at=str(at), problem=problem))


def _change(kept: KeyedStore, change: Callable[[LastBackup], LastBackup]) -> None:
    notes = Below(kept, FOLDER)
    for _ in range(ATTEMPTS):
        known, tag = _read(notes)
        with suppress(SwapLost):
            notes.swap(NOTE, msgspec.json.encode(change(known)), expected=tag)
            return


def _read(notes: KeyedStore) -> tuple[LastBackup, str | None]:
    kept = notes.read(NOTE, most=MOST_NOTE_BYTES)
    if kept is None:
        return LastBackup(), None
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return decode_json(kept.raw, LastBackup), kept.tag
    return LastBackup(), kept.tag
