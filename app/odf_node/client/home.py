"""Decide for which node the token in the environment is.

`ODF_NODE_TOKEN` is for the node at `ODF_NODE_URL`; without that, for nodes on this machine.
"""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import urlsplit

from .environment import HOME, TOKEN

_PORTS = {"http": 80, "https": 443}
_HERE = "127.0.0.1"
_LOOPBACK = frozenset({"localhost", _HERE, "::1"})


def is_home(address: str, home: str | None) -> bool:
    """Return whether `address` is on the node at `home`; on this machine if `home` is None."""
    there = origin_of(address)
    if there is None:
        return False
    return there.host == _HERE if home is None else there == origin_of(home)


def home_node() -> str | None:
    """Return the URL of the person's node, `ODF_NODE_URL`; None if it is not set."""
    return os.environ.get(HOME) or None


def token_for(address: str) -> str | None:
    """Return the token of the environment if it is for the node at `address`."""
    token = os.environ.get(TOKEN)
    return token if token and is_home(address, home_node()) else None


class Origin(NamedTuple):
    """Scheme, host and port, which are equal for all addresses of one node."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def origin_of(address: str) -> Origin | None:
    """Return the origin, or None if the text is no URL. All loopback names count as one host."""
    try:
        parts = urlsplit(address.strip().lower().removeprefix("odf+"))
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host:
        return None
    return Origin(parts.scheme, _HERE if host in _LOOPBACK else host, port)
