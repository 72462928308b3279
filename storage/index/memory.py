"""Registry, references and blocks in memory: three ports over one set of tables.

For tests and throw-away nodes; one lock makes every change a transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from protocol.errors import NodeError
from protocol.identity import DatasetAlias, DatasetId, DatasetRef
from protocol.instant import Instant
from protocol.metadata.block import HashedBlock
from protocol.multihash import Multihash

from ..clock import Clock, system_clock
from ..definitions.values import Author
from ..errors import (
    AliasTaken,
    BlockNotFound,
    DatasetIdTaken,
    DatasetNotFound,
    RefConflict,
    RefNotFound,
)
from ..jobs.memory import MemoryJobQueue
from ..layout import HEAD
from ..mirrors.values import Mirror
from ..values import AccountId, DatasetEntry, HeadMove, HeadMoved, JobEnd, Role, Visibility


@dataclass
class IndexTables:
    """What the three memory adapters share."""

    entries: dict[DatasetId, DatasetEntry] = field(default_factory=dict)
    refs: dict[tuple[DatasetId, str], Multihash] = field(default_factory=dict)
    log: list[HeadMoved] = field(default_factory=list)
    blocks: dict[DatasetId, dict[Multihash, HashedBlock]] = field(default_factory=dict)
    inputs: dict[DatasetId, tuple[DatasetId, ...]] = field(default_factory=dict)
    roles: dict[DatasetId, dict[AccountId, Role]] = field(default_factory=dict)
    mirrors: dict[DatasetId, Mirror] = field(default_factory=dict)
    authors: dict[DatasetId, dict[Multihash, Author]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    clock: Clock = system_clock

    def entry(self, dataset: DatasetId) -> DatasetEntry:
        if dataset not in self.entries:
            raise DatasetNotFound(dataset)
        return self.entries[dataset]

    def require_head(self, dataset: DatasetId, expected: Multihash) -> None:
        if (actual := self.refs[dataset, HEAD]) != expected:
            raise RefConflict(expected, actual)

    def moved(self, dataset: DatasetId, ref: str, old: Multihash | None, new: Multihash) -> None:
        self.refs[dataset, ref] = new
        number = len(self.log) + 1
        self.log.append(HeadMoved(number, dataset, ref, old, new, self.clock()))


class MemoryDatasetRegistry:
    """`DatasetRegistry` in memory."""

    def __init__(self, tables: IndexTables) -> None:
        self._tables = tables

    def create(self, entry: DatasetEntry, *, blocks: Sequence[HashedBlock]) -> None:
        with self._tables.lock:
            if entry.id in self._tables.entries:
                raise DatasetIdTaken(entry.id)
            self._refuse_taken(entry.alias)
            self._tables.entries[entry.id] = entry
            self._tables.blocks[entry.id] = {block.hash: block for block in blocks}
            self._tables.moved(entry.id, HEAD, None, blocks[-1].hash)

    def get(self, ref: DatasetRef) -> DatasetEntry:
        entry = self.find(ref)
        if entry is None:
            raise DatasetNotFound(ref)
        return entry

    def find(self, ref: DatasetRef) -> DatasetEntry | None:
        with self._tables.lock:
            if ref.id is not None:
                return self._tables.entries.get(ref.id)
            return self._by_alias(ref.alias) if ref.alias is not None else None

    def find_all(self, wanted: Collection[DatasetId]) -> Mapping[DatasetId, DatasetEntry]:
        with self._tables.lock:
            entries = self._tables.entries
            return {dataset: entries[dataset] for dataset in wanted if dataset in entries}

    def find_named(self, wanted: Collection[DatasetAlias]) -> Mapping[DatasetAlias, DatasetEntry]:
        with self._tables.lock:
            found = {alias: self._by_alias(alias) for alias in wanted}
        return {alias: entry for alias, entry in found.items() if entry is not None}

    def page(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[DatasetEntry]:
        with self._tables.lock:
            entries = sorted(self._tables.entries.values(), key=lambda entry: entry.alias.folded)
        return [
            entry
            for entry in entries
            if (after is None or entry.alias.folded > after)
            and (account is None or _account(entry) == account.lower())
        ][:limit]

    def rename(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        with self._tables.lock:
            entry = self._tables.entry(dataset)
            self._refuse_taken(alias, but=dataset)
            self._tables.entries[dataset] = replace(entry, alias=alias)

    def forget(self, dataset: DatasetId, *, expected: Multihash | None = None) -> None:
        with self._tables.lock:
            self._tables.entry(dataset)
            if expected is not None:
                self._tables.require_head(dataset, expected)
            del self._tables.entries[dataset]
            self._tables.blocks.pop(dataset, None)
            self._tables.inputs.pop(dataset, None)
            self._tables.roles.pop(dataset, None)
            self._tables.mirrors.pop(dataset, None)
            self._tables.authors.pop(dataset, None)
            for key in [key for key in self._tables.refs if key[0] == dataset]:
                del self._tables.refs[key]

    def set_visibility(self, dataset: DatasetId, visibility: Visibility) -> None:
        with self._tables.lock:
            entry = self._tables.entry(dataset)
            self._tables.entries[dataset] = replace(entry, visibility=visibility)

    def set_inputs(self, dataset: DatasetId, inputs: Sequence[DatasetId]) -> None:
        with self._tables.lock:
            self._tables.entry(dataset)
            self._tables.inputs[dataset] = tuple(inputs)

    def dependants(self, dataset: DatasetId) -> Sequence[DatasetId]:
        with self._tables.lock:
            return sorted(
                other for other, inputs in self._tables.inputs.items() if dataset in inputs
            )

    def dependants_of_any(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]:
        with self._tables.lock:
            known = self._tables.inputs.items()
            return {other for other, inputs in known if not set(datasets).isdisjoint(inputs)}

    def _by_alias(self, alias: DatasetAlias) -> DatasetEntry | None:
        found = (e for e in self._tables.entries.values() if e.alias.folded == alias.folded)
        return next(found, None)

    def _refuse_taken(self, alias: DatasetAlias, *, but: DatasetId | None = None) -> None:
        other = self._by_alias(alias)
        if other is not None and other.id != but:
            raise AliasTaken(alias)


class MemoryRefIndex:
    """`RefIndex` in memory."""

    def __init__(self, tables: IndexTables, *, jobs: MemoryJobQueue | None = None) -> None:
        self._tables = tables
        self._jobs = jobs

    def head(self, dataset: DatasetId, ref: str = HEAD) -> Multihash:
        with self._tables.lock:
            self._tables.entry(dataset)
            if (dataset, ref) not in self._tables.refs:
                raise RefNotFound(ref)
            return self._tables.refs[dataset, ref]

    def heads(self, wanted: Collection[DatasetId]) -> Mapping[DatasetId, Multihash]:
        with self._tables.lock:
            refs = self._tables.refs
            return {each: refs[each, HEAD] for each in wanted if (each, HEAD) in refs}

    def move(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash,
        new: Multihash,
        blocks: Sequence[HashedBlock] = (),
        ref: str = HEAD,
        ended: Sequence[JobEnd] = (),
        of: DatasetEntry | None = None,
    ) -> None:
        def change() -> None:
            self._tables.blocks[dataset].update({block.hash: block for block in blocks})
            self._tables.moved(dataset, ref, expected, new)

        with self._tables.lock:
            if of is not None and self._tables.entry(dataset).created_at != of.created_at:
                raise DatasetNotFound(dataset)
            actual = self.head(dataset, ref)
            if actual != expected:
                raise RefConflict(expected, actual)
            base = blocks[0].prev if blocks else None
            if base is not None and base not in self._tables.blocks[dataset]:
                raise BlockNotFound(base)
            if self._jobs is None:
                change()
            else:
                self._jobs.end_all(ended, change)

    def move_all(self, wanted: Sequence[HeadMove]) -> Sequence[NodeError | None]:
        refused: list[NodeError | None] = []
        for move in wanted:
            given = {
                name: getattr(move, name)
                for name in ("expected", "new", "blocks", "ref", "ended", "of")
            }
            try:
                self.move(move.dataset, **given)
                refused.append(None)
            except NodeError as error:
                refused.append(error)
        return refused

    def moves(
        self, *, after: int, limit: int = 100, since: Instant | None = None
    ) -> Sequence[HeadMoved]:
        with self._tables.lock:
            later = self._tables.log[max(after, 0) :]
        return [move for move in later if since is None or move.at >= since][:limit]

    def prune(self, dataset: DatasetId, *, heads: Sequence[Multihash]) -> int:
        with self._tables.lock:
            self._tables.entry(dataset)
            self._tables.require_head(dataset, heads[0])
            blocks = self._tables.blocks[dataset]
            reached: set[Multihash] = set()
            for head in heads:
                following: Multihash | None = head
                while following in blocks and following not in reached:
                    reached.add(following)
                    following = blocks[following].prev
            unreached = blocks.keys() - reached
            for block in unreached:
                del blocks[block]
            return len(unreached)


class MemoryBlockIndex:
    """`BlockIndex` in memory."""

    def __init__(self, tables: IndexTables) -> None:
        self._tables = tables

    def find(self, dataset: DatasetId, block: Multihash) -> HashedBlock | None:
        with self._tables.lock:
            return self._tables.blocks.get(dataset, {}).get(block)

    def ancestors(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[HashedBlock]:
        path: list[HashedBlock] = []
        block = self.find(dataset, start)
        while block is not None and block.sequence_number >= down_to and len(path) < limit:
            path.append(block)
            block = self.find(dataset, block.prev) if block.prev is not None else None
        return path

    def raw(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[tuple[Multihash, bytes]]:
        path = self.ancestors(dataset, start, down_to=down_to, limit=limit)
        return [(block.hash, block.raw) for block in path]

    def lineage(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0
    ) -> Iterator[Multihash]:
        block = self.find(dataset, start)
        while block is not None and block.sequence_number >= down_to:
            yield block.hash
            block = self.find(dataset, block.prev) if block.prev is not None else None

    def count(self, dataset: DatasetId) -> int:
        with self._tables.lock:
            return len(self._tables.blocks.get(dataset, {}))


def _account(entry: DatasetEntry) -> str:
    return entry.alias.account.folded if entry.alias.account is not None else ""
