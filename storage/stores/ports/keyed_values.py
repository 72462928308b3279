"""What keyed stores take and give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash

from .values import BucketPlace


@dataclass(frozen=True, slots=True)
class Content:
    """A small file. The tag changes with the content."""

    raw: bytes
    tag: str
    modified: Instant


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A listed file; size in bytes."""

    key: str
    size: int
    modified: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSource:
    """Where bytes are: a file of this machine, a key in a bucket, a stream for everybody else."""

    open: Callable[[], BinaryIO]
    path: Path | None = None
    place: BucketPlace | None = None
    object_hash: Multihash | None = None
    """Of the bytes, where they are an object of this node."""
