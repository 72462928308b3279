"""Entity tags in the conditions of requests (RFC 9110, section 13)."""

from __future__ import annotations

WEAK = b"W/"
"""Prefix of a tag that names what an answer says, in any encoding, and not its bytes."""


def is_named(header: bytes, etag: bytes, *, weak: bool) -> bool:
    """Return whether the header, a list of entity tags or `*`, contains this tag. With `weak`,
    the prefix `W/` is ignored in both."""
    tags = [tag.strip() for tag in header.split(b",")]
    if weak:
        tags, etag = [tag.removeprefix(WEAK) for tag in tags], etag.removeprefix(WEAK)
    return b"*" in tags or etag in tags
