"""An index in a keyed store of the live rows of a dataset as of a block, by the hash of the row.

    live/state.json          the note: what is kept, and as of which block
    live/<hash of the file>  a bit for each row, or a segment: pairs (hash, offset), sorted by hash

A hash is of the columns by which rows are matched. Runs of segments of similar size are merged, as
in a merge state. A lookup may find rows that are not live any more; the bits show which are. Files
are named by their content, so that damage is noticed; all of them can be made again from the chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from odf_protocol.errors import Damaged
from odf_protocol.typed import decode_json

from ...runtime.sorted_numbers import among, distinct
from ...stores.ports import KeyedStore
from ..merge_state.comparable import Hashes
from ..merge_state.state import to_merge
from .definition import content_hash

LIVE = "live"
"""Folder of the index."""
_NOTE = f"{LIVE}/state.json"
_MAX_NOTE_BYTES = 64 << 20
_MAX_BITS_BYTES = 512 << 20
SEGMENT_ROWS = 1 << 16
_PAIR = np.dtype([("hash", "<u8"), ("offset", "<i8")])
Offsets = np.ndarray[Any, np.dtype[np.int64]]
Pairs = np.ndarray[Any, np.dtype[np.void]]


class LiveIndexDamaged(Damaged):
    """A file of the index is missing or damaged."""


class _Segment(msgspec.Struct, frozen=True):
    name: str
    rows: int
    first: int
    last: int
    """The least and the greatest hash."""


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    spec: str
    """Hash of the columns by which rows are matched."""
    head: str
    rows: int
    """Number of rows; the index covers all offsets below."""
    unmatched: int
    bits: str
    runs: tuple[tuple[_Segment, ...], ...] = ()

    def names(self) -> set[str]:
        return {self.bits, *(segment.name for run in self.runs for segment in run)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """Live rows up to a block, as bits by offset; `unmatched` counts retractions of nothing."""

    head: str
    stands: np.ndarray[Any, np.dtype[np.bool_]]
    unmatched: int = 0


@dataclass(slots=True)
class LiveIndex:
    """The index for one way to match rows. One run at a time may use it; of two, one fails when it
    saves."""

    store: KeyedStore
    spec: str
    _note: _Note | None = field(default=None, init=False)
    _tag: str | None = field(default=None, init=False)

    def load(self) -> Live | None:
        """Load the live rows; None if nothing is kept. Raise `LiveIndexDamaged`."""
        found = self.store.read(_NOTE, most=_MAX_NOTE_BYTES)
        self._note, self._tag = None, None if found is None else found.tag
        if found is None:
            return None
        try:
            note = decode_json(found.raw, _Note)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LiveIndexDamaged(f"{_NOTE} cannot be read: {error}") from None
        if note.spec != self.spec:
            return None
        size = (note.rows + 7) // 8
        packed = pa.Codec("zstd").decompress(self._file(note.bits), size, asbytes=True)
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=note.rows).astype(bool)
        self._note = note
        return Live(head=note.head, stands=bits, unmatched=note.unmatched)

    def begin_anew(self) -> None:
        """Ignore what is kept; the next `save` replaces it."""
        self._note = None

    def find(self, hashes: Hashes) -> Offsets:
        """Return the sorted offsets of all loaded rows with these hashes; some of them may not be
        live any more. Raise `LiveIndexDamaged`."""
        wanted = distinct(hashes)
        found = [np.zeros(0, np.int64)]
        for segment in (each for run in self._runs for each in run):
            first = np.searchsorted(wanted, np.uint64(segment.first), "left")
            last = np.searchsorted(wanted, np.uint64(segment.last), "right")
            if first < last:
                pairs = self._pairs(segment)
                found.append(pairs["offset"][among(pairs["hash"], wanted[first:last])])
        return distinct(np.concatenate(found))

    def save(self, live: Live, hashes: Hashes, offsets: Offsets) -> None:
        """Save `live`; hashes and offsets are of the rows that `load` did not return. Raise
        `SwapLost` if another run saved meanwhile, `LiveIndexDamaged`."""
        pairs = _sorted(np.rec.fromarrays([hashes, offsets], dtype=_PAIR), live)
        sizes = [*(sum(segment.rows for segment in run) for run in self._runs), len(pairs)]
        count = max(to_merge(sizes), 1)
        kept = self._runs[: len(sizes) - count]
        some = [self._pairs(segment) for run in self._runs[len(kept) :] for segment in run]
        merged = _sorted(np.concatenate([*some, pairs]), live) if some else pairs
        packed = np.packbits(live.stands).tobytes()
        self._collect_unknown()
        note = _Note(
            spec=self.spec,
            head=live.head,
            rows=len(live.stands),
            unmatched=live.unmatched,
            bits=self._put(pa.Codec("zstd").compress(packed, asbytes=True)),
            runs=(*kept, *([tuple(self._segments(merged))] if len(merged) else [])),
        )
        self._tag = self.store.swap(_NOTE, msgspec.json.encode(note), expected=self._tag)
        before = set() if self._note is None else self._note.names()
        self.store.delete([_key(name) for name in sorted(before - note.names())])
        self._note = note

    @property
    def _runs(self) -> tuple[tuple[_Segment, ...], ...]:
        return () if self._note is None else self._note.runs

    def _segments(self, pairs: Pairs) -> Iterator[_Segment]:
        for start in range(0, len(pairs), SEGMENT_ROWS):
            some = pairs[start : start + SEGMENT_ROWS]
            ends = int(some["hash"][0]), int(some["hash"][-1])
            yield _Segment(self._put(some.tobytes()), len(some), *ends)

    def _collect_unknown(self) -> None:
        """If the present note is not used, delete all files but the note: they are of another way
        to match, of a damaged note, or of runs that were killed."""
        if self._note is None:
            listed = [info.key for info in self.store.list(LIVE)]
            self.store.delete([key for key in listed if key != _NOTE])

    def _pairs(self, segment: _Segment) -> Pairs:
        return np.frombuffer(self._file(segment.name), _PAIR)

    def _put(self, raw: bytes) -> str:
        name = content_hash(raw)
        self.store.put(_key(name), (raw,))
        return name

    def _file(self, name: str) -> bytes:
        found = self.store.read(_key(name), most=_MAX_BITS_BYTES)
        if found is None or content_hash(found.raw) != name:
            raise LiveIndexDamaged(f"{_key(name)} is missing or damaged")
        return found.raw


def forget_live(store: KeyedStore) -> None:
    """Delete the index."""
    store.delete([_NOTE])
    store.delete([info.key for info in store.list(LIVE)])


def _key(name: str) -> str:
    return f"{LIVE}/{name}"


def _sorted(pairs: Pairs, live: Live) -> Pairs:
    """Return the pairs of live rows, sorted by hash."""
    some: Pairs = pairs[live.stands[pairs["offset"]]]
    ordered: Pairs = some[np.argsort(some["hash"], kind="stable")]
    return ordered
