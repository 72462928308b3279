"""What an event changes of the one before it that said the same kind of thing, line by line.

Pure: events in, lines out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, NamedTuple

from odf_node.protocol.codec.manifests import to_data, to_yaml
from odf_node.protocol.metadata.block import HashedBlock, UnknownEvent
from odf_node.protocol.metadata.events import AddData, ExecuteTransform, Seed

MAX_LINES = 1000
"""Of an event that is compared: the time it takes grows with their square."""
MAX_LINE_CHARS = 400
MAX_CHARS = 200_000
"""Of an event as text; the file of the block holds the rest."""
CONTEXT = 3


class Line(NamedTuple):
    """`sign` is `+` or `-`, a blank for what stayed, `@` where lines were left out."""

    sign: str
    text: str


def event_text(event: Any) -> str:
    """An event as YAML that people read: blanks at the ends of lines do not matter to them, and
    would turn a query into one long line."""
    if isinstance(event, UnknownEvent):
        return f"{event.name or event.discriminator}: {event.detail}\n"
    return to_yaml(_readable(to_data(event)))


def subject_of(event: Any) -> tuple[str, ...] | None:
    """What an event says something of, so that a later one replaces it; None if it adds."""
    if isinstance(event, AddData | ExecuteTransform | Seed | UnknownEvent):
        return None
    source = getattr(event, "source_name", "")
    return (type(event).__name__, source)


def replaced_by(event: Any, older: Iterable[HashedBlock]) -> HashedBlock | None:
    """The newest of the older blocks that says something of the same."""
    subject = subject_of(event)
    if subject is None:
        return None
    return next((one for one in older if subject_of(one.event) == subject), None)


def changes(old: Any, new: Any) -> list[Line] | None:
    """Lines that differ between two events, with some around them; None if they are too long."""
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
