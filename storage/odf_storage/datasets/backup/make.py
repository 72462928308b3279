"""Make a backup of a node that goes on writing.

One transaction reads the index as it is at one moment: tables, and the blocks that are new since
the backup before. Objects come after it. They never change, and garbage collection leaves what a
head led to in the last hours, so those that the index names are still there. Of a dataset whose
head has not moved, nothing is read. The manifest is written last.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha3_256
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import sqlalchemy as sa

from odf_protocol.errors import BadInput, Conflict, NotFound
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import HashMismatch, Multihash

from ...stores.index.named_objects import named_objects
from ...stores.index.sql_blocks import SqlBlockIndex
from ...stores.objects.layout import HEAD, dataset_folder, object_name
from ...stores.ports.errors import BlockDamaged
from ...stores.ports.values import ObjectInfo, ObjectKey, ObjectKind
from ...stores.registers.accounts.sealing import KEY_FILE
from ...stores.sql.migrate import LATEST, current
from ...stores.sql.tables import jobs, refs, uploaded_files
from ..node.stores import Stores
from .last import note_made
from .manifest import (
    BackupManifest,
    DumpedTable,
    Held,
    Listed,
    Pieces,
    is_scattered,
    listed,
    load,
    put_piece,
    read_piece,
    save,
)
from .place import FILES, OBJECTS, READ_BYTES, Hold, Place
from .tables import dump, dumped_tables, snapshot
from .threads import BackupThreads

NODE = "backup-node"
"""Secret of a node that says whose backups they are; a restored node has it too."""
BLOCKS_AT_ONCE = 1_000
LENGTH_BYTES = 4
Progress = Callable[[str, int, int], None]
"""Called with a step, and how much of how much is done."""


@dataclass(slots=True, kw_only=True)
class BackupReport:
    """What a backup did."""

    number: int
    datasets: int = 0
    changed: int = 0
    """Datasets that were not as in the backup before."""
    objects: int = 0
    blocks: int = 0
    bytes_read: int = 0
    """Bytes of objects, blocks and rows that were read from the node."""
    bytes_written: int = 0
    missing: list[str] = field(default_factory=list)
    """Objects that the node has lost, or has damaged."""
    gone: list[str] = field(default_factory=list)
    """Datasets that were removed while the backup was made; it does not restore them."""
    removed: list[int] = field(default_factory=list)
    """Numbers of backups that were removed."""

    def to_data(self) -> dict[str, Any]:
        return {"ok": not self.missing, **asdict(self)}


@dataclass(slots=True)
class _Draft:
    """A dataset as the snapshot has it."""

    held: Held
    is_changed: bool
    named: set[bytes] = field(default_factory=set)
    """Kind and hash of the objects that its new blocks name."""


@dataclass(slots=True)
class _Copied:
    """A dataset whose objects are in the place, and what was copied for that."""

    held: Held
    objects: int = 0
    bytes_read: int = 0
    missing: list[str] = field(default_factory=list)


def back_up(
    stores: Stores,
    place: Place,
    *,
    version: str,
    data: Path | None = None,
    keep: int | None = None,
    every_s: float = 0.0,
    progress: Progress = lambda _step, _done, _total: None,
) -> BackupReport:
    """Make a backup; with `keep`, then remove all but so many of the newest. A sealed backup has
    the keys in the folder `data`, too. It is noted as the last one of the node.

    An interrupted backup leaves files that the next one uses.

    Raises:
        BackupOfAnotherNode, BackupPlaceTaken, BackupRunning, BackupTooNew, BackupKeyNeeded,
        BackupKeyWrong; SchemaOfAnotherVersion: another version of the node uses the database.
        BackupDamaged: the manifest of the backup before.
        BackupNotDue: the newest backup is younger than `every_s`; `due_s` is the rest.
    """
    if (schema := current(stores.engine)) != LATEST:
        raise Conflict(
            "SchemaOfAnotherVersion",
            f"the database has schema {schema}, and this version knows {LATEST}; make the backup "
            "with the version that serves the node",
        )
    place.begin(node_of(stores))
    with place.claimed() as hold:
        run = _Backup(stores, place, version, data, progress)
        run.refuse_early(every_s)
        return run.run(hold, keep)


def node_of(stores: Stores) -> str:
    return stores.accounts.secret(NODE, os.urandom(16)).hex()


class _Backup:
    """One run."""

    def __init__(
        self, stores: Stores, place: Place, version: str, data: Path | None, progress: Progress
    ) -> None:
        self._stores, self._place, self._version = stores, place, version
        self._data, self._progress = data, progress
        found = listed(place)
        self._before = load(place, found[-1]) if found else None
        self._known = {} if self._before is None else _whole(self._before)
        self._report = BackupReport(number=found[-1].number + 1 if found else 1)

    def refuse_early(self, every_s: float) -> None:
        """Raise `BackupNotDue` if the backup before is younger. One of the future is not."""
        if self._before is None:
            return
        age_s = (self._place.clock().ns - Instant.parse(self._before.at).ns) / NANOS
        if 0 <= age_s < every_s:
            self._note(self._before)
            raise Conflict(
                "BackupNotDue",
                f"backup {self._before.number} is of {self._before.at}, which is not long ago",
                due_s=every_s - age_s,
            )

    def run(self, hold: Hold, keep: int | None) -> BackupReport:
        at = str(self._place.clock())
        written = self._place.bytes_written
        with BackupThreads() as beside:
            with snapshot(self._stores.engine) as db:
                tables = self._tables(db, beside)
                drafts = [*self._chains(db, beside), *self._kept_files(db)]
            beside.wait()
            self._report.bytes_read += self._place.bytes_written - written
            held = self._held(drafts, beside)
        hold.confirm()
        manifest = BackupManifest(
            number=self._report.number,
            node=node_of(self._stores),
            version=self._version,
            schema=LATEST,
            at=at,
            tables=tables,
            held=held,
            missing=self._report.missing,
            gone=self._report.gone,
            keys=self._keys(),
        )
        save(self._place, manifest)
        self._note(manifest)
        if keep is not None:
            self._report.removed = prune(self._place, keep, hold)
        self._report.bytes_written = self._place.bytes_written
        return self._report

    def _note(self, made: BackupManifest) -> None:
        note_made(self._stores.projections, made.number, made.at, len(made.missing))

    def _tables(self, db: sa.Connection, beside: BackupThreads) -> list[DumpedTable]:
        known = {one.name: one for one in self._before.tables} if self._before else {}
        made = []
        for number, table in enumerate(all_tables := dumped_tables()):
            self._progress("tables", number, len(all_tables))
            made.append(dump(db, self._place, beside, table, known.get(table.name)))
        return made

    # --- chains -----------------------------------------------------------------------------

    def _chains(self, db: sa.Connection, beside: BackupThreads) -> Iterator[_Draft]:
        heads = db.execute(sa.select(refs.c.dataset, refs.c.hash).where(refs.c.name == HEAD)).all()
        waiting = _with_open_jobs(db)
        for number, (dataset, head) in enumerate(heads):
            self._progress("chains", number, len(heads))
            self._report.datasets += 1
            known = self._known.get(str(dataset))
            if known is not None and known.head == str(head):
                yield _Draft(known, dataset in waiting)
            else:
                yield self._chain(db, beside, dataset, head, known)

    def _chain(
        self,
        db: sa.Connection,
        beside: BackupThreads,
        dataset: DatasetId,
        head: Multihash,
        known: Held | None,
    ) -> _Draft:
        """Write the blocks behind those of the backup before, or all."""
        if known is not None and is_scattered(known.chain):
            known = None
        after = None if known is None or known.head is None else Multihash.parse(known.head)
        index, pieces = SqlBlockIndex(db), Pieces(self._place, beside)
        draft, count = _Draft(Held(id=str(dataset)), is_changed=True), 0
        try:
            page = index.behind(dataset, after, head, limit=BLOCKS_AT_ONCE)
            if page is None:  # the head was reset or pushed by force
                known = after = None
                page = index.behind(dataset, None, head, limit=BLOCKS_AT_ONCE)
            while page:
                for block in page:
                    pieces.add(len(block.raw).to_bytes(LENGTH_BYTES) + block.raw)
                    draft.named |= _named(block)
                count += len(page)
                after = page[-1].hash
                page = index.behind(dataset, after, head, limit=BLOCKS_AT_ONCE)
        except BlockDamaged:
            after = None
        if after != head:
            self._report.missing.append(f"{dataset}/{ObjectKind.BLOCK}/{head}")
        self._report.blocks += count
        chain = [*(known.chain if known else ()), *pieces.end()]
        blocks = (known.blocks if known else 0) + count
        draft.held = Held(id=str(dataset), head=str(head), blocks=blocks, chain=chain)
        return draft

    def _kept_files(self, db: sa.Connection) -> Iterator[_Draft]:
        """Yield the accounts that have uploaded files, whose objects are kept as of a dataset."""
        query = sa.select(uploaded_files.c.account).where(uploaded_files.c.hash.is_not(None))
        for account in db.execute(query.distinct()).scalars():
            yield _Draft(Held(id=account), is_changed=True)

    # --- objects ----------------------------------------------------------------------------

    def _held(self, drafts: list[_Draft], beside: BackupThreads) -> list[Held]:
        held, changed = [], [draft for draft in drafts if draft.is_changed]
        self._progress("datasets", 0, len(drafts))
        found = beside.each(self._objects, changed)
        for number, draft in enumerate(drafts, 1):
            if not draft.is_changed:
                held.append(draft.held)
                continue
            one = next(found)
            self._report.changed += draft.held.head is not None  # else files of an account
            self._report.objects += one.objects
            self._report.bytes_read += one.bytes_read
            if one.missing and self._is_gone(draft.held):
                self._report.gone.append(one.held.id)
            else:
                self._report.missing += one.missing
            held.append(one.held)
            self._progress("datasets", number, len(drafts))
        return held

    def _is_gone(self, held: Held) -> bool:
        ref = DatasetRef(id=DatasetId.parse(held.id))
        return held.head is not None and self._stores.registry.find(ref) is None

    def _objects(self, draft: _Draft) -> _Copied:
        """Copy the objects of a dataset that the place does not have; several run side by side."""
        held, dataset = draft.held, DatasetId.parse(draft.held.id)
        folder = f"{OBJECTS}/{dataset_folder(dataset)}"
        present, lines, seen = self._place.sizes(folder), [], set[bytes]()
        copied = _Copied(held)
        for info in self._stores.objects.list(dataset):
            if info.key.kind is ObjectKind.BLOCK:
                continue
            name = f"{folder}/{object_name(info.key)}"
            has = present.get(self._place.stored(name)) == self._place.stored_size(info.size)
            if has or self._copy(info, name, copied):
                lines.append(f"{info.key.kind} {object_name(info.key)} {info.size}\n")
                seen.add(_mark(info.key.kind, info.key.hash))
        for kind, hash_ in sorted(map(_unmarked, draft.named - seen)):
            copied.missing.append(f"{dataset}/{kind}/{hash_}")
        objects = put_piece(self._place, "".join(sorted(lines)).encode())
        copied.held = msgspec.structs.replace(held, objects=objects)
        return copied

    def _copy(self, info: ObjectInfo, name: str, copied: _Copied) -> bool:
        """Copy an object; return False if it is gone or damaged."""
        try:
            with self._stores.objects.open(info.key) as stream:
                self._place.put(name, _checked(stream, info.key))
        except (NotFound, HashMismatch):
            return False
        copied.objects += 1
        copied.bytes_read += info.size
        return True

    def _keys(self) -> str | None:
        """Return the file of keys of the node, for a sealed backup."""
        if self._place.seal is None or self._data is None:
            return None
        with suppress(FileNotFoundError):
            return base64.b64encode((self._data / KEY_FILE).read_bytes()).decode()
        return None


def _whole(before: BackupManifest) -> dict[str, Held]:
    """Return the datasets of the backup before; without those that had lost something, which are
    read again."""
    lost = {*before.gone, *(each.partition("/")[0] for each in before.missing)}
    return {one.id: one for one in before.held if one.id not in lost}


def _checked(stream: BinaryIO, key: ObjectKey) -> Iterator[bytes]:
    """Yield the content; at its end raise `HashMismatch` if it is not that of the key, so that
    nothing is stored."""
    state = sha3_256()
    while chunk := stream.read(READ_BYTES):
        state.update(chunk)
        yield chunk
    actual = Multihash(key.hash.code, state.digest())
    if actual != key.hash:
        raise HashMismatch(key.hash, actual)


def _named(block: HashedBlock) -> set[bytes]:
    return {_mark(named.kind, named.hash) for named in named_objects(block.event)}


def _mark(kind: ObjectKind, object_hash: Multihash) -> bytes:
    return kind.value[:1].encode() + object_hash.raw


def _unmarked(mark: bytes) -> tuple[str, str]:
    kind = ObjectKind.DATA if mark[:1] == b"d" else ObjectKind.CHECKPOINT
    return kind.value, str(Multihash.decode(mark[1:]))


def _with_open_jobs(db: sa.Connection) -> set[DatasetId]:
    """Return the datasets for which jobs wait or run: they may have uploads."""
    query = sa.select(jobs.c.dataset).where(
        jobs.c.status.in_(("waiting", "running")), jobs.c.dataset.is_not(None)
    )
    return set(db.execute(query.distinct()).scalars())


# --- retention ------------------------------------------------------------------------------


def prune(place: Place, keep: int, hold: Hold) -> list[int]:
    """Remove all but the newest `keep` backups, and then what none of them has. Return the numbers
    of the removed. Raises `BackupRunning` if another writer took over: what it has written so far
    is in no backup yet."""
    if keep < 1:
        raise BadInput("KeepsNothing", "keep one backup at least")
    found = listed(place)
    gone, kept = found[:-keep], found[-keep:]
    if not gone:
        return []
    needed = set[str]()
    for one in kept:
        needed.update(_needed(place, one))
    hold.confirm()
    place.store.delete([one.name for one in gone])
    for folder in (FILES, OBJECTS):
        place.store.delete([key for key in place.sizes(folder) if key not in needed])
    return [one.number for one in gone]


def _needed(place: Place, which: Listed) -> Iterator[str]:
    manifest = load(place, which)
    for piece in manifest.pieces():
        yield place.stored(f"{FILES}/{piece.file}")
    for held in manifest.held:
        for name, _ in objects_of(place, held):
            yield place.stored(name)


def objects_of(place: Place, held: Held) -> Iterator[tuple[str, ObjectInfo]]:
    """Yield the objects of a dataset in a backup, with their names in the place."""
    if held.objects is None:
        return
    dataset = DatasetId.parse(held.id)
    folder = f"{OBJECTS}/{dataset_folder(dataset)}"
    for line in read_piece(place, held.objects).decode().splitlines():
        kind, name, size = line.split(" ")
        text, _, copy = name.partition(".")
        key = ObjectKey(dataset, ObjectKind(kind), Multihash.parse(text), copy)
        yield f"{folder}/{name}", ObjectInfo(key, int(size))
