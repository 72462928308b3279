"""What a publisher remembers of a dataset it published: what it wrote last, what it was writing.

A write is noted before it begins. So a later run knows its own state file, whether or not the run
that wrote it was killed, and which files such a run left behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from odf_node.protocol.errors import NodeFault
from odf_node.protocol.typed import decode_json

from ...stores.objects import files

MAX_RECORD_BYTES = 256 << 20


class UnreadableRecord(NodeFault):
    """The record of a publication is damaged; a forced publication makes a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One state of the published dataset. Times are nanoseconds since 1970."""

    state_hash: str
    head: str
    config: str
    """The publication it is of, as a hash."""
    schema_hash: str
    rows: Mapping[str, int]
    """Of each partition, by label."""
    skipped: tuple[str, ...] = ()
    """Columns whose index was too large."""
    keys: tuple[str, ...] = ()
    """Files that were written for it."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Files that are in no state any more, and since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`last` was written; `next` may have been."""

    last: Written | None = None
    next: Written | None = None


class Records(Protocol):
    """Where the record of one publication is kept."""

    def read(self) -> Record: ...
    def write(self, record: Record) -> None:
        """Replace the record, all at once."""

    def remove(self) -> None: ...


class RecordFile:
    """`Records` in a file of this machine."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._path, self._durable = path, durable

    def read(self) -> Record:
        """Nothing was published: an empty record. Raises `UnreadableRecord`."""
        try:
            with self._path.open("rb") as stream:
                return decode_json(stream.read(MAX_RECORD_BYTES), Record)
        except FileNotFoundError:
            return Record()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnreadableRecord(f"{self._path} cannot be read: {error}") from None

    def write(self, record: Record) -> None:
        raw = msgspec.json.encode(record)
        files.write_chunks(self._path, (raw,), durable=self._durable)

    def remove(self) -> None:
        files.remove(self._path, durable=self._durable)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process of this machine publishes meanwhile."""
        files.make_folder(self._path.parent, durable=self._durable)
        with files.folder_lock(self._path.parent, alone=True):
            yield
