"""Open the stores that typed settings select."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from odf_protocol.errors import BadInput, Conflict

from ...runtime.clock import Clock
from ...runtime.environment import SharedSettings
from ...runtime.extras import extra_missing
from ...runtime.locks import locks_of
from ...runtime.private_files import make_private, touch_private
from ...stores.index.sql import DatasetRegistry, RefIndex
from ...stores.index.sql_blocks import SqlBlockIndex, StateKeeper
from ...stores.index.sql_sizes import Quotas
from ...stores.jobs.sql import JobQueue
from ...stores.keyed.folder import Below, FolderKeyedStore
from ...stores.objects.layout import PROJECTIONS
from ...stores.objects.local import LocalObjectStore
from ...stores.ports import KeyedStore, ObjectStore
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
from ...stores.sql.clock import shared_clock
from ...stores.sql.engine import open_engine, sqlite_url
from ...stores.sql.migrate import migrate as migrate_database
from ...stores.wakeups.wakeups import PipeWakeUp, PostgresWakeUp, WakeUp
from ..dataset.state_cache import StateCache
from ..integrity.healing import REHASH_S, Hashed
from .stores import Stores

DATABASE_FILE = "node.db"
BELLS = "bells"
UNFINISHED = "restore-unfinished"
"""Secret of a database into which a backup is being restored."""


_Opened = tuple[ObjectStore, KeyedStore]
"""Store of objects, and store of files that are named by keys."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Where a node keeps its state."""

    data: Path
    """Local folder of the database and objects, unless URLs name other locations."""
    database_url: str | None = None
    """`sqlite:///path` or `postgresql://…`; absent: `node.db` in `data`."""
    objects_url: str | None = None
    """`file:///path`, `s3://bucket/prefix`, or `s3+http://host:port/bucket/prefix` for a
    self-hosted server (also `s3+https`); absent: `data`. boto3 finds credentials, region and
    further settings of S3 in its usual sources: `AWS_ACCESS_KEY_ID`, profiles, roles."""
    objects_public_url: str | None = None
    """Where clients reach the server of the bucket, `https://host[:port]`; absent: where the node
    does."""
    object_copies: tuple[str, ...] = ()
    """Objects URLs of copies, such as backups, from which damaged objects are healed; read only."""
    rehash_s: float = REHASH_S
    """Seconds for which a hashed object counts as whole while its identity is unchanged."""
    durable: bool = True
    """Sync to disk before a write is reported as done. Off only for tests."""

    @classmethod
    def of(cls, settings: SharedSettings) -> StoreSettings:
        """Return the settings of a program that hands out no URLs of the bucket."""
        return cls(
            data=settings.data,
            database_url=settings.database_url,
            objects_url=settings.objects_url,
            object_copies=settings.object_copies,
            rehash_s=settings.rehash_s,
        )


def _database_url(settings: StoreSettings) -> str:
    """Return the URL of the database. A new file in the data folder is private."""
    make_private(settings.data)
    if settings.database_url is not None:
        return settings.database_url
    touch_private(settings.data / DATABASE_FILE)
    return sqlite_url(settings.data / DATABASE_FILE)


def open_stores(
    settings: StoreSettings,
    *,
    migrate: bool = True,
    repair: bool = True,
    unfinished: bool = False,
    clock: Clock | None = None,
) -> Stores:
    """Open database and objects; bring the schema and published heads up to date.

    Without a `clock` it is that of the database (`stores/sql/clock.py`).

    Raises:
        RestoreUnfinished: a backup is being restored there; `unfinished` allows that.
        UnknownDatabase, UnknownObjectStore, MalformedStoreUrl: a URL that cannot be opened.
        StoreMisconfigured, StoreUnavailable: the bucket is missing, not ours, or does not answer.
    """
    objects, projections = _open_objects(settings)
    url = _database_url(settings)
    engine = open_engine(url, durable=settings.durable)
    _make_ready(engine, migrate=migrate, unfinished=unfinished)
    wake_up = _wake_up(engine, settings.data)
    clock = clock or shared_clock(engine)
    stores = Stores(
        objects=objects,
        projections=projections,
        registry=DatasetRegistry(engine, clock=clock, wake_up=wake_up),
        refs=RefIndex(engine, clock=clock, wake_up=wake_up),
        blocks=SqlBlockIndex(engine),
        jobs=JobQueue(engine, clock=clock, wake_up=wake_up),
        accounts=AccountStore(engine, clock=clock),
        provider_accounts=ProviderAccounts(engine),
        roles=RoleStore(engine),
        devices=DeviceLogins(engine),
        files=UploadedFiles(engine),
        mirrors=MirrorStore(engine),
        derivations=DerivationStore(engine),
        definitions=DefinitionAuthors(engine),
        overviews=OverviewStore(engine),
        publications=PublicationStore(engine),
        webhooks=WebhookStore(engine),
        audit=AuditLog(engine),
        schedules=Schedules(engine, wake_up),
        variables=Variables(engine),
        wake_up=wake_up,
        engine=engine,
        clock=clock,
        states=StateCache(keeper=StateKeeper(engine)),
        locks=locks_of(open_engine(url, pooled=False)),
        damages=DamageLog(engine),
        quotas=Quotas(engine, clock=clock),
        head_log=HeadLog(engine),
        witnessed=WitnessedLogs(engine),
        attestations=AttestationStore(engine),
        dataset_keys=DatasetKeys(engine),
        hashed=Hashed(seconds=settings.rehash_s),
        copies=tuple(_open_copy(settings, url) for url in settings.object_copies),
    )
    if repair:
        stores.republish_all()
    return stores


def _make_ready(engine: sa.Engine, *, migrate: bool, unfinished: bool) -> None:
    if migrate:
        migrate_database(engine)
    if not unfinished and AccountStore(engine).has_secret(UNFINISHED):
        raise Conflict(
            "RestoreUnfinished",
            "a backup was not restored to its end here; run the same `odf-node restore` again, "
            "which goes on, or name an empty folder and database",
        )


def _wake_up(engine: sa.Engine, data: Path) -> WakeUp:
    """Choose the wake-up: PostgreSQL reaches processes on other machines; with SQLite all are
    local."""
    if engine.dialect.name == "postgresql":
        return PostgresWakeUp(engine)
    return PipeWakeUp(data / BELLS)


def _open_objects(settings: StoreSettings, *, check: bool = True) -> _Opened:
    """Open the object store of the settings. With `check`, an unreachable bucket is an error
    now."""
    if settings.objects_url is None:
        return _in_folder(settings.data, settings)
    scheme = settings.objects_url.partition("://")[0]
    if scheme not in _OBJECT_STORES:
        known = ", ".join(sorted(_OBJECT_STORES))
        raise BadInput("UnknownObjectStore", f"object stores are {known}; not {scheme[:50]!r}")
    return _OBJECT_STORES[scheme](settings, check)


def _open_copy(settings: StoreSettings, url: str) -> ObjectStore:
    """Open a copy without checking that its bucket answers. Raises the same errors as
    `_open_objects`."""
    return _open_objects(replace(settings, objects_url=url, objects_public_url=None), check=False)[
        0
    ]


def _in_folder(path: Path, settings: StoreSettings) -> _Opened:
    files = FolderKeyedStore(path / PROJECTIONS, durable=settings.durable)
    return LocalObjectStore(path, durable=settings.durable), files


def _open_folder(settings: StoreSettings, check: bool) -> _Opened:  # noqa: ARG001
    return _in_folder(Path(str(settings.objects_url).removeprefix("file://")), settings)


def _open_bucket(settings: StoreSettings, check: bool) -> _Opened:
    try:
        from ...stores.keyed.bucket import BucketKeyedStore

        # boto3 is an optional extra, and slow to import
        from ...stores.objects.s3 import S3ObjectStore
        from ...stores.objects.s3_bucket import Bucket, S3Location
    except ModuleNotFoundError as missing:
        raise (extra_missing(missing) or missing) from None
    location = S3Location.parse(str(settings.objects_url))
    bucket = Bucket(location, public_endpoint=settings.objects_public_url)
    if check:
        bucket.check()
    return S3ObjectStore(bucket), Below(BucketKeyedStore(bucket), PROJECTIONS)


_OBJECT_STORES: dict[str, Callable[[StoreSettings, bool], _Opened]] = {
    "file": _open_folder,
    "s3": _open_bucket,
    "s3+http": _open_bucket,
    "s3+https": _open_bucket,
}
"""Functions that open an object store, by URL scheme."""
