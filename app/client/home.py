"""Whose node a token of the environment is for.

`ODF_NODE_TOKEN` belongs to the node at `ODF_NODE_URL`; without that, to nodes on this machine.
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
    """Whether `address` is on the node at `home`, or on this machine if there is no `home`."""
    there = origin_of(address)
    if there is None:
        return False
    return there.host == _HERE if home is None else there == origin_of(home)


def token_for(address: str) -> str | None:
    """The token of the environment, if it is for the node at `address`."""
    token = os.environ.get(TOKEN)
    return token if token and is_home(address, os.environ.get(HOME)) else None


class Origin(NamedTuple):
    """Scheme, host and port, as two addresses of one node have them."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def origin_of(address: str) -> Origin | None:
    """None for what is no URL. All names of this machine are one."""
    try:
        parts = urlsplit(address.strip().lower().removeprefix("odf+"))
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host:
        return None
    return Origin(parts.scheme, _HERE if host in _LOOPBACK else host, port)
