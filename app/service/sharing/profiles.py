"""Profile files: what a client of Delta Sharing is given to reach this node with a token."""

from __future__ import annotations

from typing import Any

FILE_NAME = "config.share"


def profile_of(base: str, bearer: str) -> dict[str, Any]:
    """Of the first version, which every client reads. `base` has a slash at the end."""
    return {
        "shareCredentialsVersion": 1,
        "endpoint": f"{base}delta-sharing/",
        "bearerToken": bearer,
    }
