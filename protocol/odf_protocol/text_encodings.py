"""Names of text encodings: many spellings, one codec.

Sources name the encoding of their files, `.cpg` files that of a shapefile's attributes, each in a
spelling of its own: `ISO-8859-1`, `88591`, `8859-15`, `885915`, `windows-1252`, `ANSI 1252`,
`1252`. Only codecs of this table are used: Python has others, which are no encodings of text or
take far more time than their input has bytes.
"""

from __future__ import annotations

import codecs
import re

UTF8 = "utf-8"
_KNOWN = frozenset(
    {
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "ascii"),
        *(f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))),
        *(f"cp{page}" for page in (*range(1250, 1259), 437, 737, 775, 850, 852, 855)),
        *(f"cp{page}" for page in (857, 858, *range(860, 867), 869, 874, 932, 949, 950)),
        *("gb2312", "gbk", "gb18030", "big5", "big5hkscs", "shift_jis", "euc_jp", "euc_kr"),
        *("koi8-r", "koi8-u", "mac-roman", "tis-620"),
    }
)
"""The names of Python's codecs."""
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""First bytes that tell the encoding; the mark of UTF-32 begins with that of UTF-16."""
_PARTS = re.compile(r"(?:iso)?8859(\d{1,2})")
_PAGE = re.compile(r"(?:windows|ansi|oem|cp|ibm|win)?(\d{3,5})")
_PAGES = {"65001": UTF8, "28591": "iso8859-1", "20127": "ascii", "936": "gbk", "54936": "gb18030"}
"""Code pages of Windows that Python calls otherwise."""


def encoding_of(name: str) -> str | None:
    """Return Python's codec of an encoding; None if the name is not known."""
    plain = re.sub(r"[^a-z0-9]", "", name.strip().lower())
    if part := _PARTS.fullmatch(plain):
        return _codec(f"iso8859-{int(part[1])}")
    if page := _PAGE.fullmatch(plain):
        return _codec(_PAGES.get(page[1], f"cp{page[1]}"))
    return _codec(plain) or _codec(name.strip().lower())


def marked_encoding(begin: bytes) -> str | None:
    """Return the codec that a byte order mark tells, unless that is UTF-8."""
    return next((name for mark, name in BYTE_ORDER_MARKS if begin.startswith(mark)), None)


def _codec(name: str) -> str | None:
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    return found if found in _KNOWN else None
