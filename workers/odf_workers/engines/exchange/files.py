"""The types that a worker and its executors share: files by path or by link, and errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from odf_protocol.errors import Unavailable
from odf_storage.stores.ports.values import StoredFile

READ_BYTES = 1 << 20
ATTEMPTS = 4
"""Number of names that a partition has for the files of its attempts. Spark gives up after four
failures of a task; further attempts, after executors were lost, reuse a name."""


class ExchangeFault(OSError):
    """Error in an executor: the bucket does not respond, or has other bytes than expected."""


class ExchangeFailed(Unavailable):
    """Executors could not read or write the bucket. The job may be retried."""


class Span(NamedTuple):
    """Bytes of a file from `start` to before `end`."""

    start: int
    end: int


Spans = tuple[Span, ...]
"""Parts of a file in their order, which do not overlap."""


@dataclass(frozen=True, slots=True)
class Loan:
    """A file in the bucket for executors: a link to read it, and the hash of its bytes. With
    `spans`, only these bytes are lent, and the hash is theirs."""

    link: str
    hash: str
    spans: Spans | None = None

    @property
    def name(self) -> str:
        """The name of the file on an executor. Equal bytes at other positions are another file."""
        return "-".join([self.hash, *(f"{start}-{end}" for start, end in self.spans or ())])


File = Path | Loan
"""A file for a task: a path if the task sees the worker's disk, else a loan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """Where tasks put the files that they write: a folder of the worker, or a folder of the bucket
    with a link for each partition and attempt (see `name_of`)."""

    folder: Path
    links: Mapping[str, str] | None = None
    bucket_folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A file that a task wrote. If it is `stored` in the bucket, `path` is where the worker may
    collect it; otherwise it is there already."""

    path: Path
    stored: StoredFile | None = None


def name_of(partition: int, attempt: int) -> str:
    """Return the name of the file of an attempt at a partition; both count from 0."""
    return f"{partition}-{attempt % ATTEMPTS}"


def pieces(path: Path, spans: Spans) -> Iterator[bytes]:
    """Yield the bytes of the spans, fewer if the file ends before."""
    with path.open("rb") as content:
        for span in spans:
            content.seek(span.start)
            left = span.end - span.start
            while left > 0 and (piece := content.read(min(left, READ_BYTES))):
                left -= len(piece)
                yield piece
