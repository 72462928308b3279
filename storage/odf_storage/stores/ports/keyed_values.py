"""Parameters and results of the keyed stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from .values import BucketPlace


@dataclass(frozen=True, slots=True)
class Content:
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
