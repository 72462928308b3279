"""Hints in a JSON document that it is one page of several: a link to the next, a larger total.

A source that polls the first page of an API would take it for the whole, and a snapshot would
retract the rest. Only objects around the records are looked at, not the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MAX_DEPTH = 3
_NEXT = frozenset(
    {
        *("@odata.nextlink", "odata.nextlink", "@iot.nextlink", "nextlink", "next_link", "next"),
        *("nextpage", "next_page", "next_page_url", "nextpageurl", "next_url", "nexturl"),
        *("nextpagetoken", "next_page_token", "nextcursor", "next_cursor", "resumptiontoken"),
        *("nexttoken", "next_token"),
    }
)
"""Keys, in lower case, whose value leads to more records; an empty one does not."""
_MORE = frozenset(
    {"exceededtransferlimit", "hasmore", "has_more", "hasnext", "has_next", "has_next_page"}
)
"""Keys that are true if there are more records."""
_TOTALS = frozenset(
    {
        *("total", "totalcount", "total_count", "totalresults", "total_results", "totalfeatures"),
        *("totalelements", "total_elements", "totalrecords", "total_records", "total_rows"),
        *("numbermatched", "numfound", "count", "@odata.count", "odata.count", "recordstotal"),
        *("totalitems", "total_items", "nhits", "@iot.count", "hits"),
    }
)
"""Keys whose value may be the number of all records."""
_AROUND = frozenset(
    {
        *("links", "_links", "meta", "metadata", "paging", "pagination", "page", "page_info"),
        *("pageinfo", "properties", "cursor", "cursors", "response", "info"),
    }
)
"""Keys of objects in which such hints are."""


class Pages:
    """Hints met so far. `tell` receives the warnings."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._totals: dict[str, int] = {}

    def met(self, key: str, value: Any, path: str = "", depth: int = 0) -> None:
        """Look at a value beside the records."""
        plain, name = key.lower(), f"{path}{key}"
        if plain in _NEXT and _leads_on(value):
            self._tell(_said(f"`{name}` leads to more records"))
        elif plain in _MORE and value is True:
            self._tell(_said(f"`{name}` is true"))
        elif plain in _TOTALS and type(value) is int:
            self._totals[name] = value
        elif plain in ("links", "link") and isinstance(value, list):
            if any(isinstance(one, dict) and one.get("rel") == "next" for one in value):
                self._tell(_said(f"`{name}` has one of the relation `next`"))
        elif isinstance(value, dict) and depth < MAX_DEPTH and plain in _AROUND:
            for inner, one in value.items():
                self.met(inner, one, f"{name}.", depth + 1)

    def ended(self, records: int) -> None:
        """Compare totals with the number of records of the document."""
        for name, total in self._totals.items():
            if total > records:
                self._tell(_said(f"`{name}` is {total}, and the document has {records} records"))


def _said(hint: str) -> str:
    return f"the document may be one page of several, and only this one is read: {hint}"


def _leads_on(value: Any) -> bool:
    return (isinstance(value, str | dict) or type(value) is int) and value not in ("", 0, {})
