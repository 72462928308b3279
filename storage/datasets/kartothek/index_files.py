"""Files of the node's own index, where somebody else opens them: a store that is only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

from odf_node.protocol.instant import Instant

from ...stores.ports.errors import KeyedFileTooLarge, KeyNotFound
from ...stores.ports.keyed_values import Content, KeyInfo

OpenFile = Callable[[str], BinaryIO | None]
"""A file by its key, to be read from any place; None if there is none."""


class IndexFiles:
    """The files as processes without a store of their own see them."""

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
        """The state of the node's index names every partition: nobody lists."""
        return iter(())
