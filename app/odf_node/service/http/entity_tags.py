"""Entity tags in the conditions of requests (RFC 9110, section 13)."""

from __future__ import annotations


def is_named(header: bytes, etag: bytes, *, weak: bool) -> bool:
    """Return whether the header, a list of entity tags or `*`, contains this tag. With `weak`,
    the prefix `W/` is ignored."""
    tags = [tag.strip() for tag in header.split(b",")]
    if weak:
        tags = [tag.removeprefix(b"W/") for tag in tags]
    return b"*" in tags or etag in tags
