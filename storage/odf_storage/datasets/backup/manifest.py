"""What one backup has: tables, chains, objects. A manifest is named by its number and its hash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from odf_protocol.errors import NotFound
from odf_protocol.typed import decode_json

from .place import FILES, FORMAT, MANIFESTS, Place, damaged, digest_of, refuse_newer
from .threads import BackupThreads

MOST_MANIFEST_BYTES = 1 << 30
"""About a million datasets."""
PIECE_BYTES = 8 << 20
"""Size at which a piece of a chain or table ends; one row or block may exceed it."""
MOST_PIECE_BYTES = 1 << 30
MOST_PIECES = 64
"""Each backup may add a piece to a chain or table; more small ones are written anew."""
_NAME = re.compile(r"(\d{8})-([0-9a-f]{32})\.json")


class Piece(msgspec.Struct, frozen=True):
    """A file below `files/`."""

    file: str
    size: int


class DumpedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A dumped table. One that only grows has a piece for each backup that found new rows."""

    name: str
    pieces: list[Piece]
    rows: int
    last: str | None = None
    """Hash of the last row, of a table that only grows."""
    through: int | None = None
    """Number of that row."""
    following: int | None = None
    """The number that the database gives out next, at least."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset, or an account in place of one, with its chain and objects."""

    id: str
    head: str | None = None
    blocks: int = 0
    chain: list[Piece] = []
    objects: Piece | None = None


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One backup."""

    format: int = FORMAT
    number: int
    node: str
    version: str
    schema: str
    at: str
    tables: list[DumpedTable]
    held: list[Held]
    missing: list[str] = []
    """Objects that the node itself had lost: `dataset/kind/hash`."""
    gone: list[str] = []
    """Datasets that were removed while their objects were being copied."""
    keys: str | None = None
    """The node's file of keys in base64, in a sealed backup only."""

    def pieces(self) -> Iterator[Piece]:
        for table in self.tables:
            yield from table.pieces
        for held in self.held:
            yield from held.chain
            if held.objects is not None:
                yield held.objects


@dataclass(frozen=True, slots=True)
class Listed:
    """A backup of a place, not read yet."""

    number: int
    name: str
    size: int


def listed(place: Place) -> list[Listed]:
    """Return the backups of a place, oldest first."""
    found = []
    for key, size in place.sizes(MANIFESTS).items():
        if (match := _NAME.fullmatch(key.rpartition("/")[2])) is not None:
            found.append(Listed(int(match[1]), key, size))
    return sorted(found, key=lambda one: one.number)


def load(place: Place, which: Listed) -> BackupManifest:
    """Read a manifest. Raises `BackupDamaged`, `BackupTooNew`."""
    if which.size > MOST_MANIFEST_BYTES:
        raise damaged(f"{which.name} has {which.size} bytes")
    raw = b"".join(place.chunks(which.name))
    match = _NAME.fullmatch(which.name.rpartition("/")[2])
    if match is None or digest_of(raw)[:32] != match[2]:
        raise damaged(f"{which.name} was changed")
    try:
        refuse_newer(decode_json(raw, _Format).format)
        return decode_json(raw, BackupManifest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise damaged(f"{which.name} cannot be read") from None


class _Format(msgspec.Struct):
    format: int


def chosen(place: Place, number: int | None) -> BackupManifest:
    """Return the newest backup, or that of a number. Raises `NoBackup`, and as `load`."""
    if place.about() is None:
        raise NotFound("NoBackup", "there is no backup here")
    found = [one for one in listed(place) if number in (None, one.number)]
    if not found:
        which = "" if number is None else f" of number {number}"
        raise NotFound("NoBackup", f"there is no complete backup{which} here")
    return load(place, found[-1])


def save(place: Place, manifest: BackupManifest) -> None:
    """Write a manifest, after all that it names."""
    raw = msgspec.json.encode(manifest)
    place.put(f"{MANIFESTS}/{manifest.number:08}-{digest_of(raw)[:32]}.json", [raw])


def is_scattered(pieces: Sequence[Piece]) -> bool:
    """Return whether pieces are so many and small that they should be written anew."""
    return len(pieces) > MOST_PIECES and sum(one.size for one in pieces) < len(pieces) * (1 << 20)


class Pieces:
    """Writes rows or blocks one after the other, in pieces that begin with `first`, beside the work
    of the caller."""

    def __init__(self, place: Place, beside: BackupThreads, first: bytes = b"") -> None:
        self._place, self._beside = place, beside
        self._first, self._raw = first, bytearray()
        self.made: list[Piece] = []

    def add(self, raw: bytes) -> None:
        self._raw += raw if self._raw else self._first + raw
        if len(self._raw) >= PIECE_BYTES:
            self.end()

    def end(self) -> list[Piece]:
        if self._raw:
            raw = bytes(self._raw)
            piece = Piece(digest_of(raw), len(raw))
            self._beside.later(self._place.put, f"{FILES}/{piece.file}", [raw])
            self.made.append(piece)
            self._raw.clear()
        return self.made


def put_piece(place: Place, raw: bytes) -> Piece:
    piece = Piece(digest_of(raw), len(raw))
    place.put(f"{FILES}/{piece.file}", [raw])
    return piece


def read_piece(place: Place, piece: Piece) -> bytes:
    """Return a whole piece. Raises `BackupDamaged`."""
    raw = bytearray()
    for chunk in place.chunks(f"{FILES}/{piece.file}"):
        raw += chunk
        if len(raw) > min(piece.size, MOST_PIECE_BYTES):
            break
    if len(raw) != piece.size or digest_of(bytes(raw)) != piece.file:
        raise damaged(f"{FILES}/{piece.file} was changed, or cut short")
    return bytes(raw)
