"""News after a position: of one dataset by its chain, of the whole node by the log of head moves.

Listeners at the same position share one lookup. Clients send a position back as `Last-Event-ID`,
so any process of the node can resume a stream where it broke off.

Positions in the log of the node as clients write them: sealed, since the log counts the moves of
all datasets, those that a listener may not read, too.

The cipher is AES-SIV, with keys derived from those of the node's secrets: an event has the same id
for every listener. Positions at which streams begin have a salt, so that two of them do not tell
whether anything happened between them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import MalformedHash, MalformedMultibase, Multihash
from odf_storage.datasets.node.reader import Reader, Reading
from odf_storage.runtime.clock import Random
from odf_storage.stores.index.sql import RefIndex
from odf_storage.stores.objects.layout import HEAD
from odf_storage.stores.ports.values import DatasetEntry, HeadMoved
from odf_storage.stores.registers.accounts.sealing import SecretKeys

from .notices import NewsNotice, block_notice, reset_notice

BLOCKS_A_PAGE = 200
MOVES_A_PAGE = 100
BEGINNING = "beginning"
"""The position before the first block."""
Shown = Callable[[DatasetEntry], str]
"""Returns the alias of a dataset as clients write it."""
Named = Callable[["LogPosition"], str]
"""Returns a position of the log as clients write it."""


def invalid_position(text: str) -> BadInput:
    """The `Last-Event-ID` is not one that a stream at this address has sent."""
    return BadInput(
        "InvalidPosition",
        f"{text[:100]!r} is no position of this stream; send the id of its last event, or "
        f"{BEGINNING!r}",
    )


class ChainPosition(NamedTuple):
    """The position after a block of a dataset; None means before the first block."""

    dataset: DatasetId
    block: Multihash | None

    @classmethod
    def parse(cls, dataset: DatasetId, text: str) -> ChainPosition:
        """Parse the id of an event. Raises `InvalidPosition`."""
        return cls(dataset, None if text == BEGINNING else _hash(text))


class LogPosition(NamedTuple):
    """The position after a line of the log; with a block, after that block of the line."""

    number: int
    block: Multihash | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """The next notices, and the position after them; `is_last` if nothing newer exists yet."""

    notices: Sequence[NewsNotice]
    position: ChainPosition | LogPosition
    is_last: bool


@dataclass(frozen=True)
class ChainFeed:
    """News of single datasets. One `reset` notice reports a rewritten history."""

    reading: Reading
    shown: Shown

    def pages(self, positions: Sequence[ChainPosition]) -> list[Page | Exception]:
        with self.reading() as reader:
            ids = {position.dataset for position in positions}
            entries = reader.registry.find_all(ids)
            heads = reader.refs.heads(ids)
            found = {
                position: self._page(
                    reader, position, entries.get(position.dataset), heads.get(position.dataset)
                )
                for position in set(positions)
            }
        return [found[position] for position in positions]

    def _page(
        self,
        reader: Reader,
        position: ChainPosition,
        entry: DatasetEntry | None,
        head: Multihash | None,
    ) -> Page:
        if entry is None or head is None or head == position.block:
            return Page((), position, is_last=True)
        blocks = reader.blocks.behind(entry.id, position.block, head, limit=BLOCKS_A_PAGE)
        alias = self.shown(entry)
        if blocks is None:
            notice = reset_notice(entry, alias, head, str(head))
            return Page([notice], ChainPosition(entry.id, head), is_last=True)
        notices = [block_notice(entry, alias, block, str(block.hash)) for block in blocks]
        last = blocks[-1].hash
        return Page(notices, ChainPosition(entry.id, last), is_last=last == head)


@dataclass(frozen=True)
class LogFeed:
    """News of all datasets, in the order of the log."""

    moves: RefIndex
    reading: Reading
    shown: Shown
    named: Named

    def pages(self, positions: Sequence[LogPosition]) -> list[Page | Exception]:
        found: dict[LogPosition, Page | Exception] = {}
        for position in set(positions):
            found[position] = self._page(position)
        return [found[position] for position in positions]

    def _page(self, position: LogPosition) -> Page:
        is_partial = position.block is not None
        after = position.number - 1 if is_partial else position.number
        moves = self.moves.moves(after=after, limit=MOVES_A_PAGE)
        notices: list[NewsNotice] = []
        with self.reading() as reader:
            entries = reader.registry.find_all({move.dataset for move in moves})
            for move in moves:
                room = BLOCKS_A_PAGE - len(notices)
                if room == 0:
                    return Page(notices, position, is_last=False)
                start = position.block if move.number == position.number else move.old
                entry = entries.get(move.dataset)
                if entry is not None and move.ref == HEAD:
                    told, cut = self._told(reader, entry, move, start, room)
                    notices += told
                    if cut is not None:
                        return Page(notices, cut, is_last=False)
                position = LogPosition(move.number)
        return Page(notices, position, is_last=len(moves) < MOVES_A_PAGE)

    def _told(
        self,
        reader: Reader,
        entry: DatasetEntry,
        move: HeadMoved,
        start: Multihash | None,
        room: int,
    ) -> tuple[list[NewsNotice], LogPosition | None]:
        """Return notices of one line of the log, and the position after them if more follow."""
        blocks = reader.blocks.behind(entry.id, start, move.new, limit=room)
        alias, end = self.shown(entry), LogPosition(move.number)
        if blocks is None:
            return [reset_notice(entry, alias, move.new, self.named(end))], None
        notices, behind = [], end
        for block in blocks:
            behind = end if block.hash == move.new else LogPosition(move.number, block.hash)
            notices.append(block_notice(entry, alias, block, self.named(behind)))
        return notices, None if behind == end else behind


def _hash(text: str) -> Multihash:
    try:
        return Multihash.parse(text)
    except (MalformedHash, MalformedMultibase):
        raise invalid_position(text) from None


NUMBER_BYTES, SALT_BYTES, TAG_BYTES = 8, 8, 16
OF_EVENT = bytes(SALT_BYTES)
"""The salt of positions that events have."""


@dataclass(frozen=True)
class SealedPositions:
    """Writes positions by the newest key of the node, and reads them by all its keys."""

    keys: SecretKeys
    random: Random

    def of_event(self, position: LogPosition) -> str:
        return self._sealed(position, OF_EVENT)

    def of_start(self, position: LogPosition) -> str:
        """Write the position at which a stream begins."""
        return self._sealed(position, self.random(SALT_BYTES))

    def parse(self, text: str) -> LogPosition:
        """Read the id of an event. Raises `InvalidPosition`."""
        if text == BEGINNING:
            return LogPosition(0)
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise invalid_position(text) from None
        for key in self.keys.keys.values():
            try:
                plain = _cipher(key).decrypt_and_verify(raw[TAG_BYTES:], raw[:TAG_BYTES])
                return _read(bytes(plain))
            except (ValueError, MalformedHash, MalformedMultibase):
                continue
        raise invalid_position(text)

    def _sealed(self, position: LogPosition, salt: bytes) -> str:
        block = "" if position.block is None else str(position.block)
        plain = position.number.to_bytes(NUMBER_BYTES) + salt + block.encode()
        content, tag = _cipher(self.keys.keys[self.keys.newest]).encrypt_and_digest(plain)
        return base64.urlsafe_b64encode(tag + content).rstrip(b"=").decode()


def _read(plain: bytes) -> LogPosition:
    number, block = plain[:NUMBER_BYTES], plain[NUMBER_BYTES + SALT_BYTES :].decode()
    return LogPosition(int.from_bytes(number), Multihash.parse(block) if block else None)


def _cipher(key: bytes) -> Any:
    from Crypto.Cipher import AES  # slow to import, and rarely needed

    return AES.new(_derived(key), AES.MODE_SIV)


@lru_cache(maxsize=16)
def _derived(key: bytes) -> bytes:
    return hashlib.sha3_512(b"positions of events:" + key).digest()
