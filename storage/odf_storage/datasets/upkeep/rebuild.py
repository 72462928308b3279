"""Rebuild the index from the objects alone.

The object store of a node has blocks, heads and aliases as files, and the datasets, references,
blocks and inputs of the index can be made from them; accounts, tokens and jobs are only in the
database.

Blocks are read in the order of the listing and hashed, and only their frames are decoded. A
dataset becomes visible in one transaction, once its head is known to lead to a first block. Blocks
that its head does not lead to are left out.

Make the rows of the index from stored blocks: hash each block and decode only its frame.

Blocks in a local folder are read without the object store: there are millions of small files, and
building a path, requesting a size and buffering a stream would each cost as much as hashing the
block.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import sqlalchemy as sa

from odf_protocol.codec.blocks import MAX_BLOCK_BYTES, decode_block, peek_block
from odf_protocol.errors import BadInput, Conflict, NodeError, NotFound
from odf_protocol.identity import DatasetAlias, DatasetId, Name
from odf_protocol.metadata.events import DatasetKind, ExecuteTransform, Seed, SetTransform
from odf_protocol.multihash import Multihash

from ...runtime.clock import Clock, system_clock
from ...stores.index.sql import entry_row, log_move
from ...stores.index.sql_blocks import delete_unreached
from ...stores.objects.layout import HEAD, PENDING_PREFIX
from ...stores.ports import Objects, ObjectStore
from ...stores.ports.errors import BlockNotFound
from ...stores.ports.values import DatasetEntry, ObjectKey, ObjectKind, Visibility
from ...stores.sql.engine import large_cache, reading, writing
from ...stores.sql.tables import blocks, datasets, inputs, refs
from ..dataset.info import read_info
from ..node.naming import SINGLE_OWNER
from ..node.stores import seed_mismatch

BATCH = 500
FIRST_READ = 64 << 10

Row = tuple[bytes, bytes, int, bytes | None, str, bytes]
"""A block as the database driver expects it: dataset, hash, sequence number, prev, kind, raw."""
Read = Callable[[], list[Row]]


class RebuiltBatch:
    """A call that reads blocks, here or in another process; it needs no further arguments."""

    def __init__(self, read: Callable[..., list[Row]], *arguments: object) -> None:
        self._read, self._arguments = read, arguments

    def __call__(self) -> list[Row]:
        return self._read(*self._arguments)


def batches(objects: ObjectStore, dataset: DatasetId) -> Iterator[Read]:
    """Yield reads of all listed blocks; a block that does not match its hash gives no row."""
    if (local := objects.local_paths) is not None:
        folder = str(local.folder(dataset, ObjectKind.BLOCK))
        names = _names(folder)
        while some := list(islice(names, BATCH)):
            yield RebuiltBatch(read_files, folder, dataset.key, some)
        return
    found = (
        (info.key.hash.raw, info.size)
        for info in objects.list(dataset)
        if info.key.kind is ObjectKind.BLOCK
    )
    while stored := list(islice(found, BATCH)):
        yield RebuiltBatch(read_objects, objects, dataset.key, stored)


def _names(folder: str) -> Iterator[str]:
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if not entry.name.startswith(PENDING_PREFIX):
                yield entry.name


def read_files(folder: str, dataset: bytes, names: Sequence[str]) -> list[Row]:
    """Return the rows of the named files whose name is the hash of their bytes."""
    rows = list[Row]()
    for name in names:
        raw = _content(f"{folder}/{name}")
        if raw is None:
            continue
        actual = Multihash.of(raw)
        if name == str(actual):
            _add_row(rows, dataset, raw, actual)
    return rows


def _content(path: str) -> bytes | None:
    """Return the bytes of a file; None if it is not a readable file or larger than any block."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        raw = os.read(handle, FIRST_READ)
        while len(raw) >= FIRST_READ and (more := os.read(handle, len(raw))):
            raw += more
            if len(raw) > MAX_BLOCK_BYTES:
                return None
        return raw
    except OSError:  # a folder, or a disk that fails
        return None
    finally:
        os.close(handle)


def read_objects(objects: Objects, dataset: bytes, batch: Sequence[tuple[bytes, int]]) -> list[Row]:
    """Return the rows of the blocks with these hashes and sizes; skip those with other bytes."""
    rows, owner = list[Row](), DatasetId(dataset)
    for raw_hash, size in batch:
        key = ObjectKey(owner, ObjectKind.BLOCK, Multihash.decode(raw_hash))
        try:
            with objects.open(key) as stream:
                raw = stream.read(min(size, MAX_BLOCK_BYTES))
        except NotFound:  # removed since it was listed
            continue
        actual = Multihash.of(raw)
        if actual == key.hash:
            _add_row(rows, dataset, raw, actual)
    return rows


def _add_row(rows: list[Row], dataset: bytes, raw: bytes, actual: Multihash) -> None:
    try:
        frame = peek_block(raw, actual)
    except BadInput:
        return
    prev = None if frame.prev is None else frame.prev.raw
    rows.append((dataset, actual.raw, frame.sequence_number, prev, frame.event, raw))


_DECLARING = (SetTransform.__name__, ExecuteTransform.__name__)
AHEAD = 16
"""Number of batches that are being read or wait to be inserted."""
READ_ROWS = 5000

_COLUMNS = "INSERT INTO blocks (dataset, hash, sequence_number, prev, kind, raw) VALUES "
_INSERT = {
    "sqlite": _COLUMNS + "(?, ?, ?, ?, ?, ?)",
    "postgresql": _COLUMNS + "(%s, %s, %s, %s, %s, %s)",
}
"""Statements for the driver; SQLAlchemy would take a fifth of the time."""

Progress = Callable[[str, int], None]
"""Called with the dataset and the blocks read so far."""


@dataclass(slots=True, kw_only=True)
class RebuildReport:
    """The result of a rebuild, with the datasets that failed."""

    datasets: int = 0
    blocks: int = 0
    problems: list[str] = field(default_factory=list)
    """Datasets that are not in the new index, and why."""
    notes: list[str] = field(default_factory=list)
    """Facts that were missing and had to be guessed."""

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_data(self) -> dict[str, Any]:
        """JSON-compatible."""
        return {"ok": self.ok, **asdict(self)}


def rebuild_index(
    objects: ObjectStore,
    engine: sa.Engine,
    *,
    owner: str = SINGLE_OWNER,
    pool: Executor | None = None,
    clock: Clock = system_clock,
    progress: Progress = lambda _dataset, _blocks: None,
) -> RebuildReport:
    """Fill the empty, migrated index of `engine` from the objects.

    `pool` reads ahead: use processes for local files, whose store can be pickled, and threads for
    a bucket. Memory holds `AHEAD` batches of blocks. A dataset that is not whole is left out and
    reported.

    Raises:
        IndexNotEmpty: the index has datasets already; nothing was changed.
    """
    with reading(engine) as db:
        if db.execute(sa.select(datasets.c.id).limit(1)).first() is not None:
            raise Conflict(
                "IndexNotEmpty",
                "this database has datasets already; name an empty one, or compare with --check",
            )
    report = RebuildReport()
    loader = _Loader(objects, engine, report, owner, pool)
    for dataset in objects.datasets():
        try:
            loader.load(dataset, clock, progress)
        except NodeError as problem:
            report.problems.append(f"{dataset}: {problem.message}")
    return report


@dataclass(frozen=True, slots=True)
class _Loader:
    """Loads one dataset after the other."""

    objects: ObjectStore
    engine: sa.Engine
    report: RebuildReport
    owner: str
    pool: Executor | None

    def load(self, dataset: DatasetId, clock: Clock, progress: Progress) -> None:
        """Load a dataset in one transaction."""
        head = self.objects.read_ref(dataset, HEAD)
        if head is None:  # garbage, by the layout of ODF
            return
        before = self.report.blocks
        with writing(self.engine) as db, large_cache(db):
            db.execute(sa.insert(datasets).values(**entry_row(_placeholder(dataset))))
            for rows in self._rows(dataset):
                if rows:
                    db.exec_driver_sql(_INSERT[db.dialect.name], sorted(rows))
                progress(str(dataset), before + len(rows))
                before += len(rows)
            if not _is_one_chain(db, dataset, head):
                delete_unreached(db, dataset, [head])
            seed = _first_block(db, dataset, head)
            entry = self._entry(db, dataset, seed)
            db.execute(
                sa.update(datasets).where(datasets.c.id == dataset).values(**entry_row(entry))
            )
            db.execute(sa.insert(refs).values(dataset=dataset, name=HEAD, hash=head))
            log_move(db, dataset, HEAD, None, head, clock)
            _insert_inputs(db, dataset)
            count = sa.select(sa.func.count()).where(blocks.c.dataset == dataset)
            loaded = int(db.execute(count).scalar_one())
        self.report.datasets += 1
        self.report.blocks += loaded

    # --- blocks -----------------------------------------------------------------------------

    def _rows(self, dataset: DatasetId) -> Iterator[list[Row]]:
        """Yield the rows of all listed blocks that are whole, in batches that the pool reads ahead.

        If the pool has processes, this process reads a batch itself instead of waiting for one.
        """
        waiting = batches(self.objects, dataset)
        local = isinstance(self.pool, ProcessPoolExecutor)
        if self.pool is None:
            yield from (read() for read in waiting)
            return
        ahead: deque[Future[list[Row]]] = deque()
        while True:
            ahead.extend(self.pool.submit(read) for read in islice(waiting, AHEAD - len(ahead)))
            if not ahead:
                return
            mine = None if ahead[0].done() or not local else next(waiting, None)
            yield ahead.popleft().result() if mine is None else mine()

    # --- the entry --------------------------------------------------------------------------

    def _entry(self, db: sa.Connection, dataset: DatasetId, first: bytes) -> DatasetEntry:
        block = decode_block(first)
        if not isinstance(block.event, Seed) or block.event.dataset_id != dataset:
            raise seed_mismatch(dataset)
        info = read_info(self.objects, dataset)
        if info is None:
            self.report.notes.append(f"{dataset}: no info/node; private, as old as its Seed")
        return DatasetEntry(
            dataset,
            self._alias(db, dataset),
            block.event.dataset_kind,
            Visibility.PRIVATE if info is None else info.visibility,
            block.block.system_time if info is None else info.created_at,
        )

    def _alias(self, db: sa.Connection, dataset: DatasetId) -> DatasetAlias:
        """Return the published alias; one made from the id if that is absent or taken."""
        found = self.objects.read_alias(dataset)
        spare = DatasetAlias(Name(dataset.multibase), Name(self.owner))
        if found is None:
            self.report.notes.append(f"{dataset}: no readable info/alias; it is called {spare}")
            return spare
        alias = DatasetAlias(found.name, found.account or Name(self.owner))
        namesake = sa.select(datasets.c.id).where(datasets.c.alias_folded == alias.folded)
        if db.execute(namesake).first() is None:
            return alias
        self.report.notes.append(f"{dataset}: {alias} is taken; it is called {spare}")
        return spare


def _placeholder(dataset: DatasetId) -> DatasetEntry:
    """Return an entry for the blocks to refer to until the Seed is known. It is replaced in the
    same transaction."""
    name = DatasetAlias(Name(dataset.multibase), Name("rebuilding"))
    return DatasetEntry(dataset, name, DatasetKind.Root, Visibility.PRIVATE, system_clock())


def _is_one_chain(db: sa.Connection, dataset: DatasetId, head: Multihash) -> bool:
    """Return whether the blocks are only the chain of `head`, as in nearly all datasets."""
    query = (
        sa.select(
            blocks.c.sequence_number,
            sa.type_coerce(blocks.c.hash, sa.LargeBinary),
            sa.type_coerce(blocks.c.prev, sa.LargeBinary),
        )
        .where(blocks.c.dataset == dataset)
        .order_by(blocks.c.sequence_number)
    )
    last, streamed = None, query.execution_options(stream_results=True, yield_per=READ_ROWS)
    for expected, (number, block, prev) in enumerate(db.execute(streamed)):
        if number != expected or prev != last:
            return False
        last = block
    return last == head.raw


def _first_block(db: sa.Connection, dataset: DatasetId, head: Multihash) -> bytes:
    """Return the bytes of the first block. Raise `BlockNotFound` if the chain is incomplete."""
    oldest = (
        sa.select(blocks.c.prev, blocks.c.raw)
        .where(blocks.c.dataset == dataset)
        .order_by(blocks.c.sequence_number)
        .limit(1)
    )
    row = db.execute(oldest).one_or_none()
    if row is None or row.prev is not None:
        raise BlockNotFound(head if row is None else row.prev)
    return bytes(row.raw)


def _insert_inputs(db: sa.Connection, dataset: DatasetId) -> None:
    """Insert the inputs that the chain declares last, the same as in the state of the chain."""
    newest = (
        sa.select(blocks.c.raw)
        .where(blocks.c.dataset == dataset, blocks.c.kind.in_(_DECLARING))
        .order_by(blocks.c.sequence_number.desc())
        .limit(1)
    )
    raw = db.execute(newest).scalar_one_or_none()
    event = None if raw is None else decode_block(bytes(raw)).event
    if isinstance(event, SetTransform):
        named = dict.fromkeys(item.dataset_ref.id for item in event.inputs)
    elif isinstance(event, ExecuteTransform):
        named = dict.fromkeys(item.dataset_id for item in event.query_inputs)
    else:
        return
    rows = [{"dataset": dataset, "input": name} for name in named if name is not None]
    if rows:
        db.execute(sa.insert(inputs), rows)
