"""Compare the index with one rebuilt from the objects, by reading both in the same order."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from odf_protocol.identity import DatasetId

from ...stores.sql.engine import open_engine, reading, sqlite_url
from ...stores.sql.migrate import migrate
from ...stores.sql.tables import blocks, datasets, inputs, refs
from ..node.naming import SINGLE_OWNER
from .rebuild import IndexSource, Progress, RebuildReport, rebuild_index

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
    objects: IndexSource,
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
