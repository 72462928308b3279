"""Cursors of lists of datasets: texts that clients send to get the next page."""

from __future__ import annotations

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant, MalformedInstant
from odf_storage.datasets.node.overviews import MAX_NUMBER
from odf_storage.stores.ports.overview_values import After, Listed, Overview, SortBy
from odf_storage.stores.ports.values import DatasetEntry

_BEHIND_VALUE = "~"


class MalformedCursor(BadInput):
    """The parameter `after` is not a `next` of a page of this list."""

    def __init__(self) -> None:
        super().__init__("after is none that a page of this list gave as next; leave it out")


def _value(overview: Overview | None, entry: DatasetEntry, by: SortBy) -> int | Instant | None:
    match by:
        case SortBy.NAME:
            return None
        case SortBy.UPDATED:
            return entry.created_at if overview is None else overview.updated_at
        case SortBy.ROWS:
            return 0 if overview is None else overview.records
        case SortBy.BYTES:
            return 0 if overview is None else overview.data_size


def cursor_behind(last: Listed, by: SortBy) -> str:
    """Return the cursor of the page that begins after this dataset."""
    value = _value(last.overview, last.entry, by)
    alias = last.entry.alias.folded
    return alias if value is None else f"{value}{_BEHIND_VALUE}{alias}"


def read_cursor(after: str, by: SortBy) -> After:
    """Parse a cursor. Raises `MalformedCursor`."""
    if by is SortBy.NAME:
        return After(after)
    text, _, alias = after.partition(_BEHIND_VALUE)
    try:
        value = Instant.parse(text) if by is SortBy.UPDATED else int(text)
    except (MalformedInstant, ValueError):
        raise MalformedCursor from None
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        raise MalformedCursor
    return After(alias, value)
