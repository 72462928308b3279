"""Ports for stores of other programs: a folder or a bucket that maps text keys to files.

Several programs may use the store, and files are not named by their hash. A key is a relative
path with slashes; percent signs have no special meaning.

Parameters and results of the keyed stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from .values import BucketPlace


@dataclass(frozen=True, slots=True)
class KeyedContent:
    """A small file. The tag changes whenever the content changes."""

    raw: bytes
    tag: str
    modified: Instant


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A listed file; `size` is in bytes."""

    key: str
    size: int
    modified: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSource:
    """Where the bytes can be read: always as a stream, and if possible as a file or bucket key."""

    open: Callable[[], BinaryIO]
    path: Path | None = None
    place: BucketPlace | None = None
    object_hash: Multihash | None = None
    """Hash of the bytes, if they are an object of this node."""


class KeyedReads(Protocol):
    """Reads the files under keys.

    Every method raises `KeyRefused` for a key that the store cannot have.
    """

    def read(self, key: str, *, most: int) -> KeyedContent | None:
        """Return a whole file of up to `most` bytes, or None. Raises `KeyedFileTooLarge`."""

    def open(self, key: str) -> BinaryIO:
        """Open a file for reading, with seek. Raises `KeyNotFound`."""

    def list(self, folder: str) -> Iterator[KeyInfo]:
        """Yield every key that begins with `folder/`, in no order; none if there is no such key.
        Raises `KeysNotListed` if the store cannot list keys."""


class KeyedStore(KeyedReads, Protocol):
    """Also changes files. A new file appears complete and at once, and replaces its predecessor."""

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
