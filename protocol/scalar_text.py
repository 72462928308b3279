"""Text that UTF-8 has a form for: JSON may name halves of surrogate pairs, which have none."""

from __future__ import annotations


def scalar_text(text: str) -> str:
    """The text, with each half of a surrogate pair as its escape."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def is_scalar_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
