"""One query from request to rows: find datasets, have a process plan it, link files, compute.

Private folders of a query: one for spilled data, one for links to its slices.

The links are in a memory file system if there is one: a disk may take a second to make a thousand
links, and another second to remove them. The folders lie in two that the run of the service locks;
a later run removes those of runs that were killed.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from anyio import CapacityLimiter, from_thread, to_thread

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import LimitExceeded, NodeFault
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.query.messages import (
    Planned,
    QueryLimits,
    QueryTable,
    Question,
    TableView,
    WantedIndex,
)
from odf_storage.datasets.query.tables import link, make_folders, table_of
from odf_storage.datasets.read.view import Outline
from odf_storage.runtime.children import Nursery
from odf_storage.runtime.processes import own_folder, remove_dead

from ..auth.access import refuse_bad_token
from ..auth.actors import Actor
from ..limits.shares import RETRY_AFTER_S, AllTaken, Turn, Turns
from ..observe.metrics import Counters
from ..readers.pool import with_descriptor
from ..settings import Settings
from .background import QueryRequest
from .engine import InvalidQuery, Process, is_installed, no_process, nursery, with_near_names
from .inputs import DatasetPin, SliceSource

MEMORY = Path("/dev/shm")  # noqa: S108 - each folder in it has a random name
RUN, QUERY = "odf-queries-", "query-"


class OwnFolders:
    """Makes folders for queries, each with a random name and accessible to this user only."""

    def __init__(self, settings: Settings) -> None:
        self.scratch = (settings.data / "queries").absolute()
        self.links = (settings.query_links or _links_by_default(settings)).absolute()
        self._runs: dict[Path, Path] = {}
        self._held = ExitStack()
        self._lock = threading.Lock()

    def make_scratch(self) -> Path:
        return self._made(self.scratch)

    def make_links(self) -> Path:
        return self._made(self.links)

    def remove_dead(self) -> None:
        """Remove folders of runs that were killed."""
        for folder in (self.scratch, self.links):
            remove_dead(folder, RUN)

    def close(self) -> None:
        """Remove the folders of this run."""
        with self._lock:
            self._runs.clear()
            self._held.close()

    def _made(self, base: Path) -> Path:
        with self._lock:
            if base not in self._runs:
                if not self._runs:
                    atexit.register(self.close)
                self._runs[base] = self._held.enter_context(own_folder(base, RUN))
            return Path(tempfile.mkdtemp(prefix=QUERY, dir=self._runs[base]))


def _links_by_default(settings: Settings) -> Path:
    has_memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    return MEMORY if has_memory else settings.data / "query-links"


QUERY_POOL_SHARE = 0.5
"""Part of the memory of a query's process that rows may take before it spills them."""

QUERY_DEPTH = 100
"""Deepest nesting of brackets in a query."""

QUERY_TERMS = 3_000
"""Most operators, clauses and brackets in a query."""

_SHOWN = [TableView.CHANGELOG, TableView.FACTS, TableView.STATE]


class Inputs(Protocol):
    """Port that finds the datasets of queries: in this node, or in folders."""

    def sources(
        self, actor: Actor, query: str, pins: Sequence[DatasetPin], /
    ) -> list[SliceSource]: ...
    def names(self, actor: Actor, /) -> list[str]: ...
    def renamed(self, actor: Actor, alias: str, /) -> str | None: ...


class Slices(Protocol):
    """Port that finds the files of slices and indices."""

    def folder(self, dataset: DatasetId, some: Multihash | None, /) -> Path: ...
    def paths(self, dataset: DatasetId, slices: list[Multihash], /) -> list[str]: ...
    def open_index(self, dataset: DatasetId, key: str, /) -> BinaryIO | None: ...


class Current(Protocol):
    """Port that tells whether a dataset has rows that were taken back."""

    async def takes_back(self, dataset: DatasetId, outline: Outline, caller: str, /) -> bool: ...


@dataclass
class QueryRows:
    """An answer that has begun: all checks have passed. Iterate it, then close it."""

    schema: DataSchema
    pins: list[DatasetPin]
    projection: TableView
    """What the names of these datasets alone mean; the changelog if that has the same rows."""
    scanned: int
    """Number of slices that the query opens, over all datasets."""
    total: int
    adds_floats: bool
    """Whether digits of the answer depend on the order in which floats are added."""
    parameters: bytes
    """Schema message of Arrow with the parameters that have no value; empty for none."""
    _first: bytes | None
    _pieces: AsyncIterator[bytes]
    _end: _End

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._first is not None:
            yield self._first
            async for piece in self._pieces:
                yield piece

    async def close(self) -> None:
        """Stop the answer and wait until its process has ended. A second call changes nothing."""
        await self._end()

    def leave(self) -> None:
        """Close without waiting, when all rows were read. The turn is released afterwards."""
        self._end.begin()


@dataclass
class Queries:
    """Runs the queries of one service. Use it in the thread of the event loop only."""

    settings: Settings
    inputs: Inputs
    files: Slices
    current: Current
    counters: Counters = field(default_factory=Counters)
    nursery: Nursery = field(default_factory=nursery)

    def __post_init__(self) -> None:
        settings = self.settings
        self._turns = Turns(
            "queries",
            most=settings.query_processes,
            each=settings.share_of(settings.query_processes),
            setting="ODF_NODE_QUERY_PROCESSES",
        )
        self._threads = CapacityLimiter(2 * settings.query_processes)
        self._folders = OwnFolders(settings)
        self._ends: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start the engine before the first query, and remove folders of runs that were killed."""
        if is_installed() and self.settings.query_processes:
            self.nursery.start()
        self._folders.remove_dead()

    async def begin(self, actor: Actor, caller: str, asked: QueryRequest) -> QueryRows:
        """Run a query until its first rows are computed, and return its rows.

        Raises:
            QueriesNotEnabled. TokenInvalid, TokenExpired. ShareTaken, QueryQueueFull.
            TextTooLong. PinnedDatasetNotFound, PinnedBlockNotFound, TooManyTables.
            The errors of `Process`; the errors of opening a slice.
        """
        if not is_installed():
            raise NodeFault(
                "QueriesNotEnabled",
                "queries need DataFusion, which this installation lacks: pip install"
                " 'odf-node[datafusion]'",
            )
        refuse_bad_token(actor)
        turn = await self._turn(caller)
        end = _End(turn, self._ends)
        try:
            start = partial(self._started, actor, caller, asked, end, asyncio.get_running_loop())
            sources, plain, links, process = await to_thread.run_sync(start, limiter=self._threads)
            planned = await process.plan(partial(self._index_file, sources))
            give = partial(self._link, links, sources, planned)
            await to_thread.run_sync(give, limiter=self._threads)
            pieces = process.pieces()
            first = await anext(pieces, None)
        except InvalidQuery as bad:
            await end()
            names, renamed = partial(self.inputs.names, actor), partial(self.inputs.renamed, actor)
            near = partial(with_near_names, bad, names, renamed)
            raise await to_thread.run_sync(near, limiter=self._threads) from None
        except BaseException:
            await end()
            raise
        pins = sorted((sources[at].pin for at in planned.used), key=lambda pin: pin.alias)
        scanned = sum(len(slices) for slices in planned.used.values())
        total = sum(len(sources[at].outline.slices) for at in planned.used)
        self.counters.filtered(scanned, total)
        return QueryRows(
            schema=from_data(planned.schema, DataSchema),
            pins=pins,
            projection=max((plain[at] for at in planned.used), key=_SHOWN.index, default=_SHOWN[0]),
            scanned=scanned,
            total=total,
            adds_floats=planned.adds_floats,
            parameters=planned.parameters,
            _first=first,
            _pieces=pieces,
            _end=end,
        )

    async def ended(self) -> None:
        """Wait until the processes of all answers closed by `leave` have ended."""
        await asyncio.gather(*self._ends)

    async def _turn(self, caller: str) -> Turn:
        try:
            return await self._turns.take(caller, self.settings.turn_wait_s)
        except AllTaken:
            raise LimitExceeded(
                "QueryQueueFull",
                f"{self.settings.query_processes} queries are running on this node already; try "
                "again later",
                limit=self.settings.query_processes,
                setting="ODF_NODE_QUERY_PROCESSES",
                retry_after_s=RETRY_AFTER_S,
            ) from None

    def _started(
        self,
        actor: Actor,
        caller: str,
        asked: QueryRequest,
        end: _End,
        loop: asyncio.AbstractEventLoop,
    ) -> tuple[list[SliceSource], list[TableView], Path, Process]:
        """Find the datasets and what their names mean, make the folders and start the process;
        `end` will release them.

        Call this in a thread.
        """
        sources = self.inputs.sources(actor, asked.query, asked.pins)
        scratch, links = self._folders.make_scratch(), self._folders.make_links()
        for each in (scratch, links):
            end.hold(partial(shutil.rmtree, each, ignore_errors=True))
        make_folders(links, len(sources))
        changed = [
            TableView.FACTS in {asked.projection, *source.views}
            and from_thread.run(self.current.takes_back, source.id, source.outline, caller)
            for source in sources
        ]
        question = self._question(asked, sources, changed, scratch, links)
        try:
            born = self.nursery.born()
        except ChildProcessError:
            raise no_process() from None
        process = Process(born, question, self.settings.query_time_s, self._threads, loop)
        end.hold(process.close)
        plain = [
            table.names[source.alias]
            for source, table in zip(sources, question.tables, strict=True)
        ]
        return sources, plain, links, process

    def _question(
        self,
        asked: QueryRequest,
        sources: Sequence[SliceSource],
        changed: Sequence[bool],
        scratch: Path,
        links: Path,
    ) -> Question:
        """Return the question; `changed` says of which datasets rows were taken back."""
        settings = self.settings
        return Question(
            query=asked.query,
            tables=[
                self._table(source, asked.projection, takes_back=is_changed)
                for source, is_changed in zip(sources, changed, strict=True)
            ],
            skip=asked.skip,
            limit=asked.limit,
            form=asked.form,
            repeatable=asked.is_proven,
            scratch=str(scratch),
            links=str(links),
            values=asked.values,
            limits=QueryLimits(
                pool_bytes=int(settings.query_process_bytes * QUERY_POOL_SHARE),
                process_bytes=settings.query_process_bytes,
                spill_bytes=settings.query_spill_bytes,
                cpu_s=int(settings.query_time_s * settings.query_threads) + 1,
                max_bytes=settings.query_max_bytes,
                threads=settings.query_threads,
                query_bytes=settings.query_text_bytes,
                query_terms=QUERY_TERMS,
                query_depth=QUERY_DEPTH,
            ),
            confinement=settings.query_confinement,
        )

    def _table(self, source: SliceSource, plain: TableView, *, takes_back: bool) -> QueryTable:
        outline = source.outline
        some = outline.slices[0][0].physical_hash if outline.slices else None
        return table_of(
            source.alias,
            plain,
            source.views,
            outline,
            takes_back=takes_back,
            folder=str(self.files.folder(source.id, some)),
            bounds={name: list(known) for name, known in source.bounds.items()},
            index=source.index,
        )

    def _index_file(self, sources: Sequence[SliceSource], wanted: WantedIndex) -> BinaryIO | None:
        """Open an index file for the process. Call in a thread. Raises `QueryEngineBroken`."""
        if not 0 <= wanted.table < len(sources) or sources[wanted.table].index is None:
            raise NodeFault(
                "QueryEngineBroken", "the process of a query asks for what it was not given"
            )
        found = self.files.open_index(sources[wanted.table].id, wanted.key)
        return None if found is None else with_descriptor(found)

    def _link(self, links: Path, sources: Sequence[SliceSource], planned: Planned) -> None:
        """Link the slices that the plan uses; refuse any slice that the question did not name.

        Call this in a thread.
        """
        for number, wanted in planned.used.items():
            if not 0 <= number < len(sources):
                raise NodeFault(
                    "QueryEngineBroken", "the process of a query asks for what it was not given"
                )
            source = sources[number]
            slices = source.outline.slices
            if any(not 0 <= at < len(slices) for at in wanted):
                raise NodeFault(
                    "QueryEngineBroken", "the process of a query asks for what it was not given"
                )
            hashes = [slices[at][0].physical_hash for at in wanted]
            link(links, number, self.files.paths(source.id, hashes))


class _End:
    """Releases the resources of a query once, also those that a thread registers after the end."""

    def __init__(self, turn: Turn, under_way: set[asyncio.Task[None]]) -> None:
        self._turn, self._under_way = turn, under_way
        self._lock = threading.Lock()
        self._is_over = False
        self._held: list[Callable[[], None]] = []

    def hold(self, give_back: Callable[[], None]) -> None:
        """Register a function to run at the end, in reverse order; run it now if that is past."""
        with self._lock:
            if not self._is_over:
                self._held.append(give_back)
                return
        give_back()

    async def __call__(self) -> None:
        await asyncio.shield(self.begin())

    def begin(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self._give_back())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _give_back(self) -> None:
        try:
            await to_thread.run_sync(self._all)
        finally:
            self._turn.give_back()

    def _all(self) -> None:
        with self._lock:
            self._is_over, held = True, self._held
            self._held = []
        for give_back in reversed(held):
            give_back()
