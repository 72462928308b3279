"""Stores that are gone with their test: objects in memory, everything else in SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock, system_clock
from odf_storage.stores.objects.memory import MemoryObjectStore

_open: list[tuple[Stores, TemporaryDirectory[str]]] = []


def throwaway_stores(*, clock: Clock = system_clock) -> Stores:
    """New and empty; closed by `throwing_away`."""
    folder = TemporaryDirectory(prefix="odf-throwaway-")
    settings = StoreSettings(data=Path(folder.name), durable=False)
    stores = open_stores(settings, repair=False, clock=clock)
    _open.append((stores, folder))
    return replace(stores, objects=MemoryObjectStore())


@contextmanager
def throwing_away() -> Iterator[None]:
    """Stores opened inside are gone at the end."""
    before = len(_open)
    try:
        yield
    finally:
        while len(_open) > before:
            stores, folder = _open.pop()
            stores.close()
            folder.cleanup()
