"""The values of a fetch: request, rules, result, and errors."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odf_protocol.errors import BadInput, LimitExceeded, RemoteFailed
from odf_protocol.instant import Instant
from odf_protocol.metadata.data import SourceState
from odf_protocol.metadata.events import SetPollingSource
from odf_storage.runtime.networks import Resolver, resolved

from ..engines.remote.runtimes import ContainerRules
from ..plan.poll import SOURCE_NAME
from ..readers.table_files import TableFiles
from .file_lists import FileLists
from .files_taken import FilesTaken

ETAG = "odf/etag"
LAST_MODIFIED = "odf/last-modified"


class SourceMissing(RemoteFailed):
    """The source points at something that does not exist."""


class SourceUnreachable(RemoteFailed):
    """No connection to the source, a broken one, or a response that is not a success."""


class SourceRefused(BadInput):
    """The source points at something from which this node does not fetch."""


class MalformedSource(BadInput):
    """An address, pattern or parameter of the source is invalid."""


class EventTimeNotFound(BadInput):
    """The event time is not where the source declares it."""


class FetchedTooLarge(LimitExceeded):
    """The source has more bytes than this node accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRules:
    """Rules of the administrator. `networks` are ranges besides the public ones, `roots` folders of
    local files, `buckets` URLs of buckets or of prefixes in them, `containers` how images run
    (refused without a runtime), `variables` what templates may read. `lists` remembers which files
    of tables were read; of new files, at most `max_files` are read, with `threads` in parallel."""

    networks: tuple[str, ...] = ()
    roots: tuple[Path, ...] = ()
    buckets: tuple[str, ...] = ()
    lists: FileLists | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    containers: ContainerRules = field(default_factory=ContainerRules)
    max_bytes: int = 16 << 30
    max_files: int = 100_000
    threads: int = 4
    connect_s: float = 30.0
    idle_s: float = 60.0
    total_s: float = 3600.0
    resolve: Resolver = resolved
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """One fetch: the present source state, the time of the poll, a folder for the bytes; and the
    source, for kinds whose reading depends on its merge strategy."""

    state: SourceState | None
    system_time: Instant
    folder: Path
    rules: FetchRules
    source: SetPollingSource | None = None
    taken: FilesTaken = field(default_factory=FilesTaken)
    """Files of a folder that were taken before."""
    late_files: bool = False
    """Whether files that were never taken are taken although they sort before the last one."""
    again: tuple[str, ...] = ()
    """Names of files to be taken although they were taken before."""
    warnings: list[str] = field(default_factory=list)
    """What the fetch has to say to the author of the source, new bytes or not."""

    def state_of(self, kind: str) -> str | None:
        """Return the value of the state if it is of that kind."""
        return self.state.value if self.state is not None and self.state.kind == kind else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """New bytes. `name` is the chosen file, for sources of many files. For a `table`, `path` is the
    folder with its files. `warnings` are for the receipt."""

    path: Path
    state: SourceState | None
    event_time: Instant
    has_more: bool = False
    name: str | None = None
    table: TableFiles | None = None
    warnings: tuple[str, ...] = ()
    marks: Mapping[str, Any] = field(default_factory=dict)
    """What the block notes of the bytes (`odf_protocol/source_marks.py`)."""


def state(kind: str, value: str) -> SourceState:
    return SourceState(source_name=SOURCE_NAME, kind=kind, value=value)


@dataclass(slots=True)
class Deadline:
    """The time limit of a whole fetch."""

    rules: FetchRules
    began: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        if time.monotonic() - self.began > self.rules.total_s:
            raise SourceUnreachable(
                f"the source was not read within {self.rules.total_s:g} seconds",
                seconds=self.rules.total_s,
                setting="ODF_WORKER_FETCH_S",
            )


def spooled(
    chunks: Iterable[bytes], path: Path, rules: FetchRules, deadline: Deadline, *, before: int = 0
) -> Path:
    """Write the bytes to a file; `before` is the number of bytes that the source gave earlier.

    Raises:
        FetchedTooLarge, SourceUnreachable: a limit of size or time is exceeded.
    """
    size = before
    with path.open("wb") as out:
        for chunk in chunks:
            size += len(chunk)
            check_size(size, rules)
            deadline.check()
            out.write(chunk)
    return path


def check_size(size: int, rules: FetchRules) -> None:
    if size > rules.max_bytes:
        raise FetchedTooLarge(
            f"the source gives more than {rules.max_bytes} bytes",
            limit="max_bytes",
            value=rules.max_bytes,
            setting="ODF_WORKER_MAX_FETCHED_BYTES",
        )
