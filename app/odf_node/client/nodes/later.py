"""Libraries of the network, and what is built on them, imported when they are first used.

They take longer than all the rest of a command, and many commands print their help or read a
folder without them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class Later:
    """A module by its name, which is imported when an attribute of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name, __package__), attribute)


if TYPE_CHECKING:
    import httpx as httpx
    import websockets as websockets

    from . import reach as reach
else:
    httpx = Later("httpx")
    websockets = Later("websockets")
    reach = Later(".reach")
