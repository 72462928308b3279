"""Profile files, with which a client of Delta Sharing reaches this node by a token."""

from __future__ import annotations

from typing import Any

FILE_NAME = "config.share"


def profile_of(base: str, bearer: str) -> dict[str, Any]:
    """Return a profile of version 1, which every client reads. `base` has a slash at the end."""
    return {
        "shareCredentialsVersion": 1,
        "endpoint": f"{base}delta-sharing/",
        "bearerToken": bearer,
    }
