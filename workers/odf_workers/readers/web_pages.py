"""Web pages that come instead of data: a login, a notice, an error that a server answers with 200.

A page is text, so that a reader of CSV would take its lines for rows.
"""

from __future__ import annotations

import re

from odf_protocol.errors import BadInput
from odf_protocol.metadata.reading import ReadStep, ReadStepCsv
from odf_protocol.text_encodings import marked_encoding

BEGIN_BYTES = 1_024
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)"
    rb"[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_NOT_TEXT = re.compile(
    rb"PK\x03\x04|\x1f\x8b|BZh[1-9]|\x28\xb5\x2f\xfd|PAR1|\xd0\xcf\x11\xe0|\xff\xff\xff\xff"
)
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")


class WebPage(BadInput):
    """A web page came instead of data."""


def refuse_page(begin: bytes) -> None:
    """Raise `WebPage` if a file begins as a page, in UTF-8 or another encoding of Unicode."""
    if (encoding := marked_encoding(begin)) is not None:
        begin = begin.decode(encoding, "ignore").encode()
    if _PAGE.match(begin):
        raise web_page(begin)


def web_page(begin: bytes) -> WebPage:
    """Return the error, which shows the beginning."""
    shown = " ".join(begin[:80].decode("utf-8", "replace").split())[:60]
    return WebPage(
        f"the source answers with a web page, not with data; it begins with {shown!r} (if it is "
        "data, the attribute odf-node/contentType: any of the source takes it)"
        if not _PAGE.match(begin)
        else f"the source answers with a web page, not with data; it begins with {shown!r}"
    )


def is_page_type(content_type: str) -> bool:
    """Whether a media type is that of web pages."""
    return content_type.partition(";")[0].strip().lower() in _TYPES


def is_text(begin: bytes, step: ReadStep) -> bool:
    """Whether a file that a server declares to be a page may be one, for all that its beginning
    tells."""
    if _NOT_TEXT.match(begin):
        return False
    return isinstance(step, ReadStepCsv) or not _JSON.match(begin)
