"""Limits of texts that strangers send, checked before anything reads them.

What reads a text within its limit takes time in proportion to its length
(`tests/architecture/test_growth.py` measures it), or does so in a reader process.
"""

from __future__ import annotations

from dataclasses import dataclass

from odf_protocol.errors import BadInput

MARKDOWN_CHARS = 50_000
"""Limit of a Markdown document that pages show as such; longer ones are shown as plain text."""
LINEAGE_SQL_CHARS = 100_000
"""Limit of the queries of a derivative whose column lineage is computed; else it is unknown."""


def text_too_long(limit: TextLimit, found: int) -> BadInput:
    """A text is longer than its limit."""
    named = "" if limit.setting is None else f" ({limit.setting})"
    return BadInput(
        "TextTooLong",
        f"the {limit.what} is {found} bytes long; {limit.most} are possible{named}",
        limit=limit.most,
        setting=limit.setting,
    )


@dataclass(frozen=True, slots=True)
class TextLimit:
    """The limit of one kind of text, in bytes of UTF-8."""

    what: str
    most: int
    setting: str | None = None

    def check(self, text: str) -> None:
        """Raise `TextTooLong` if the text exceeds the limit."""
        # No character takes less than a byte, so a very long text is refused without a copy.
        found = len(text)
        if found <= self.most:
            found = len(text.encode("utf-8", "surrogatepass"))
        self.check_size(found)

    def check_size(self, found: int) -> None:
        """Raise `TextTooLong` if so many bytes exceed the limit."""
        if found > self.most:
            raise text_too_long(self, found)


PATTERN = TextLimit("pattern", 200)
"""A pattern of names in a call of Flight SQL."""


def query_values(most: int) -> TextLimit:
    """Return the limit of the values of a query's parameters, as Arrow has them."""
    return TextLimit("message with the values of the query", most, "ODF_NODE_QUERY_TEXT_BYTES")


def query_text(most: int) -> TextLimit:
    """Return the limit of the text of a query of readers, for all ways in which it arrives."""
    return TextLimit("query", most, "ODF_NODE_QUERY_TEXT_BYTES")
