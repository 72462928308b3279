"""Is a backup whole, and what would a node lose that is restored from it?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha3_256
from typing import Any

from odf_protocol.codec.blocks import MAX_BLOCK_BYTES, peek_block
from odf_protocol.errors import BadInput, Damaged
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.multihash import Multihash

from ...stores.index.sql_blocks import SqlBlockIndex
from ..node.stores import Stores
from ..upkeep.marks import entries
from .make import LENGTH_BYTES, Progress, objects_of
from .manifest import BackupManifest, Held, read_piece
from .place import FILES, OBJECTS, Place, damaged
from .threads import BackupThreads

MOST_SHOWN = 1_000


@dataclass(slots=True, kw_only=True)
class CheckReport:
    """What was found in a backup."""

    number: int
    at: str
    datasets: int = 0
    blocks: int = 0
    objects: int = 0
    bytes_read: int = 0
    damages: list[str] = field(default_factory=list)
    damaged_datasets: list[str] = field(default_factory=list)
    """A restore without these works."""
    missing: list[str] = field(default_factory=list)
    """Objects that the node had lost already when the backup was made."""
    lost: list[str] = field(default_factory=list)
    """What the node has, and one that is restored from this backup would not."""

    @property
    def ok(self) -> bool:
        return not self.damages and not self.missing

    def to_data(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def check(
    place: Place,
    manifest: BackupManifest,
    *,
    reads: bool = True,
    progress: Progress = lambda _step, _done, _total: None,
) -> CheckReport:
    """Check all that a backup names. Without `reads`, objects are only looked for, with their
    size."""
    report = CheckReport(number=manifest.number, at=manifest.at, missing=manifest.missing)
    files = place.sizes(FILES)
    for table in manifest.tables:
        for piece in table.pieces:
            try:
                if place.stored(f"{FILES}/{piece.file}") not in files:
                    raise damaged(f"{FILES}/{piece.file} is missing")
                report.bytes_read += len(read_piece(place, piece))
            except Damaged as problem:
                report.damages.append(f"table {table.name}: {problem.message}")
    there = [one for one in manifest.held if one.id not in manifest.gone]
    with BackupThreads() as beside:
        found = beside.each(lambda held: _checked(place, held, reads=reads), there)
        for number, one in enumerate(found):
            progress("datasets", number, len(there))
            report.datasets += there[number].head is not None
            report.blocks += one.blocks
            report.objects += one.objects
            report.bytes_read += one.bytes_read
            report.damages += one.damages
            if one.damages:
                report.damaged_datasets.append(there[number].id)
    return report


@dataclass(slots=True)
class _Found:
    """What was found of one dataset."""

    blocks: int = 0
    objects: int = 0
    bytes_read: int = 0
    damages: list[str] = field(default_factory=list)


def _checked(place: Place, held: Held, *, reads: bool) -> _Found:
    found = _Found()
    try:
        found.blocks = sum(len(blocks) for blocks in chain_of(place, held))
        present = place.sizes(f"{OBJECTS}/{DatasetId.parse(held.id).multibase}")
        _check_objects(place, held, present, found, reads=reads)
    except Damaged as problem:
        found.damages.append(f"{held.id}: {problem.message}")
    return found


def _check_objects(
    place: Place, held: Held, present: dict[str, int], report: _Found, *, reads: bool
) -> None:
    for name, info in objects_of(place, held):
        report.objects += 1
        if present.get(place.stored(name)) != place.stored_size(info.size):
            report.damages.append(f"{held.id}: {name} is missing, or cut short")
        elif reads:
            state = sha3_256()
            try:
                for chunk in place.chunks(name):
                    state.update(chunk)
            except Damaged as problem:
                report.damages.append(f"{held.id}: {problem.message}")
                continue
            report.bytes_read += info.size
            if state.digest() != info.key.hash.digest:
                report.damages.append(f"{held.id}: {name} is not what its hash says")


def chain_of(place: Place, held: Held) -> Iterator[list[tuple[Multihash, bytes]]]:
    """Yield the blocks of a dataset, oldest first, a piece at a time.

    Raises:
        BackupDamaged: also if they are no chain up to the head.
    """
    last: Multihash | None = None
    for piece in held.chain:
        blocks = []
        for raw in _split(read_piece(place, piece)):
            name = Multihash.of(raw)
            try:
                follows = peek_block(raw, name).prev == last
            except BadInput:
                follows = False
            if not follows:
                raise damaged(f"block {name} of {held.id} does not follow {last}")
            blocks.append((name, raw))
            last = name
        yield blocks
    if str(last) != str(held.head):
        raise damaged(f"the chain of {held.id} ends at {last}, not at {held.head}")


def _split(raw: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(raw):
        size = int.from_bytes(raw[start : start + LENGTH_BYTES])
        start += LENGTH_BYTES
        if size > MAX_BLOCK_BYTES or start + size > len(raw):
            raise damaged("a block is cut short")
        yield raw[start : start + size]
        start += size


def lost_since(stores: Stores, manifest: BackupManifest) -> list[str]:
    """Return what a restore would lose, by dataset and block, and what it would bring back."""
    held = {one.id: one for one in manifest.held if one.head and one.id not in manifest.gone}
    lines = []
    for entry in entries(stores.registry):
        head, kept = stores.refs.head(entry.id), held.pop(str(entry.id), None)
        if kept is None:
            lines.append(f"{entry.alias}: all of it, up to block {_number(stores, entry.id, head)}")
        elif kept.head != str(head) and kept.head is not None:
            known = _number(stores, entry.id, Multihash.parse(kept.head))
            since = "of another history" if known is None else f"behind block {known}"
            lines.append(f"{entry.alias}: {since}, up to block {_number(stores, entry.id, head)}")
    refs = ((one, DatasetRef(id=DatasetId.parse(one))) for one in held)
    back = [one for one, ref in refs if stores.registry.find(ref) is None]
    return [*lines, *(f"{one}: it was removed since, and would come back" for one in back)]


def _number(stores: Stores, dataset: DatasetId, block: Multihash) -> int | None:
    found = SqlBlockIndex(stores.engine).find(dataset, block)
    return None if found is None else found.sequence_number
