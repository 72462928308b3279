"""Stores of other programs: a folder or a bucket that maps text keys to files.

Several programs may use the store; nobody names files by their hash. A key is a relative path
with slashes; percent signs are part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Protocol

from .keyed_values import Content, KeyInfo, LinkSource


class KeyedReads(Protocol):
    """What is under keys.

    Every method raises `KeyRefused` for a key that the store cannot have.
    """

    def read(self, key: str, *, most: int) -> Content | None:
        """A small file, whole, and its tag; None if there is none. Raises `KeyedFileTooLarge`."""

    def open(self, key: str) -> BinaryIO:
        """A file that is read from any place. Raises `KeyNotFound`."""

    def list(self, folder: str) -> Iterator[KeyInfo]:
        """Every key that begins with `folder/`, in no order. Nothing there: nothing is listed.
        Raises `KeysNotListed`: a store that never lists."""


class KeyedWrites(Protocol):
    """Changes. A file appears all at once and whole; what was under its key is replaced."""

    def put(self, key: str, chunks: Iterable[bytes]) -> None: ...
    def link(self, key: str, source: LinkSource) -> None:
        """The bytes of `source` under a key, without reading them where the store can."""

    def swap(self, key: str, content: bytes, *, expected: str | None) -> str:
        """Replace the content of this tag (None: no content); the tag of the new content.

        Of several that swap the same content one wins, wherever the store can tell; a store
        that cannot needs a lock around the call. Raises `SwapLost`.
        """

    def delete(self, keys: Sequence[str]) -> None:
        """The files go; absent ones are no error."""


class KeyedStore(KeyedReads, KeyedWrites, Protocol):
    """What an adapter is."""
