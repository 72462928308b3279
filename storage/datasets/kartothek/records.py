"""What a publisher remembers of a dataset it published: what it wrote last, what it was writing.

A write is noted before it begins. So a later run knows its own state file, whether or not the run
that wrote it was killed, and which files such a run left behind. Of two runs that note at the
same time one is refused, and has written nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from odf_node.protocol.errors import NodeFault
from odf_node.protocol.typed import decode_json

from ...stores.ports import KeyedStore

MAX_RECORD_BYTES = 256 << 20


class UnreadableRecord(NodeFault):
    """The record of a publication is damaged; a forced publication makes a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One state of the published dataset. Times are nanoseconds since 1970."""

    state_hash: str
    head: str
    config: str
    """The publication it is of, as a hash."""
    schema_hash: str
    rows: Mapping[str, int]
    """Of each partition, by label."""
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Values and bytes of each index, by column."""
    skipped: tuple[str, ...] = ()
    """Columns whose index was too large."""
    keys: tuple[str, ...] = ()
    """Files that were written for it."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Files that are in no state any more, and since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`last` was written; each of `begun` may have been, and may still be."""

    last: Written | None = None
    begun: tuple[Written, ...] = ()

    @property
    def ours(self) -> Mapping[str, Written]:
        """Every state that may stand in the store, by the hash of its file."""
        every = (*(() if self.last is None else (self.last,)), *self.begun)
        return {each.state_hash: each for each in every}


class Records(Protocol):
    """Where the record of one publication is kept."""

    def read(self) -> Record: ...
    def write(self, record: Record) -> None:
        """Replace the record that was read or written last, all at once. Raises `SwapLost`."""

    def remove(self) -> None: ...


def record_key(url: str, uuid: str) -> str:
    """Where the record of what is published at a store is kept, among what is made of a dataset."""
    place = hashlib.sha3_256(f"{url}\n{uuid}".encode()).hexdigest()[:16]
    return f"records/{place}.json"


class KeyedRecords:
    """`Records` in a file of a keyed store, for one run of a publisher."""

    def __init__(self, store: KeyedStore, key: str) -> None:
        self._store, self._key = store, key
        self._tag: str | None = None

    def read(self) -> Record:
        """Nothing was published: an empty record. Raises `UnreadableRecord`."""
        found = self._store.read(self._key, most=MAX_RECORD_BYTES)
        self._tag = None if found is None else found.tag
        if found is None:
            return Record()
        try:
            return decode_json(found.raw, Record)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnreadableRecord(f"{self._key} cannot be read: {error}") from None

    def write(self, record: Record) -> None:
        raw = msgspec.json.encode(record)
        self._tag = self._store.swap(self._key, raw, expected=self._tag)

    def remove(self) -> None:
        self._store.delete([self._key])
