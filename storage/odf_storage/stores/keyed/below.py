"""One folder of a keyed store, presented as a keyed store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

from ..ports import KeyedStore
from ..ports.errors import KeyRefused
from ..ports.keyed_values import Content, KeyInfo, LinkSource


class Below:
    """The keys below `folder` of another `KeyedStore`. Errors name the full keys of that store."""

    def __init__(self, store: KeyedStore, folder: str) -> None:
        self._store, self._prefix = store, f"{folder}/"

    def read(self, key: str, *, most: int) -> Content | None:
        return self._store.read(self._key(key), most=most)

    def open(self, key: str) -> BinaryIO:
        return self._store.open(self._key(key))

    def list(self, folder: str) -> Iterator[KeyInfo]:
        for found in self._store.list(self._key(folder)):
            yield replace(found, key=found.key.removeprefix(self._prefix))

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        self._store.put(self._key(key), chunks)

    def link(self, key: str, source: LinkSource) -> None:
        self._store.link(self._key(key), source)

    def swap(self, key: str, content: bytes, *, expected: str | None) -> str:
        return self._store.swap(self._key(key), content, expected=expected)

    def delete(self, keys: Sequence[str]) -> None:
        self._store.delete([self._key(key) for key in keys])

    def _key(self, key: str) -> str:
        """Return the full key. Raise `KeyRefused` if the key leads out of the folder."""
        if key.startswith("/") or not {".", ".."}.isdisjoint(key.split("/")):
            raise KeyRefused(key, "it is no path below the folder")
        return f"{self._prefix}{key}"
