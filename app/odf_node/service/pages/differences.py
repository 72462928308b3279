"""The differences between an event and the earlier event that it replaces, line by line.

The functions are pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, NamedTuple

from odf_protocol.codec.manifests import to_data, to_yaml
from odf_protocol.metadata.block import HashedBlock, UnknownEvent
from odf_protocol.metadata.events import AddData, ExecuteTransform, Seed

MAX_LINES = 1000
"""Limit of lines of a compared event: the time grows with their square."""
MAX_LINE_CHARS = 400
MAX_CHARS = 200_000
"""Limit of characters of an event as text; the file of the block has the rest."""
CONTEXT = 3


class Line(NamedTuple):
    """A line of a difference. `sign` is `+` or `-`, a blank for an unchanged line, or `@` where
    lines were left out."""

    sign: str
    text: str


def event_text(event: Any) -> str:
    """Return an event as readable YAML, without blanks at the ends of lines: these would make
    YAML write a query as one long line."""
    if isinstance(event, UnknownEvent):
        return f"{event.name or event.discriminator}: {event.detail}\n"
    return to_yaml(_readable(to_data(event)))


def subject_of(event: Any) -> tuple[str, ...] | None:
    """Return what an event defines, so that a later one replaces it; None if it only adds."""
    if isinstance(event, AddData | ExecuteTransform | Seed | UnknownEvent):
        return None
    source = getattr(event, "source_name", "")
    return (type(event).__name__, source)


def replaced_by(event: Any, older: Iterable[HashedBlock]) -> HashedBlock | None:
    """Return the newest of the older blocks that defines the same subject."""
    subject = subject_of(event)
    if subject is None:
        return None
    return next((one for one in older if subject_of(one.event) == subject), None)


def changes(old: Any, new: Any) -> list[Line] | None:
    """Return the lines that differ, with context lines; None if the events are too long."""
    before, after = (event_text(each).splitlines() for each in (old, new))
    if max(len(before), len(after)) > MAX_LINES:
        return None
    found = difflib.unified_diff(before, after, n=CONTEXT, lineterm="")
    return [_line(text) for text in list(found)[2:]]


def _line(text: str) -> Line:
    if text.startswith("@@"):
        return Line("@", "")
    cut = text[1:]
    return Line(text[0], cut if len(cut) <= MAX_LINE_CHARS else cut[: MAX_LINE_CHARS - 1] + "…")


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, str) and "\n" in value:
        return "\n".join(line.rstrip().expandtabs(4) for line in value.splitlines())
    return value
