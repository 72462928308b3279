"""Roles, device logins and uploaded files keep their promises in both databases."""

from __future__ import annotations

from tests.conformance.access_stores import (
    DeviceLoginsContract,
    RoleStoreContract,
    UploadedFilesContract,
)


class TestRoleStores(RoleStoreContract):
    pass


class TestDeviceLogins(DeviceLoginsContract):
    pass


class TestUploadedFiles(UploadedFilesContract):
    pass
