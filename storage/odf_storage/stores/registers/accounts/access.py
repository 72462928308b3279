"""Roles, device logins and uploaded files in a SQL database (SQLite or PostgreSQL)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ...ports.errors import AccountNotFound, DatasetNotFound
from ...ports.values import (
    AccountId,
    DeviceLogin,
    Role,
    UploadedFile,
)
from ...sql.engine import (
    Source,
    insert_new,
    reading,
    storable,
    writing,
)
from ...sql.tables import (
    accounts,
    datasets,
    device_logins,
    roles,
    uploaded_files,
)


class RoleReads:
    """Reads which account has which role for which dataset."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def of_dataset(self, dataset: DatasetId) -> Mapping[AccountId, Role]:
        query = sa.select(roles).where(roles.c.dataset == dataset)
        with reading(self._source) as db:
            rows = db.execute(query).mappings().all()
        return {AccountId(row["account"]): Role(row["role"]) for row in rows}

    def of_account(self, account: AccountId) -> Mapping[DatasetId, Role]:
        query = sa.select(roles).where(roles.c.account == account)
        with reading(self._source) as db:
            rows = db.execute(query).mappings().all()
        return {row["dataset"]: Role(row["role"]) for row in rows}


class RoleStore(RoleReads):
    """Grants and removes roles. Forgetting a dataset removes its roles.

    `put` replaces a role; it raises `DatasetNotFound` or `AccountNotFound`. Removing an absent
    role changes nothing.
    """

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._engine = engine

    def put(self, dataset: DatasetId, account: AccountId, role: Role) -> None:
        with writing(self._engine) as db:
            if _absent(db, datasets.c.id, dataset):
                raise DatasetNotFound(dataset)
            _require_account(db, account)
            row = insert_new(db, roles).values(dataset=dataset, account=account, role=role.value)
            key = ["dataset", "account"]
            db.execute(row.on_conflict_do_update(index_elements=key, set_={"role": role.value}))

    def remove(self, dataset: DatasetId, account: AccountId) -> None:
        if not storable(account):
            return
        key = (roles.c.dataset == dataset, roles.c.account == account)
        with writing(self._engine) as db:
            db.execute(sa.delete(roles).where(*key))


class DeviceLogins:
    """Pending logins of command lines, by the hash of their secret code, until the user decides.

    An absent login is None or False, never an error, because codes come from strangers.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def put(self, login: DeviceLogin) -> None:
        row = {name: getattr(login, name) for name in device_logins.c.keys()}  # noqa: SIM118
        with writing(self._engine) as db:
            db.execute(sa.insert(device_logins).values(**row))

    def find(self, code_hash: bytes) -> DeviceLogin | None:
        with reading(self._engine) as db:
            return _login(db, device_logins.c.code_hash == code_hash)

    def find_by_user_code(self, user_code_hash: bytes) -> DeviceLogin | None:
        """Return the newest login with this code for its user."""
        with reading(self._engine) as db:
            return _login(db, device_logins.c.user_code_hash == user_code_hash)

    def polled(self, code_hash: bytes, at: Instant) -> None:
        change = sa.update(device_logins).where(device_logins.c.code_hash == code_hash)
        with writing(self._engine) as db:
            db.execute(change.values(polled_at=at))

    def decide(self, code_hash: bytes, account: AccountId | None) -> bool:
        """Approve it for the account, or deny it (None). False: it is absent or was decided."""
        undecided = (
            device_logins.c.code_hash == code_hash,
            device_logins.c.account.is_(None),
            device_logins.c.is_denied.is_(False),
        )
        change = sa.update(device_logins).where(*undecided)
        with writing(self._engine) as db:
            done = db.execute(change.values(account=account, is_denied=account is None))
            return bool(done.rowcount)

    def take(self, code_hash: bytes) -> DeviceLogin | None:
        """Remove and return the login; only one of several concurrent callers gets it."""
        with writing(self._engine) as db:
            found = _login(db, device_logins.c.code_hash == code_hash)
            gone = db.execute(
                sa.delete(device_logins).where(device_logins.c.code_hash == code_hash)
            )
            return found if gone.rowcount else None

    def count(self) -> int:
        with reading(self._engine) as db:
            return db.execute(sa.select(sa.func.count()).select_from(device_logins)).scalar_one()

    def remove_expired(self, now: Instant) -> int:
        expired = sa.delete(device_logins).where(device_logins.c.expires_at <= now)
        with writing(self._engine) as db:
            return int(db.execute(expired).rowcount)


class UploadedFiles:
    """Files that accounts upload before ingesting them; their bytes are `upload` objects.

    `put` raises `AccountNotFound`.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def put(self, file: UploadedFile) -> None:
        row = {name: getattr(file, name) for name in uploaded_files.c.keys()}  # noqa: SIM118
        with writing(self._engine) as db:
            _require_account(db, file.account)
            db.execute(sa.insert(uploaded_files).values(**row))

    def find(self, upload: str) -> UploadedFile | None:
        if not storable(upload):
            return None
        with reading(self._engine) as db:
            return _file(db, upload)

    def arrived(self, upload: str, content: Multihash, size: int) -> UploadedFile | None:
        """Record the content unless one is known already. Return the file; None if absent."""
        if not storable(upload):
            return None
        awaited = (uploaded_files.c.id == upload, uploaded_files.c.hash.is_(None))
        with writing(self._engine) as db:
            db.execute(sa.update(uploaded_files).where(*awaited).values(hash=content, size=size))
            return _file(db, upload)

    def count(self, account: AccountId) -> int:
        own = uploaded_files.c.account == account
        query = sa.select(sa.func.count()).select_from(uploaded_files).where(own)
        with reading(self._engine) as db:
            return db.execute(query).scalar_one()

    def oldest(self, *, before: Instant, limit: int = 100) -> Sequence[UploadedFile]:
        """Return files that were announced before that time, oldest first."""
        columns = uploaded_files.c
        query = sa.select(uploaded_files).where(columns.created_at < before)
        query = query.order_by(columns.created_at, columns.id).limit(limit)
        with reading(self._engine) as db:
            return [UploadedFile(**row) for row in db.execute(query).mappings()]

    def has_content(self, account: AccountId, content: Multihash) -> bool:
        """Return whether a file of the account has this content."""
        if not storable(account):
            return False
        columns = uploaded_files.c
        same = (columns.account == account, columns.hash == content)
        with reading(self._engine) as db:
            return db.execute(sa.select(columns.id).where(*same).limit(1)).first() is not None

    def remove(self, upload: str) -> None:
        if not storable(upload):
            return
        with writing(self._engine) as db:
            db.execute(sa.delete(uploaded_files).where(uploaded_files.c.id == upload))


def _login(db: sa.Connection, is_it: sa.ColumnElement[bool]) -> DeviceLogin | None:
    query = sa.select(device_logins).where(is_it).order_by(device_logins.c.created_at.desc())
    row = db.execute(query.limit(1)).mappings().one_or_none()
    if row is None:
        return None
    hashes = {name: row[name] for name in ("code_hash", "user_code_hash")}
    plain = {name: None if value is None else bytes(value) for name, value in hashes.items()}
    return DeviceLogin(**{**row, **plain})


def _file(db: sa.Connection, upload: str) -> UploadedFile | None:
    query = sa.select(uploaded_files).where(uploaded_files.c.id == upload)
    row = db.execute(query).mappings().one_or_none()
    return None if row is None else UploadedFile(**row)


def _require_account(db: sa.Connection, account: AccountId) -> None:
    if not storable(account) or _absent(db, accounts.c.id, account):
        raise AccountNotFound(account)


def _absent(db: sa.Connection, column: sa.Column[object], value: object) -> bool:
    return db.execute(sa.select(column).where(column == value)).one_or_none() is None
