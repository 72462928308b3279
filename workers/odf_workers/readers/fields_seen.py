"""Fields of JSON records that the schema lacks, and columns that no record has.

Neither is an error: a missing field is null and a surplus one is not stored. But either may be a
misspelt name, so the publisher receives a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_UNKNOWN = 1_000
"""Limit of unknown names that are remembered."""
MAX_REMARKS = 20
SHOWN_NAMES = 10


class FieldsSeen:
    """Field names in the records of a batch so far."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._absent = dict.fromkeys(columns)
        self._columns = frozenset(columns)
        self._unknown: dict[str, None] = {}
        self._remarks: dict[str, None] = {}
        self._any = False

    @property
    def unknown(self) -> bool:
        return bool(self._unknown)

    def note(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Record the names in some records."""
        listed = list(records)
        if listed:
            self.note_names(set().union(*listed))

    def note_names(self, names: Iterable[str]) -> None:
        """Record all names in some records, at least one record."""
        found = set(names)
        self._any = True
        for name in self._absent.keys() & found:
            del self._absent[name]
        for name in sorted(found - self._columns):
            if len(self._unknown) >= MAX_UNKNOWN:
                break
            self._unknown[name] = None

    def absent(self, name: str) -> bool:
        """Whether no record has had the column."""
        return name in self._absent

    def remark(self, text: str) -> None:
        """Record something else to warn of; once, however often it is met."""
        if len(self._remarks) < MAX_REMARKS:
            self._remarks[text] = None

    def follow(self, other: FieldsSeen) -> None:
        """Add the names in later records."""
        self._any |= other._any
        self._absent = {name: None for name in self._absent if name in other._absent}
        for name in other._unknown:
            if len(self._unknown) < MAX_UNKNOWN:
                self._unknown[name] = None
        for text in other._remarks:
            self.remark(text)

    def warnings(self) -> list[str]:
        """Return the warnings for the publisher; call this after all records."""
        told = []
        told += not_stored("fields", self._unknown)
        if self._absent and self._any:
            told.append(f"columns that no record names are null: {_shown(self._absent)}")
        return [*told, *self._remarks]


def not_stored(what: str, names: Iterable[str]) -> list[str]:
    """Return the warning about names in the input that no column has."""
    listed = sorted(names)  # in one order, however the file was cut
    return [f"{what} that the schema does not name are not stored: {_shown(listed)}"] * bool(listed)


def _shown(names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(f"`{_short(name)}`" for name in listed[:SHOWN_NAMES])
    return shown + (", …" if listed[SHOWN_NAMES:] else "")


def _short(name: str) -> str:
    text = name.encode(errors="backslashreplace").decode()
    return text if len(text) <= 100 else text[:100] + "…"
