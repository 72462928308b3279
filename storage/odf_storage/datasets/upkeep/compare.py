"""Compare the index with one rebuilt from the objects, by reading both in the same order.

Hash all objects again under a rate limit, to find those that the disk has damaged.

A disk can lose bytes without an error. `fsck` with a rate is a scrub: it runs beside the node,
uses only its share of the disk, and can quarantine damaged objects. For clients a quarantined
object is absent: the node serves no bytes that do not match their hash, and a peer that has the
right bytes may put them again.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import SHA3_256, Multihash

from ...stores.ports import ObjectStore
from ...stores.sql.engine import open_engine, reading, sqlite_url
from ...stores.sql.migrate import migrate
from ...stores.sql.tables import blocks, datasets, inputs, refs
from ..node.naming import SINGLE_OWNER
from .rebuild import Progress, RebuildReport, rebuild_index

MAX_LISTED = 1000
READ_ROWS = 500
TABLES: tuple[tuple[sa.Table, tuple[str, ...], tuple[str, ...]], ...] = (
    (datasets, ("id",), ("alias", "kind", "visibility", "created_at")),
    (refs, ("dataset", "name"), ("hash",)),
    (inputs, ("dataset", "input"), ()),
    (blocks, ("dataset", "hash"), ("sequence_number", "prev", "raw")),
)
"""Table, the columns that identify a row, and the columns that have to be equal."""

Row = tuple[tuple[Any, ...], tuple[Any, ...]]


@dataclass(slots=True, kw_only=True)
class CompareReport:
    """How the index differs from one rebuilt from the objects."""

    rebuilt: RebuildReport
    difference_count: int = 0
    differences: list[str] = field(default_factory=list)
    former_blocks: int = 0
    """Number of blocks of the index that no head leads to; forced pushes leave such blocks."""

    @property
    def ok(self) -> bool:
        return self.difference_count == 0 and self.rebuilt.ok

    def to_data(self) -> dict[str, Any]:
        """JSON-compatible."""
        return {"ok": self.ok, **asdict(self)}

    def add(self, text: str) -> None:
        self.difference_count += 1
        if len(self.differences) < MAX_LISTED:
            self.differences.append(text)


def compare_index(
    objects: ObjectStore,
    engine: sa.Engine,
    *,
    owner: str = SINGLE_OWNER,
    pool: Executor | None = None,
    progress: Progress = lambda _dataset, _blocks: None,
) -> CompareReport:
    """Rebuild the index in a temporary file and compare. The file needs space for all blocks.

    Datasets that change meanwhile may show up as different.
    """
    with tempfile.TemporaryDirectory(prefix="odf-index-") as folder:
        again = open_engine(sqlite_url(Path(folder) / "index.db"), durable=False)
        try:
            migrate(again)
            rebuilt = rebuild_index(objects, again, owner=owner, pool=pool, progress=progress)
            report = CompareReport(rebuilt=rebuilt)
            with reading(engine) as here, reading(again) as there:
                for table, names, values in TABLES:
                    _compare(
                        report,
                        table,
                        _rows(here, table, names, values),
                        _rows(there, table, names, values),
                    )
            return report
        finally:
            again.dispose()


def _rows(
    db: sa.Connection, table: sa.Table, names: tuple[str, ...], values: tuple[str, ...]
) -> Iterator[Row]:
    """Yield (name, values) of the rows, ordered by name."""
    columns = [table.c[name] for name in names + values]
    query = sa.select(*columns).order_by(*columns[: len(names)])
    streamed = db.execution_options(stream_results=True, yield_per=READ_ROWS)
    for row in streamed.execute(query):
        yield tuple(map(_sortable, row[: len(names)])), tuple(row[len(names) :])


def _sortable(value: Any) -> Any:
    """Return a value that sorts as in the databases: by bytes."""
    if isinstance(value, DatasetId):
        return value.key
    return getattr(value, "raw", value)


def _compare(
    report: CompareReport, table: sa.Table, here: Iterator[Row], there: Iterator[Row]
) -> None:
    """Walk both in the same order; report rows that only one has, and rows that differ."""
    ours, theirs = next(here, None), next(there, None)
    while ours is not None or theirs is not None:
        if theirs is None or (ours is not None and ours[0] < theirs[0]):
            if table is blocks:
                report.former_blocks += 1
            else:
                report.add(f"{table.name}: {_shown(ours)} is in the index only")
            ours = next(here, None)
        elif ours is None or theirs[0] < ours[0]:
            report.add(f"{table.name}: {_shown(theirs)} is among the objects only")
            theirs = next(there, None)
        else:
            if ours[1] != theirs[1]:
                report.add(f"{table.name}: {_shown(ours)} differs")
            ours, theirs = next(here, None), next(there, None)


def _shown(row: Row | None) -> str:
    return " ".join(
        part.hex() if isinstance(part, bytes) else str(part) for part in (row[0] if row else ())
    )


CHUNK_BYTES = 1 << 20
SMALL_BYTES = 1 << 16


@dataclass
class CompareThrottle:
    """Limits reading to `rate` bytes per second, with bursts of at most `burst_s` seconds' worth.

    `rate` None: no limit.
    """

    rate: float | None = None
    burst_s: float = 0.25
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _free_at: float = field(default=0.0, init=False)

    def __call__(self, size: int) -> None:
        """Wait until `size` more bytes may be read."""
        if self.rate is None:
            return
        now = self.clock()
        self._free_at = max(self._free_at, now - self.burst_s) + size / self.rate
        if self._free_at > now:
            self.sleep(self._free_at - now)


def hash_of(stream: BinaryIO, throttle: CompareThrottle) -> tuple[Multihash, int]:
    """Return hash and length in bytes of the rest of a stream, reading it in chunks."""
    state, size = hashlib.sha3_256(), 0
    while chunk := stream.read(CHUNK_BYTES):
        throttle(len(chunk))
        state.update(chunk)
        size += len(chunk)
    return Multihash(SHA3_256, state.digest()), size


def read_up_to(stream: BinaryIO, limit: int) -> bytes:
    """Return the bytes of a stream, at most the first `limit`; allocate memory as needed."""
    parts, left, wanted = list[bytes](), limit, min(SMALL_BYTES, limit)
    while left and (part := stream.read(wanted)):
        parts.append(part)
        left -= len(part)
        wanted = min(CHUNK_BYTES, left)
    return b"".join(parts)
