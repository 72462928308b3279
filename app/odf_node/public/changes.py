"""Changes of a dataset since a position.

Offsets of a changelog begin with 0 and have no gaps, so skipping as many rows as the offset says
gives the rows after it. The block beside the offset shows whether the history is still the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odf_protocol.errors import BadInput, Conflict, NotFound

from ..service.read.read import CHANGELOG, ReadRequest
from .rows import RowSource

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT = re.compile(r"(\d{1,16})(?:@(f1620[0-9a-f]{64}))?")


class MalformedPosition(BadInput):
    """A text that is not a position of a dataset."""


class HistoryReplaced(Conflict):
    """The history of the dataset was replaced, so rows read before may no longer be in it."""


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset, and the block as of which the earlier rows were read."""

    offset: int = 0
    block: str | None = None

    @classmethod
    def of(cls, since: Position | str | int) -> Position:
        """Parse a position. Raises `MalformedPosition`."""
        if isinstance(since, Position):
            return since
        found = _TEXT.fullmatch(str(since))
        if found is None:
            raise MalformedPosition(f"{str(since)[:100]!r} is no offset and no OFFSET@BLOCK")
        return cls(int(found[1]), found[2])

    def __str__(self) -> str:
        return str(self.offset) if self.block is None else f"{self.offset}@{self.block}"


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows as they were written (column `op` has their operation), and the position from which to
    continue."""

    rows: pa.Table
    position: Position


def changes_since(
    source: RowSource, at: str | None, since: Position, *, limit: int | None = None
) -> Changes:
    """Return the first `limit` rows from a position on. Raises `HistoryReplaced`."""
    require_same_history(source, since)
    request = ReadRequest(as_at=at, projection=CHANGELOG, skip=since.offset, limit=limit)
    with source.rows(request) as rows:
        table = rows.reader.read_all()
        return Changes(table, Position(since.offset + table.num_rows, rows.block))


def require_same_history(source: RowSource, since: Position) -> None:
    """Check that the block of the position is still in the chain. Raises `HistoryReplaced`."""
    if since.block is None:
        return
    try:
        with source.rows(ReadRequest(as_at=since.block, projection=CHANGELOG, limit=0)):
            return
    except NotFound as gone:
        if gone.facts.get("block") != since.block:
            raise
        raise HistoryReplaced(
            f"block {since.block}, up to which changes were read, is not in the dataset any more: "
            "its history was replaced; read it from the beginning",
            block=since.block,
        ) from gone
