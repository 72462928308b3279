"""Tables as responses of the catalogue, and the generated files to which they refer."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

from anyio import to_thread

from odf_storage.datasets.versions.dead_rows import DeadRows
from odf_storage.stores.ports.values import DatasetEntry, Visibility

from ..auth.dataset_access import DatasetAccess
from ..auth.signed_urls import ACCESS_KEY, VendedKeys
from ..history.versions import Versioned, VersionReads
from ..projections.gateway import ServedFile
from ..sharing.names import VIEWS, SharedTable
from .table import FileKind, FileMemory, FileName, IcebergTable, MadeFiles, no_such_table_file

MAX_SNAPSHOTS = 1_000
"""Newest snapshots that are told with a table of Iceberg."""

REGION = "us-east-1"
"""A region without meaning. Clients without one would look it up on the internet."""
_LISTS_DELETES = (FileKind.SNAPSHOT, FileKind.DELETES, FileKind.ROWS)


@dataclass(frozen=True)
class IcebergTables:
    """Makes tables and their files from the datasets of a node."""

    reads: VersionReads
    access: DatasetAccess
    keys: VendedKeys
    memory: FileMemory = field(repr=False)
    most_snapshots: int
    """Limit of snapshots in the metadata of a table; they are the newest."""
    most_deleted: int
    """Limit of deleted rows of one slice."""

    async def load(
        self, entry: DatasetEntry, view: str, caller: str, *, only_newest: bool
    ) -> dict[str, Any]:
        """Return the location of the metadata of a table, and the metadata.

        Raises:
            NotInIceberg, TooManyDeletedRows, and the errors of `VersionReads`.
        """
        table = self._table(await self.reads.of(entry, caller), view)
        table.check_types()
        count = len(table.found.versions)
        dead = await self._dead(table, table.found.versions.last, caller)
        self._made(table, dead).check()
        most = 1 if only_newest else self.most_snapshots
        told = await to_thread.run_sync(table.metadata, count, most)
        place = table.path(table.name(FileKind.METADATA, count))
        return {"metadata-location": place, "metadata": told}

    async def file(self, entry: DatasetEntry, text: str, caller: str) -> ServedFile:
        """Return a file to which metadata or manifests refer.

        Raises:
            NoSuchTableFile, TooManyDeletedRows, and the errors of `VersionReads`.
        """
        name = FileName.parse(text)
        found = await self.reads.of(entry, caller)
        tables = [self._table(found, view) for view in VIEWS]
        table = next((each for each in tables if each.identity == name.identity), None)
        if table is None:
            raise no_such_table_file()
        made = self.memory.recall(table.path(name))
        if made is None:
            dead = await self._dead_for(table, name, caller)
            made = await to_thread.run_sync(self._made(table, dead).get, name)
        content = made.content
        return ServedFile(
            open=lambda: io.BytesIO(content),
            size=len(content),
            tag=made.tag,
            is_fixed=True,
            is_public=entry.visibility is Visibility.PUBLIC,
        )

    def credentials(self, table: SharedTable, base: str) -> tuple[str, dict[str, str]]:
        """Return the location of the files, and the properties with which a client can read them.
        `base` is the URL of this node."""
        keys = self.keys.make(table.entry.id, table.account)
        return self._location(table.entry), {
            "s3.endpoint": base.rstrip("/"),
            "s3.region": REGION,
            "s3.path-style-access": "true",
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": keys.secret,
            "s3.session-token": keys.token,
            "s3.session-token-expires-at-ms": str(1000 * keys.expires_s),
        }

    def _location(self, entry: DatasetEntry) -> str:
        return f"s3://{self.access.shown_alias(entry)}"

    def _table(self, found: Versioned, view: str) -> IcebergTable:
        return IcebergTable(found, view, self._location(found.dataset.entry))

    async def _dead_for(self, table: IcebergTable, name: FileName, caller: str) -> DeadRows:
        """Return the deleted rows that a file needs. Raises `NoSuchTableFile`."""
        if name.kind not in _LISTS_DELETES:
            return {}
        number = name.numbers[0]
        if number >= len(table.found.versions):
            raise no_such_table_file()
        if name.kind is not FileKind.SNAPSHOT and table.deleted_as_of(number) != number:
            raise no_such_table_file()
        return await self._dead(table, number, caller)

    async def _dead(self, table: IcebergTable, number: int, caller: str) -> DeadRows:
        deleted = table.deleted_as_of(number)
        if deleted is None:
            return {}
        return await self.reads.dead_rows(table.found, deleted, table.projection, caller)

    def _made(self, table: IcebergTable, dead: DeadRows) -> MadeFiles:
        return MadeFiles(table, dead, self.memory, self.most_snapshots, self.most_deleted)
