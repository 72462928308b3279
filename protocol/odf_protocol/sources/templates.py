"""Templates in definitions of sources: `${{ env.NAME || 'text' || 1 }}`, and where they stand.

Source: ODF data plane notes, "Templates".
"""

from __future__ import annotations

from collections.abc import Iterator

OPEN, CLOSE = "${{", "}}"


def templates(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions where templates open and close; a single brace closes none.

    The scan ends where no brace follows, so it takes time in proportion to the text.
    """
    at = 0
    while (begin := text.find(OPEN, at)) >= 0 and (end := text.find("}", begin)) >= 0:
        closes = text.startswith(CLOSE, end)
        if closes:
            yield begin, end
        at = end + (len(CLOSE) if closes else 1)
