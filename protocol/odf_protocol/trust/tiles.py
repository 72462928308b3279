"""Tiles: the hashes of a log in files of up to 256, and its entries likewise (C2SP tlog-tiles).

    tile/<level>/<number>[.p/<width>]       hashes of subtrees of 256**level leaves
    tile/entries/<number>[.p/<width>]       entries, each behind its length in 2 bytes

A number is written in threes, all but the last behind an x: 1234067 is `x001/x234/067`. A file that
ends in `.p/<width>` is the beginning of one that is not full yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..errors import BadInput
from .merkle import HASH_BYTES, node_hash

HEIGHT = 8
WIDTH = 1 << HEIGHT
MAX_LEVEL = 7
ENTRIES = "entries"
MAX_ENTRY_BYTES = 2**16 - 1
MAX_PATH_CHARS = 60
_PATH = re.compile(
    rf"({ENTRIES}|[0-{MAX_LEVEL}])/((?:x\d{{3}}/){{0,5}}\d{{3}})(?:\.p/([1-9]\d{{0,2}}))?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Tile:
    """The name of a file of hashes, or of entries (`level` is None)."""

    level: int | None
    number: int
    width: int = WIDTH

    @classmethod
    def parse(cls, path: str) -> Tile:
        """Read what follows `tile/`. Raises `MalformedTile`."""
        found = _PATH.fullmatch(path) if len(path) <= MAX_PATH_CHARS else None
        if found is not None:
            level, number, width = found.groups()
            one = cls(
                None if level == ENTRIES else int(level),
                int(number.replace("x", "").replace("/", "")),
                WIDTH if width is None else int(width),
            )
            if one.width <= WIDTH and one.path == path:
                return one
        raise BadInput(
            "MalformedTile", f"a tile is LEVEL/NUMBER or {ENTRIES}/NUMBER: {path[:80]!r}"
        )

    @property
    def path(self) -> str:
        groups = [f"{self.number % 1000:03}"]
        rest = self.number // 1000
        while rest:
            groups.append(f"x{rest % 1000:03}")
            rest //= 1000
        level = ENTRIES if self.level is None else str(self.level)
        partial = "" if self.width == WIDTH else f".p/{self.width}"
        return f"{level}/{'/'.join(reversed(groups))}{partial}"


def tile_of(level: int | None, number: int, size: int) -> Tile:
    """Return the name of a tile in a log of `size` leaves."""
    return Tile(level, number, width_of(level, number, size))


def width_of(level: int | None, number: int, size: int) -> int:
    """Return how many hashes or entries a tile has in a log of `size` leaves, at least 0."""
    return max(0, min(WIDTH, (size >> HEIGHT * (level or 0)) - number * WIDTH))


def tile_nodes(fetch: Callable[[Tile], bytes], size: int) -> Callable[[int, int], bytes]:
    """Return the nodes of a log of `size` leaves, each of whose tiles is fetched once.

    Raises:
        MalformedTile: what is fetched is not as long as the tile.
    """
    known: dict[tuple[int, int], bytes] = {}

    def node(level: int, index: int) -> bytes:
        row, height = divmod(level, HEIGHT)
        first = index << height
        number, at = divmod(first, WIDTH)
        if (row, number) not in known:
            tile = tile_of(row, number, size)
            content = fetch(tile)
            if len(content) != tile.width * HASH_BYTES:
                raise BadInput("MalformedTile", f"tile {tile.path} is not of its length")
            known[row, number] = content
        content = known[row, number]
        hashes = [
            content[place * HASH_BYTES : (place + 1) * HASH_BYTES]
            for place in range(at, at + (1 << height))
        ]
        return complete_root(hashes)

    return node


def complete_root(hashes: list[bytes]) -> bytes:
    """Return the root above 1, 2, 4, … hashes."""
    while len(hashes) > 1:
        hashes = [node_hash(*pair) for pair in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


def bundle(entries: Iterable[bytes]) -> bytes:
    """Return the file of entries."""
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def unbundled(content: bytes) -> list[bytes]:
    """Read a file of entries. Raises `MalformedTile`."""
    entries, at = list[bytes](), 0
    while at < len(content):
        end = at + 2 + int.from_bytes(content[at : at + 2], "big")
        if at + 2 > len(content) or end > len(content) or len(entries) == WIDTH:
            raise BadInput("MalformedTile", "a file of entries ends within one, or has too many")
        entries.append(content[at + 2 : end])
        at = end
    return entries
