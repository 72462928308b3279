"""A read-only store of the files of the node's index, which another process opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

from odf_protocol.instant import Instant

from ...stores.ports.errors import KeyedFileTooLarge, KeyNotFound
from ...stores.ports.keyed_values import Content, KeyInfo

OpenFile = Callable[[str], BinaryIO | None]
"""Opens a file by its key, with random access; returns None if there is none."""


class IndexFiles:
    """The files of an index, for processes that have no access to the store."""

    def __init__(self, open_file: OpenFile) -> None:
        self._open = open_file

    def read(self, key: str, *, most: int) -> Content | None:
        stream = self._open(key)
        if stream is None:
            return None
        with stream:
            raw = stream.read(most + 1)
        if len(raw) > most:
            raise KeyedFileTooLarge(key, most)
        return Content(raw, "", Instant(0))

    def open(self, key: str) -> BinaryIO:
        stream = self._open(key)
        if stream is None:
            raise KeyNotFound(key)
        return stream

    def list(self, _: str) -> Iterator[KeyInfo]:
        """List nothing: the state of the node's index names every partition."""
        return iter(())
