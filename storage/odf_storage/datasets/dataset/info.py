"""The part of a registry entry that is stored beside the objects, to rebuild an index from.

`info/alias` holds the name, as ODF has it; the rest is in `info/node`, one line of JSON:

    {"version":1,"visibility":"Public","createdAt":"2026-01-01T12:00:00Z","pushed":true,
     "unfinished":true}

Objects as hashed local files: in place if the store keeps files, else as copies.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ...stores.ports import ObjectStore
from ...stores.ports.values import DatasetEntry, ObjectKind, Visibility
from .dataset import Dataset

NODE = "node"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """The facts of an entry that neither the chain nor the alias contains."""

    visibility: Visibility
    created_at: Instant
    pushed: bool = False
    """Whether a push created the dataset."""
    unfinished: bool = False
    """Whether that push announced more blocks than the Seed, and no push of them has ended."""

    def dump(self) -> str:
        return json.dumps(
            {
                "version": VERSION,
                "visibility": self.visibility.value,
                "createdAt": str(self.created_at),
                "pushed": self.pushed,
                "unfinished": self.unfinished,
            },
            separators=(",", ":"),
        )


def load_info(text: str | None) -> NodeInfo | None:
    """Parse the text of `NodeInfo.dump`; return None for no text and for text of another form."""
    try:
        data = json.loads(text or "null")
        if not isinstance(data, dict) or data.get("version") != VERSION:
            return None
        return NodeInfo(
            visibility=Visibility(data["visibility"]),
            created_at=Instant.parse(data["createdAt"]),
            pushed=data.get("pushed") is True,
            unfinished=data.get("unfinished") is True,
        )
    except (BadInput, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_info(objects: ObjectStore, dataset: DatasetId) -> NodeInfo | None:
    return load_info(objects.read_info(dataset, NODE))


def write_info(
    objects: ObjectStore, entry: DatasetEntry, *, pushed: bool, unfinished: bool = False
) -> None:
    info = NodeInfo(
        visibility=entry.visibility,
        created_at=entry.created_at,
        pushed=pushed,
        unfinished=unfinished,
    )
    objects.write_info(entry.id, NODE, info.dump())


COPY_BYTES = 1 << 20
SPOOL_BYTES = 16 << 20
"""Copies up to this size in bytes stay in memory."""


def local_file(dataset: Dataset, kind: ObjectKind, content: Multihash, folder: Path) -> Path:
    """Return the object as a file: in place if the store keeps files, else a copy in `folder`. Its
    bytes were hashed, also those of a copy that existed already.

    Raises:
        ObjectNotFound: the dataset has no such upload.
        ObjectDamaged, ObjectHealing: a slice or checkpoint is damaged or missing.
    """
    return dataset.whole_file(kind, content, folder / str(content))


def chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks."""
    with path.open("rb") as stream:
        while chunk := stream.read(COPY_BYTES):
            yield chunk


@contextmanager
def read_anywhere(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield the stream, or a copy of it, as a file with random access."""
    if stream.seekable():
        yield stream
        return
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as copy:
        shutil.copyfileobj(stream, copy, COPY_BYTES)
        copy.seek(0)
        yield copy  # type: ignore[misc]
