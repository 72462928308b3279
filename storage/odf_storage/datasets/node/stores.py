"""All stores of a node together, and operations that need more than one of them.

The index is the authority. The published head and alias of each dataset are stored beside its
objects, so that a folder or bucket is a complete ODF dataset by itself.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import sqlalchemy as sa

from odf_protocol.chain.rules import fold_received
from odf_protocol.errors import BadInput
from odf_protocol.identity import MAX_NAME_CHARS, DatasetAlias, DatasetId, DatasetRef, Name
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash

from ...runtime.clock import Clock, system_clock
from ...runtime.locks import Locks
from ...stores.index.sql import DatasetRegistry, RefIndex
from ...stores.index.sql_sizes import Quotas
from ...stores.jobs.sql import JobQueue
from ...stores.objects.layout import HEAD, dataset_folder, folder_trouble
from ...stores.ports import BlockIndex, KeyedStore, ObjectStore
from ...stores.ports.errors import (
    AliasTaken,
    DatasetIdTaken,
    DatasetNotFound,
    RefConflict,
    name_too_long,
)
from ...stores.ports.values import AccountId, DatasetEntry, Visibility
from ...stores.registers.accounts.access import DeviceLogins, RoleStore, UploadedFiles
from ...stores.registers.accounts.accounts import AccountStore
from ...stores.registers.accounts.audit import AuditLog
from ...stores.registers.accounts.providers import ProviderAccounts
from ...stores.registers.datasets.damages import DamageLog
from ...stores.registers.datasets.following import DefinitionAuthors, DerivationStore, MirrorStore
from ...stores.registers.datasets.overviews import OverviewStore
from ...stores.registers.datasets.publications import PublicationStore
from ...stores.registers.datasets.schedules import Schedules, Variables
from ...stores.registers.datasets.webhooks import WebhookStore
from ...stores.registers.signed.attestations import AttestationStore
from ...stores.registers.signed.dataset_keys import DatasetKeys
from ...stores.registers.signed.head_log import HeadLog, WitnessedLogs
from ...stores.sql.engine import reading
from ...stores.wakeups.wakeups import WakeUp
from ..dataset.dataset import Dataset, check_objects, put_blocks
from ..dataset.info import read_info, write_info
from ..dataset.state_cache import StateCache
from ..integrity.healing import Hashed
from .reader import Reader

_log = logging.getLogger("odf.node")
REPAIR_PAGE = 500
REPAIRS_AT_ONCE = 4


def seed_mismatch(dataset: DatasetId) -> BadInput:
    """The first block is not the Seed of the dataset that is to be created."""
    return BadInput(
        "SeedMismatch",
        f"the blocks do not begin with a Seed of {dataset} and its kind",
        dataset_id=str(dataset),
    )


@dataclass(frozen=True)
class Stores:
    """Opened stores; `odf_storage/datasets/node/open_stores.py` chooses them."""

    objects: ObjectStore
    projections: KeyedStore
    """Projections of datasets for readers, in one folder for each dataset, removed with the
    dataset."""
    registry: DatasetRegistry
    refs: RefIndex
    blocks: BlockIndex
    jobs: JobQueue
    accounts: AccountStore
    provider_accounts: ProviderAccounts
    roles: RoleStore
    devices: DeviceLogins
    files: UploadedFiles
    mirrors: MirrorStore
    derivations: DerivationStore
    definitions: DefinitionAuthors
    publications: PublicationStore
    overviews: OverviewStore
    webhooks: WebhookStore
    audit: AuditLog
    schedules: Schedules
    variables: Variables
    damages: DamageLog
    head_log: HeadLog
    witnessed: WitnessedLogs
    attestations: AttestationStore
    dataset_keys: DatasetKeys
    quotas: Quotas
    wake_up: WakeUp
    """Wakes the waiters for jobs in every process of the node."""
    engine: sa.Engine
    locks: Locks
    clock: Clock = system_clock
    """What all programs of the node measure times by."""
    states: StateCache = field(default_factory=StateCache)
    hashed: Hashed = field(default_factory=Hashed)
    """Cache of the objects that this process hashed recently."""
    copies: Sequence[ObjectStore] = ()
    """Other stores with the same objects, from which damaged ones are healed."""

    def dataset(self, ref: DatasetRef) -> Dataset:
        """Return a dataset of this node. Raises `DatasetNotFound`."""
        return Dataset(self.registry.get(ref), self)

    def create_dataset(
        self,
        entry: DatasetEntry,
        blocks: Sequence[HashedBlock],
        *,
        key: bytes | None = None,
        pushed: bool = False,
        unfinished: bool = False,
    ) -> Dataset:
        """Register a dataset with its first blocks; the Seed is the first.

        `key`: its secret key, sealed. `pushed`: a push creates it. `unfinished`: that push will
        send more blocks; if none ever come, garbage collection removes the dataset. `finish_push`
        ends this state.

        Raises:
            AliasTaken, DatasetIdTaken: with the fact `alias` or `dataset_id`.
            NameTooLong: of the dataset or the account.
            SeedMismatch: no blocks, or a Seed of another dataset or kind.
            ChainRuleBroken, ObjectMissing, SizeMismatch: as in `Dataset.commit`.
        """
        refuse_long(entry.alias)
        self._refuse_taken(entry)
        state = fold_received(blocks)
        if (state.dataset_id, state.kind) != (entry.id, entry.kind):
            raise seed_mismatch(entry.id)
        with self.locks.hold(entry.id):
            check_objects(self.objects, entry.id, blocks)
            put_blocks(self.objects, entry.id, blocks)
            self.registry.create(entry, blocks=blocks, key=key)
            self.states.put(entry.id, blocks[-1].hash, state)
            self.objects.write_alias(entry.id, entry.alias)
            write_info(self.objects, entry, pushed=pushed, unfinished=unfinished)
            self._write_heads([entry.id])
        return Dataset(entry, self)

    def finish_push(self, dataset: DatasetId) -> None:
        """Record that the first push of the dataset has ended. Raises `DatasetNotFound`."""
        with self.locks.hold(dataset):
            entry = self.registry.get(DatasetRef(id=dataset))
            known = read_info(self.objects, dataset)
            if known is not None and known.unfinished:
                write_info(self.objects, entry, pushed=known.pushed)

    def rename_dataset(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        """Rename a dataset. Raises `DatasetNotFound`, `AliasTaken`, `NameTooLong`."""
        refuse_long(alias)
        with self.locks.hold(dataset):
            self.registry.rename(dataset, alias)
            self.objects.write_alias(dataset, alias)

    def move_datasets(self, old: Name, new: Name, *, renamed: AccountId | None = None) -> None:
        """Move all datasets of an account to another, or rename the account `renamed` with them.

        Names beside the objects follow one by one; what a crash leaves stale is published again by
        the next start.

        Raises:
            AliasTaken, NameTooLong.
        """
        refuse_long(DatasetAlias(new, new))
        for entry in self.registry.move_account(old, new, renamed=renamed):
            with self.locks.hold(entry.id):
                self.objects.write_alias(entry.id, entry.alias)

    def set_visibility(self, dataset: DatasetId, visibility: Visibility) -> None:
        """Set the visibility of a dataset. Raises `DatasetNotFound`."""
        with self.locks.hold(dataset):
            self.registry.set_visibility(dataset, visibility)
            self._publish_info(self.registry.get(DatasetRef(id=dataset)))

    def forget_dataset(self, dataset: DatasetId, *, expected: Multihash | None = None) -> None:
        """Remove the dataset and all its objects; its lines in the log of moves stay.

        The published head is removed first. If a crash follows, the files of a dataset that the
        index has forgotten are garbage, and a rebuild of the index does not bring the dataset back.

        Raises:
            DatasetNotFound: it is unknown; objects left over by an earlier try are removed.
            RefConflict: its head is not `expected`, if that is given.

        If the index does not forget it, for whatever reason, the head is published again.
        """
        with self.locks.hold(dataset):
            if expected is not None and (head := self.refs.head(dataset)) != expected:
                raise RefConflict(expected, head)
            self.objects.remove_ref(dataset, HEAD)
            try:
                self.registry.forget(dataset, expected=expected)
            except DatasetNotFound:
                self._remove_files(dataset)
                raise
            except Exception:
                self._restore_head(dataset)
                raise
            self._remove_files(dataset)

    def _restore_head(self, dataset: DatasetId) -> None:
        """Publish the head of a dataset that was not removed. The caller holds its lock, and raises
        the error that prevented the removal."""
        try:
            self._write_heads([dataset])
        except Exception:
            _log.exception("dataset %s has no published head: odf-node fsck --repair", dataset)

    def _remove_files(self, dataset: DatasetId) -> None:
        self.objects.remove(dataset)
        made = self.projections.list(dataset_folder(dataset))
        self.projections.delete([info.key for info in made])

    def publish_head(self, dataset: DatasetId) -> None:
        """Publish the head of one dataset as `publish_heads` does."""
        self.publish_heads([dataset])

    def publish_heads(self, datasets: Collection[DatasetId]) -> None:
        """Write the heads beside the objects, again until no other move came in between.

        Writers publish after moving, in any order; the last writer reads the index last, so
        the published head ends up at that of the index. Datasets that were forgotten are skipped;
        if one is forgotten meanwhile, its head is removed again. So the caller must not hold the
        lock of any of them.
        """
        for forgotten in self._write_heads(datasets):
            with self.locks.hold(forgotten):
                if self.registry.find(DatasetRef(id=forgotten)) is None:
                    self.objects.remove_ref(forgotten, HEAD)
                else:  # it was created again, and its new head may have been overwritten
                    self._write_heads([forgotten])

    def _write_heads(self, datasets: Collection[DatasetId]) -> list[DatasetId]:
        """Write heads until they are those of the index; return the datasets that were forgotten
        after a head of them was written."""
        written: dict[DatasetId, Multihash] = {}
        forgotten: list[DatasetId] = []
        while datasets:
            heads = self.refs.heads(datasets)
            forgotten += [each for each in datasets if each in written and each not in heads]
            behind = {each: head for each, head in heads.items() if head != written.get(each)}
            self.objects.write_refs(HEAD, behind)
            written |= behind
            datasets = behind.keys()
        return forgotten

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Open a transaction for the reads of the yielded reader, and for no others.

        Inside, the caller must not write or wait for slow I/O, and must stop after an SQL error.
        States that took long to fold are stored after the transaction has ended.
        """
        with reading(self.engine) as db:
            reader = Reader(db, self.states)
            yield reader
        reader.states.keep_waiting()

    def republish_all(self, *, moved_since: Instant | None = None) -> int:
        """Publish again what crashes and outages left stale; return how many datasets were wrong.

        With `moved_since`, check only datasets whose head moved since then.
        """
        return sum(self.republishing(moved_since=moved_since))

    def republishing(self, *, moved_since: Instant | None = None) -> Iterator[int]:
        """Do the same in steps, and yield after each one how many datasets of it were wrong."""
        entries = self._entries() if moved_since is None else self._moved(moved_since)
        with ThreadPoolExecutor(REPAIRS_AT_ONCE) as pool:
            while step := list(islice(entries, REPAIR_PAGE)):
                yield sum(pool.map(self.republish, step))

    def _entries(self) -> Iterator[DatasetEntry]:
        after = None
        while page := self.registry.page(after=after, limit=REPAIR_PAGE):
            yield from page
            after = page[-1].alias.folded

    def _moved(self, since: Instant) -> Iterator[DatasetEntry]:
        seen, after = set[DatasetId](), 0
        while page := self.refs.moves(after=after, limit=REPAIR_PAGE, since=since):
            for dataset in {move.dataset for move in page} - seen:
                seen.add(dataset)
                if (entry := self.registry.find(DatasetRef(id=dataset))) is not None:
                    yield entry
            after = page[-1].number

    def write_trouble(self) -> str | None:
        """Return why nothing can be stored in the folders of this node; None if writes work."""
        found = (folder_trouble(folder) for folder in self.folders())
        return next((trouble for trouble in found if trouble is not None), None)

    def free_bytes(self) -> int | None:
        """Return the free bytes of the fullest folder of this node; None if it has no folders."""
        return min((shutil.disk_usage(folder).free for folder in self.folders()), default=None)

    def folders(self) -> list[Path]:
        """Return the folders of this machine in which the node keeps its objects and its
        database."""
        local = self.objects.local_paths
        folders = [] if local is None else [local.root]
        if self.engine.dialect.name == "sqlite":
            folders.append(Path(str(self.engine.url.database)).parent)
        return list(dict.fromkeys(folders))

    def close(self) -> None:
        """Close all connections and threads."""
        for objects in (self.objects, *self.copies):
            objects.close()
        self.engine.dispose()

    def republish(self, entry: DatasetEntry) -> bool:
        """Publish one dataset as `republish_all` does; return whether anything was wrong."""
        try:
            if self._is_published(entry):
                return False
            self.publish(entry.id)
        except DatasetNotFound:  # forgotten meanwhile
            return False
        return True

    def _is_published(self, entry: DatasetEntry) -> bool:
        info = read_info(self.objects, entry.id)
        return (
            self.objects.read_ref(entry.id, HEAD) == self.refs.head(entry.id)
            and str(self.objects.read_alias(entry.id)) == str(entry.alias)
            and info is not None
            and (info.visibility, info.created_at) == (entry.visibility, entry.created_at)
        )

    def publish(self, dataset: DatasetId) -> None:
        """Write everything again that is stored beside the objects. Raises `DatasetNotFound`."""
        with self.locks.hold(dataset):
            entry = self.registry.get(DatasetRef(id=dataset))
            self.objects.write_alias(dataset, entry.alias)
            self._publish_info(entry)
            self._write_heads([dataset])

    def _publish_info(self, entry: DatasetEntry) -> None:
        known = read_info(self.objects, entry.id)
        pushed, unfinished = (False, False) if known is None else (known.pushed, known.unfinished)
        write_info(self.objects, entry, pushed=pushed, unfinished=unfinished)

    def _refuse_taken(self, entry: DatasetEntry) -> None:
        """Refuse taken names before anything is written; `registry.create` makes the final
        decision."""
        if self.registry.find(DatasetRef(id=entry.id)) is not None:
            raise DatasetIdTaken(entry.id)
        if self.registry.find(DatasetRef(alias=entry.alias)) is not None:
            raise AliasTaken(entry.alias)


def refuse_long(alias: DatasetAlias) -> None:
    """Raise `NameTooLong` if the name of the dataset or account is too long."""
    for name in (alias.name, alias.account):
        if name is not None and len(name.text) > MAX_NAME_CHARS:
            raise name_too_long(name)
