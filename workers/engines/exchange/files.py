"""What a worker and its executors pass each other: files, by path or by link, and their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from odf_node.protocol.errors import Unavailable

ATTEMPTS = 4
"""How many names a partition has for what its attempts write. Spark gives up after four that fail
for themselves; later ones, of executors that were lost, take a name again."""


class ExchangeFault(OSError):
    """In an executor: the bucket does not answer, or has other bytes than it should."""


class ExchangeFailed(Unavailable):
    """Executors could not read or write the bucket; the job may be begun again."""


@dataclass(frozen=True, slots=True)
class Loan:
    """A file in the bucket for executors: a link to read it, and the hash of its bytes."""

    link: str
    hash: str


File = Path | Loan
"""A file as work is given it: where it sees the worker's disk, and elsewhere."""


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A small file that goes along with the work: no disk has it."""

    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """Where work puts the files that it writes: a folder of the worker, or a folder of the bucket
    and links by partition and attempt (see `name_of`)."""

    folder: Path
    links: Mapping[str, str] | None = None
    bucket_folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A file that work wrote: where it lies, or is to lie once the worker has collected what is
    under `name` in the bucket and has that `hash`."""

    path: Path
    name: str | None = None
    hash: str | None = None


def name_of(partition: int, attempt: int) -> str:
    """Of what an attempt at a partition writes; both count from 0."""
    return f"{partition}-{attempt % ATTEMPTS}"
