"""Format text for users: foreign text made safe for a terminal, sizes, ages, columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

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


def size_text(size: int) -> str:
    """Return a number of bytes with a unit: `1.5 MiB`."""
    if size < STEP:
        return f"{size} B"
    power = min(len(UNITS), (size.bit_length() - 1) // 10)
    return f"{size / STEP**power:.1f} {UNITS[power - 1]}"


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
