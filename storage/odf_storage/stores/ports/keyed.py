"""Ports for stores of other programs: a folder or a bucket that maps text keys to files.

Several programs may use the store, and files are not named by their hash. A key is a relative
path with slashes; percent signs have no special meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Protocol

from .keyed_values import Content, KeyInfo, LinkSource


class KeyedReads(Protocol):
    """Reads the files under keys.

    Every method raises `KeyRefused` for a key that the store cannot have.
    """

    def read(self, key: str, *, most: int) -> Content | None:
        """Return a whole file of up to `most` bytes, or None. Raises `KeyedFileTooLarge`."""

    def open(self, key: str) -> BinaryIO:
        """Open a file for reading, with seek. Raises `KeyNotFound`."""

    def list(self, folder: str) -> Iterator[KeyInfo]:
        """Yield every key that begins with `folder/`, in no order; none if there is no such key.
        Raises `KeysNotListed` if the store cannot list keys."""


class KeyedWrites(Protocol):
    """Changes files. A new file appears complete and at once, and replaces its predecessor."""

    def put(self, key: str, chunks: Iterable[bytes]) -> None: ...
    def link(self, key: str, source: LinkSource) -> None:
        """Put the bytes of `source` under a key; where the store can, without reading them."""

    def swap(self, key: str, content: bytes, *, expected: str | None) -> str:
        """Replace the content that has the tag `expected` (None: no content); return the new tag.

        Of several concurrent swaps of the same content one succeeds, if the store can compare
        and swap; otherwise the caller needs a lock. Raises `SwapLost`.
        """

    def delete(self, keys: Sequence[str]) -> None:
        """Delete the files; absent files are no error."""


class KeyedStore(KeyedReads, KeyedWrites, Protocol):
    """The complete port that an adapter implements."""
