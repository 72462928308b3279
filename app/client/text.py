"""Words of strangers, made fit for a terminal."""

from __future__ import annotations


def one_line(text: str, limit: int = 300) -> str:
    """One line of printable characters, cut at `limit`: no escape sequence gets through."""
    line = "".join(char if char.isprintable() else " " for char in text[: 4 * limit])
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
