"""Libraries of the network, and what is built on them, imported when they are first used.

They take longer than all the rest of a command, and many commands print their help or read a
folder without them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast


class Later:
    """A module by its name, which is imported when an attribute of it is first asked for; without
    a part that it can do without (`spared`), which can still be imported afterwards."""

    def __init__(self, name: str, *, spared: str | None = None) -> None:
        self._name, self._spared = name, spared

    def __getattr__(self, attribute: str) -> Any:
        if self._spared is not None and self._name not in sys.modules:
            _import_without(self._name, self._spared)
        return getattr(import_module(self._name, __package__), attribute)


def _import_without(name: str, spared: str) -> None:
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    modules.setdefault(spared, None)  # an import of it fails, as if it were not installed
    try:
        import_module(name)
    finally:
        if modules.get(spared) is None:
            modules.pop(spared, None)


if TYPE_CHECKING:
    import httpx as httpx
    import websockets as websockets

else:
    httpx = Later("httpx", spared="httpx._main")  # its command line loads Rich and Pygments
    websockets = Later("websockets")
