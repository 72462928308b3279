"""Limits of what a client accepts from a node that it does not trust: counts, bytes, seconds.

Format text for users: foreign text made safe for a terminal, sizes, ages, columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from odf_protocol.codec.blocks import MAX_BLOCK_BYTES
from odf_protocol.errors import LimitExceeded
from odf_protocol.transfer.messages import MAX_MESSAGE_BYTES

MIB = 1024 * 1024
MOST_TAKEN_BACK = 1_000
"""Rows that one call takes back, unless more are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """All limits of a transfer; sizes in bytes, times in seconds."""

    ref_bytes: int = 512
    text_bytes: int = 1 * MIB
    """Limit of a JSON or text response of the HTTP interface."""
    block_bytes: int = MAX_BLOCK_BYTES
    metadata_bytes: int = 1024 * MIB
    """Limit of all blocks of one exchange together."""
    blocks: int = 1_000_000
    attestation_bytes: int = 8 * MIB
    """Limit of one page of attestations."""
    message_bytes: int = MAX_MESSAGE_BYTES
    """Limit of a WebSocket message; a batch takes 3.57 characters per byte."""
    object_bytes: int | None = None
    """Limit of a data slice or checkpoint; None accepts the size in its block."""
    networks: tuple[str, ...] | None = None
    """Address ranges allowed beside the public network; None allows all addresses."""
    connect_s: float = 20.0
    answer_s: float = 120.0
    """Limit of the wait for a whole response head, with its connection and request."""
    whole_s: float | None = None
    """Limit of all requests of one exchange together, bodies included."""
    idle_s: float = 60.0
    """Limit of a pause within an HTTP body."""
    patience_s: float = 120.0
    """Time after which a body must keep the minimum speed below."""
    slowest_bytes_per_s: float = 256.0
    """Minimum speed of a body; the client gives up a slower server."""
    message_s: float = 120.0
    """Limit of the wait for a message of the smart protocol."""
    confirm_s: float = 1800.0
    """Limit of the wait for the confirmation of a push, before which the node checks everything."""
    untaken_s: float = 30.0
    """Time after which a person is told that no worker took a job yet."""
    repeat_s: float = 300.0
    """Time for which a post with a key is repeated after broken connections and 502, 503, 504."""
    reread_s: float = 10.0
    """Time for which a read is repeated if a server before the node answers 502, 503 or 504."""
    rows_message_bytes: int = 512 * MIB
    """Limit of one message of rows that a node sends as Arrow."""
    parallel_simple: int = 10
    parallel_smart: int = 4
    objects_per_request: int = 1000
    resumable_bytes: int = 1 * MIB
    """Size from which objects are uploaded resumably."""
    attempts: int = 3
    """Attempts per object if the connection breaks or the server is overloaded."""


LIMITS = ClientLimits()


def too_much(what: str, limit: int) -> LimitExceeded:
    """The peer sends or announces more than the client accepts."""
    return LimitExceeded(
        "TooMuch", f"{what} is more than this client takes (limit {limit})", what=what, limit=limit
    )


STEP = 1024
UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
AGES = ((86_400 * 365, "y"), (86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
"""Seconds and name of each unit, the largest first."""


def one_line(text: str, limit: int = 300) -> str:
    """Return one line of printable characters, cut at `limit`, so without escape sequences."""
    line = "".join(char if char.isprintable() else " " for char in text[: 4 * limit])
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def pointed(line: str, column: int, width: int = 100) -> tuple[str, str]:
    """Return the part of a line around a column, counted from 1, and a mark below that column."""
    plain = "".join(char if char.isprintable() else " " for char in line)
    start = max(0, column - 1 - width // 2)
    return plain[start : start + width], " " * (column - 1 - start) + "^"


def place_in(text: str, facts: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the line that an error about a text names, and a mark below the column; None if it
    names no place in the text."""
    line, column, lines = facts.get("line"), facts.get("column"), text.split("\n")
    if not isinstance(line, int) or not isinstance(column, int) or not 1 <= line <= len(lines):
        return None
    return pointed(lines[line - 1], column)


def size_text(size: int) -> str:
    """Return a number of bytes with a unit: `1.5 MiB`."""
    if size < STEP:
        return f"{size} B"
    power = min(len(UNITS), (size.bit_length() - 1) // 10)
    return f"{size / STEP**power:.1f} {UNITS[power - 1]}"


HEIGHTS = "▁▂▃▄▅▆▇█"


def spark_text(counts: Sequence[int]) -> str:
    """Return counts as a drawing of one line of text; any count above 0 is visible."""
    most = max(counts, default=0)
    steps = len(HEIGHTS) - 1
    return "".join(HEIGHTS[0 if most < 1 else -(-count * steps // most)] for count in counts)


def age_text(instant: str, now: datetime) -> str:
    """Return the age of an RFC 3339 instant in its largest unit (`3 h`); empty if it is invalid."""
    try:
        seconds = (now - datetime.fromisoformat(instant)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for size, unit in AGES:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"


def in_columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Return one line per row, with cells padded to the width of their column; the columns in
    `right` are right-aligned."""
    lines = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
