"""Roles, device logins and uploaded files in memory: for tests and throw-away nodes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from protocol.identity import DatasetId
from protocol.instant import Instant
from protocol.multihash import Multihash

from ..index.memory import IndexTables
from ..ports import AccountStore
from ..values import AccountId, DeviceLogin, Role, UploadedFile


class MemoryRoleStore:
    """`RoleStore` beside the index it speaks of."""

    def __init__(self, tables: IndexTables, accounts: AccountStore) -> None:
        self._tables, self._accounts = tables, accounts

    def put(self, dataset: DatasetId, account: AccountId, role: Role) -> None:
        self._accounts.account(account)
        with self._tables.lock:
            self._tables.entry(dataset)
            self._tables.roles.setdefault(dataset, {})[account] = role

    def remove(self, dataset: DatasetId, account: AccountId) -> None:
        with self._tables.lock:
            self._tables.roles.get(dataset, {}).pop(account, None)

    def of_dataset(self, dataset: DatasetId) -> Mapping[AccountId, Role]:
        with self._tables.lock:
            return dict(self._tables.roles.get(dataset, {}))

    def of_account(self, account: AccountId) -> Mapping[DatasetId, Role]:
        with self._tables.lock:
            held = self._tables.roles.items()
            return {dataset: roles[account] for dataset, roles in held if account in roles}


class MemoryDeviceLogins:
    """`DeviceLogins` in a dictionary."""

    def __init__(self) -> None:
        self._logins: dict[bytes, DeviceLogin] = {}
        self._lock = threading.Lock()

    def put(self, login: DeviceLogin) -> None:
        with self._lock:
            self._logins[login.code_hash] = login

    def find(self, code_hash: bytes) -> DeviceLogin | None:
        return self._logins.get(code_hash)

    def polled(self, code_hash: bytes, at: Instant) -> None:
        with self._lock:
            if code_hash in self._logins:
                self._logins[code_hash] = replace(self._logins[code_hash], polled_at=at)

    def decide(self, code_hash: bytes, account: AccountId | None) -> bool:
        with self._lock:
            login = self._logins.get(code_hash)
            if login is None or login.account is not None or login.is_denied:
                return False
            self._logins[code_hash] = replace(login, account=account, is_denied=account is None)
            return True

    def take(self, code_hash: bytes) -> DeviceLogin | None:
        with self._lock:
            return self._logins.pop(code_hash, None)

    def count(self) -> int:
        return len(self._logins)

    def remove_expired(self, now: Instant) -> int:
        with self._lock:
            gone = [key for key, login in self._logins.items() if login.expires_at <= now]
            for key in gone:
                del self._logins[key]
            return len(gone)


class MemoryUploadedFiles:
    """`UploadedFiles` in a dictionary."""

    def __init__(self, accounts: AccountStore) -> None:
        self._accounts = accounts
        self._files: dict[str, UploadedFile] = {}
        self._lock = threading.Lock()

    def put(self, file: UploadedFile) -> None:
        self._accounts.account(file.account)
        with self._lock:
            self._files[file.id] = file

    def find(self, upload: str) -> UploadedFile | None:
        return self._files.get(upload)

    def arrived(self, upload: str, content: Multihash, size: int) -> UploadedFile | None:
        with self._lock:
            file = self._files.get(upload)
            if file is not None and file.hash is None:
                file = self._files[upload] = replace(file, hash=content, size=size)
            return file

    def count(self, account: AccountId) -> int:
        with self._lock:
            return sum(file.account == account for file in self._files.values())

    def oldest(self, *, before: Instant, limit: int = 100) -> Sequence[UploadedFile]:
        with self._lock:
            old = [file for file in self._files.values() if file.created_at < before]
        return sorted(old, key=lambda file: (file.created_at, file.id))[:limit]

    def has_content(self, account: AccountId, content: Multihash) -> bool:
        with self._lock:
            files = self._files.values()
            return any((file.account, file.hash) == (account, content) for file in files)

    def remove(self, upload: str) -> None:
        with self._lock:
            self._files.pop(upload, None)
