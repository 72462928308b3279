"""Restore a backup into empty stores, of any kind.

Objects come first, the index in one transaction last. Until that has ended, a secret in the
database says that the restore is not finished, and no node starts on it; the same restore, begun
again, uses the objects that are there.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from odf_protocol.codec.blocks import decode_hashed
from odf_protocol.errors import BadInput, Conflict
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import HashMismatch

from ...runtime.private_files import make_private
from ...stores.index.sql_blocks import insert_blocks
from ...stores.index.sql_sizes import AT_ONCE, COUNTED, add_growths, growths, growths_of_objects
from ...stores.objects.layout import PENDING_PREFIX
from ...stores.registers.accounts.sealing import KEY_FILE
from ...stores.sql.engine import large_cache, writing
from ...stores.sql.migrate import LATEST
from ...stores.sql.tables import accounts, datasets, secrets
from ..node.open_stores import DATABASE_FILE, UNFINISHED, StoreSettings, open_stores
from ..node.stores import Stores
from .check import chain_of
from .make import Progress, objects_of
from .manifest import BackupManifest, Held, read_piece
from .place import Place, damaged
from .tables import load, set_following
from .threads import BackupThreads


@dataclass(slots=True, kw_only=True)
class RestoreReport:
    """What was restored."""

    number: int
    at: str
    datasets: int = 0
    blocks: int = 0
    objects: int = 0
    rows: int = 0
    left_out: int = 0
    has_keys: bool = False
    """Whether the keys of the node's secrets were in the backup."""
    sealed_secrets: int = 0
    """Variables and tokens that need these keys."""

    def to_data(self) -> dict[str, Any]:
        return asdict(self)


def restore(
    place: Place,
    manifest: BackupManifest,
    settings: StoreSettings,
    *,
    without: Collection[DatasetId] = (),
    progress: Progress = lambda _step, _done, _total: None,
) -> RestoreReport:
    """Restore a backup, except for the datasets of `without`.

    Raises:
        RestoreTargetTaken: the folder, database or store is not empty, or another backup was
            being restored there.
        BackupOfNewerSchema; BackupDamaged: nothing that a node would start on was written.
    """
    if manifest.schema > LATEST:
        raise BadInput(
            "BackupOfNewerSchema",
            f"the backup has schema {manifest.schema}, and this version knows {LATEST}; restore it "
            f"with version {manifest.version} or later",
        )
    _refuse_taken_folder(settings.data)
    stores = open_stores(settings, repair=False, unfinished=True)
    try:
        return _Restore(place, manifest, stores, settings.data, without, progress).run()
    finally:
        stores.close()


def _refuse_taken_folder(data: Path) -> None:
    """A folder with a database may be one of this restore, which the database says."""
    if not data.is_dir() or (data / DATABASE_FILE).exists():
        return
    other = [path.name for path in data.iterdir() if path.name not in _MAY_BE_THERE]
    if other:
        raise taken(f"{data} has other files, such as {min(other)}; name an empty folder")


_MAY_BE_THERE = (KEY_FILE, "bells", "datasets", "uploads", "projections")
"""What a restore whose database is elsewhere may have left; the store is looked at besides."""


def taken(why: str) -> Conflict:
    return Conflict("RestoreTargetTaken", f"nothing was restored: {why}")


class _Restore:
    """One run."""

    def __init__(
        self,
        place: Place,
        manifest: BackupManifest,
        stores: Stores,
        data: Path,
        without: Collection[DatasetId],
        progress: Progress,
    ) -> None:
        self._place, self._manifest, self._stores = place, manifest, stores
        self._data, self._progress = data, progress
        known = {one.id for one in manifest.held}
        if strangers := [each for each in without if str(each) not in known]:
            raise BadInput("NotInBackup", f"the backup has no dataset {strangers[0]}")
        left_out = {str(each) for each in without} | set(manifest.gone)
        self._left_out = {DatasetId.parse(each).key for each in left_out}
        self._held = [one for one in manifest.held if one.id not in left_out]
        self._mark = f"{manifest.node}/{manifest.number}/{'/'.join(sorted(left_out))}".encode()
        self._report = RestoreReport(number=manifest.number, at=manifest.at, left_out=len(left_out))

    def run(self) -> RestoreReport:
        self._claim()
        with BackupThreads() as beside:
            for number, count in enumerate(beside.each(self._objects, self._held)):
                self._progress("datasets", number, len(self._held))
                self._report.objects += count
        self._report.datasets = sum(held.head is not None for held in self._held)
        self._keys()
        with writing(self._stores.engine) as db, large_cache(db):
            self._tables(db)
            db.execute(sa.update(datasets).values(stored_bytes=0))
            for held in self._held:
                self._chain(db, held)
            self._report.sealed_secrets = _sealed(db)
            db.execute(sa.delete(secrets).where(secrets.c.name == UNFINISHED))
        for number, wrong in enumerate(self._stores.republishing()):
            self._progress("heads", number + wrong, len(self._held))
        return self._report

    def _claim(self) -> None:
        """Mark the database as not restored yet, if it is empty; or see that this restore did."""
        with writing(self._stores.engine) as db:
            query = sa.select(secrets.c.value).where(secrets.c.name == UNFINISHED)
            mark = db.execute(query).scalar_one_or_none()
            if mark is not None and bytes(mark) == self._mark:
                return
            if mark is not None:
                raise taken("another backup was being restored there; restore that, or begin anew")
            if any(db.execute(sa.select(each).limit(1)).first() for each in (datasets, accounts)):
                raise taken("there is a node; name an empty folder, and an empty database")
            if next(self._stores.objects.datasets(), None) is not None:
                raise taken("the store of objects has datasets; name an empty one")
            db.execute(sa.insert(secrets).values(name=UNFINISHED, value=self._mark))

    def _objects(self, held: Held) -> int:
        """Restore the objects of a dataset; return how many there are. Several run side by side."""
        count = 0
        for name, info in objects_of(self._place, held):
            if self._stores.objects.stat(info.key) is None:
                try:
                    self._stores.objects.put(info.key, self._place.chunks(name))
                except HashMismatch:
                    raise damaged(f"{name} is not what its hash says") from None
            count += 1
        for blocks in chain_of(self._place, held) if held.head is not None else ():
            self._stores.objects.put_blocks(DatasetId.parse(held.id), blocks)
        return count

    def _chain(self, db: sa.Connection, held: Held) -> None:
        if held.head is None:
            return
        dataset = DatasetId.parse(held.id)
        for blocks in chain_of(self._place, held):
            decoded = [decode_hashed(name, raw) for name, raw in blocks]
            added = growths(db, [(dataset, decoded)])
            insert_blocks(db, dataset, decoded)
            add_growths(db, added)
            self._report.blocks += len(blocks)
        counted = (info for _, info in objects_of(self._place, held) if info.key.kind in COUNTED)
        while page := list(islice(counted, AT_ONCE)):
            sizes = {(each.key.kind, each.key.hash): each.size for each in page}
            add_growths(db, growths_of_objects(db, dataset, sizes))

    def _tables(self, db: sa.Connection) -> None:
        tables = self._manifest.tables
        for number, table in enumerate(tables):
            self._progress("tables", number, len(tables))
            pieces = (read_piece(self._place, piece) for piece in table.pieces)
            self._report.rows += load(db, pieces, self._left_out)
            set_following(db, table.name, table.following)

    def _keys(self) -> None:
        """Write the keys of the backup, unless there are keys already."""
        path = self._data / KEY_FILE
        if self._manifest.keys is not None and not path.exists():
            make_private(self._data)
            pending = path.with_name(f"{PENDING_PREFIX}{KEY_FILE}")
            pending.unlink(missing_ok=True)
            handle = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as out:
                out.write(base64.b64decode(self._manifest.keys))
                out.flush()
                os.fsync(out.fileno())
            pending.replace(path)
        self._report.has_keys = path.exists()


def _sealed(db: sa.Connection) -> int:
    """Return how many secrets and keys of datasets the restored database has."""
    query = sa.text(
        "SELECT (SELECT count(*) FROM variables WHERE is_secret)"
        " + (SELECT count(*) FROM dataset_keys)"
    )
    return int(db.execute(query).scalar_one())
