"""Replaces halves of surrogate pairs, which JSON text may contain and UTF-8 cannot encode."""

from __future__ import annotations


def scalar_text(text: str) -> str:
    """Return the text with each half of a surrogate pair replaced by its escape sequence."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def is_scalar_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
