"""What pages need of the node: its parts, the frame around their content, and the newest rows.

Facts of the columns of datasets are kept for as long as no rows come. When rows have come, a reader
looks into the new slices only; the facts of older ones are kept. If the new ones are many, it does
so beside the page, and a later view shows the facts. It has no HTML.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit

from anyio import from_thread, to_thread

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.typed import decode_json
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.extras import app_version
from odf_storage.stores.ports.overviews import Facets
from odf_storage.stores.ports.values import DatasetEntry

from ...auth.actors import Actor
from ...auth.dataset_access import DatasetAccess
from ...derivatives.derivatives import Derivatives
from ...lineage.lineage import LineageSources
from ...query.query import Queries
from ...read.outlines import Beside, Outlines
from ...read.read import Tables
from ...read.tail import Current, Tails, last_rows
from ...readers.messages import Materials
from ...readers.pool import Readers
from ...readers.tasks import (
    Profiled,
    ProfileTask,
    StandingTask,
    TableRef,
)
from ...system.face import Face

PAGE_STATISTICS_CELLS = 20_000_000
"""Most values that are read of new rows for statistics of columns on a page, where footers do not
say them; a column beyond that has those of a sample."""

T = TypeVar("T")
REMEMBERED = 32
"""Number of datasets whose facts are kept; those of one take up to a megabyte."""
REST_S = 1.0
"""Pause before many slices are read, so that the page that asked is made first."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Facts, and what they are of."""

    columns: tuple[str, ...]
    table: TableRef
    found: Profiled

    def continues_in(self, table: TableRef, columns: tuple[str, ...]) -> bool:
        """Return whether the table is the same one, with more slices or none."""
        last = len(self.table.slices)
        return (
            self.columns == columns
            and self.table.schema == table.schema
            and self.table.slices[-1:] == table.slices[:last][-1:]
            and last <= len(table.slices)
        )


@dataclass(frozen=True)
class Profiles:
    """Makes and keeps facts of columns. Use it in the thread of the event loop."""

    tables: Tables
    readers: Readers
    cells: int
    """Limit of the values that are read for the facts of new slices."""
    max_bytes: int
    """Limit of the bytes of sample rows."""
    known: OrderedDict[DatasetId, _Known] = field(default_factory=OrderedDict)
    beside: Beside = field(default_factory=Beside)

    async def of(
        self, entry: DatasetEntry, caller: str, columns: tuple[str, ...], rows: int
    ) -> Profiled | None:
        """Return the facts of these columns, and about `rows` rows spread over the dataset; None
        while those of many slices are being made. Raises the same errors as `Readers.answer`."""
        table, objects = await to_thread.run_sync(self.tables.of, entry, None, ())
        before = self.known.get(entry.id)
        if before is not None and not before.continues_in(table, columns):
            before = None
        if before is not None and len(before.table.slices) == len(table.slices):
            self.known.move_to_end(entry.id)
            return before.found
        task = ProfileTask(
            table=table,
            columns=columns,
            known=None if before is None else before.found.profile,
            cells=self.cells,
            rows=rows,
            max_bytes=self.max_bytes,
        )
        return await self.beside.get(
            (entry.id, columns, table.head),
            lambda: self._made(entry.id, task, objects, caller),
            slices=len(table.slices) - (0 if before is None else len(before.table.slices)),
            rest_s=REST_S,
        )

    async def _made(
        self, dataset: DatasetId, task: ProfileTask, objects: Materials, caller: str
    ) -> Profiled:
        answer = await self.readers.answer(task, objects, caller)
        found = decode_json(b"".join([piece async for piece in answer]), Profiled)
        self.known[dataset] = _Known(task.columns, task.table, found)
        while len(self.known) > REMEMBERED:
            self.known.popitem(last=False)
        return found


@dataclass(frozen=True)
class Drawn:
    """Keeps what pages draw of the facts of columns for as long as the facts are the same."""

    known: OrderedDict[DatasetId, tuple[Profiled, Any]] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def of(self, dataset: DatasetId, found: Profiled, draw: Callable[[], T]) -> T:
        """Return the drawing of these facts. Call it in any thread."""
        with self.lock:
            before = self.known.get(dataset)
        if before is not None and before[0] is found:
            drawn: T = before[1]
            return drawn
        made = draw()
        with self.lock:
            self.known[dataset] = found, made
            while len(self.known) > REMEMBERED:
                self.known.popitem(last=False)
        return made


FACETS_S = 30
"""Time in seconds for which the facets of a list are kept: they take longer than the list itself,
and change nothing that a list shows."""
KEPT_FACETS = 256
KEPT_CARDS = 64
"""Number of share cards that are kept; each takes some ten kilobytes."""


@dataclass(frozen=True)
class KeptFacets:
    """Keeps the facets of the last lists for `FACETS_S`; counts may be that old."""

    known: OrderedDict[Any, tuple[float, Facets]] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def of(self, wanted: Any, count: Callable[[], Facets]) -> Facets:
        """Return the facets of the datasets that are wanted. Call it in any thread."""
        now = monotonic()
        with self.lock:
            before = self.known.get(wanted)
        if before is not None and now < before[0] + FACETS_S:
            return before[1]
        counted = count()
        with self.lock:
            self.known[wanted] = now, counted
            while len(self.known) > KEPT_FACETS:
                self.known.popitem(last=False)
        return counted


@dataclass(frozen=True)
class KeptCards:
    """Keeps the pictures by which datasets are shared, by what they show."""

    known: OrderedDict[Any, bytes] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def of(self, shows: Any, draw: Callable[[], bytes]) -> bytes:
        """Return the picture. Call it in any thread."""
        with self.lock:
            made = self.known.get(shows)
        if made is None:
            made = draw()
            with self.lock:
                self.known[shows] = made
                while len(self.known) > KEPT_CARDS:
                    self.known.popitem(last=False)
        return made


@dataclass(frozen=True)
class Views:
    """The parts of the node that pages need."""

    stores: Stores
    access: DatasetAccess
    derivatives: Derivatives
    lineage: LineageSources
    outlines: Outlines
    tails: Tails
    readers: Readers
    tables: Tables
    current: Current
    profiles: Profiles
    queries: Queries
    clock: Clock
    public_url: str | None
    face: Face
    drawn: Drawn = field(default_factory=Drawn)
    facets: KeptFacets = field(default_factory=KeptFacets)
    cards: KeptCards = field(default_factory=KeptCards)


def frame(views: Views, actor: Actor, path: str) -> dict[str, Any]:
    """Return what every page shows around its content."""
    return {
        "version": app_version(),
        "face": views.face,
        "account": None if actor.account is None else str(actor.account.name),
        "may_publish": views.access.may_make_datasets(actor),
        "is_admin": actor.account is not None and actor.account.is_admin,
        "shows_all": views.access.everything_is_read,
        "here": path,
        "root": root_of(views),
    }


def root_of(views: Views) -> str:
    """Return the prefix that a proxy adds to this node's paths, such as `/odf`; often empty."""
    return urlsplit(views.public_url or "").path.rstrip("/")


ROWS = 20
"""Number of rows on the page of a dataset."""
SAMPLE_ROWS, SAMPLE_CELLS = 500, 10_000
"""Limits of rows and of cells in the sample for statistics."""
MAX_BYTES = 1024 * 1024
"""Limit in bytes of the rows of a page."""


@dataclass(frozen=True, slots=True)
class ColumnSample:
    """Rows by offset, column by column, as JSON values; or `problem` if they cannot be read."""

    columns: dict[str, list[Any]]
    problem: str | None = None
    standing: int | None = None
    """Number of current rows, if rows were taken back."""
    is_unsure: bool = False
    """Whether it is not known yet if rows were taken back."""

    @property
    def count(self) -> int:
        return max(map(len, self.columns.values()), default=0)


def sample_size(columns: int) -> int:
    """Return the number of sample rows for statistics of so many columns."""
    return max(ROWS, min(SAMPLE_ROWS, SAMPLE_CELLS // max(1, columns)))


def newest(
    views: Views, entry: DatasetEntry, caller: str, *, skip: int, limit: int, changelog: bool
) -> ColumnSample:
    """Return the `limit` current rows before the newest `skip`, or rows as they were recorded; the
    latter, too, while it is being looked for in many slices whether rows were taken back."""
    most = min(limit, views.tails.max_records)

    async def rows() -> ColumnSample:
        takes_back = False if changelog else await views.current.takes_back_soon(entry, caller)
        if not takes_back:
            asked = partial(last_rows, views.tails, views.readers, entry, caller, skip=skip)
            recorded = await asked(limit=most, max_bytes=MAX_BYTES)
            return ColumnSample(recorded, is_unsure=takes_back is None)
        table, objects = await to_thread.run_sync(views.tables.of, entry, None, ())
        task = StandingTask(table=table, skip=skip, limit=most, max_bytes=MAX_BYTES)
        answer = await views.readers.answer(task, objects, caller)
        text = b"".join([piece async for piece in answer])
        count, columns = decode_json(text, tuple[int, dict[str, list[Any]]])
        return ColumnSample(columns, standing=count)

    try:
        return from_thread.run(rows)
    except NodeError as error:
        return ColumnSample({}, error.message)
