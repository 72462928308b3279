"""Optional libraries, imported when a call needs them; an error names a missing one."""

from __future__ import annotations

import importlib
from typing import Any


class MissingLibrary(ImportError):
    """A library that this call needs is not installed."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{what} needs {name}: pip install {name}", name=name)


def library(name: str, what: str) -> Any:
    """Import the module of that name. Raises `MissingLibrary`."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != name:
            raise
        raise MissingLibrary(name, what) from None
