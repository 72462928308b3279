"""Files of shared tables: slices as they are, and written anew for feeds of changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from odf_node.protocol.identity import DatasetId
from odf_node.storage.datasets.versions.dead_rows import DeadRows
from odf_node.storage.datasets.versions.versions import Version

from ..auth.dataset_access import DatasetAccess
from ..auth.signed_urls import SignedUrls
from ..versions.versions import Versioned
from .lines import FileTold
from .names import SharedTable

SLICES, CHANGES = "data", "changes"
"""Kinds of files that URLs are signed for."""
CHANGED = "delta-sharing/changes/{dataset}/"
"""Where slices are that were written anew."""


@dataclass(frozen=True, slots=True)
class Files:
    """Makes URLs of files of one dataset that carry the right to them."""

    urls: SignedUrls
    dataset: DatasetId
    folder: str
    """Where slices are, with a slash at the end."""
    changes: str
    """Where slices are that were written anew for feeds of changes."""
    offset: str
    """The column of offsets."""
    expires_s: int

    def told(self, version: Version, dead: DeadRows) -> FileTold:
        """A slice as it is."""
        name = str(version.data.physical_hash)
        url = self._signed(self.folder, SLICES, version)
        return self._file(
            version, url, version.data.size, stats=self._stats(version), dead=dead.get(name)
        )

    def told_anew(self, version: Version, size: int) -> FileTold:
        """The slice of so many bytes whose rows say what they changed."""
        url = self._signed(self.changes, CHANGES, version)
        return self._file(version, url, size, is_mixed=True)

    def _signed(self, folder: str, kind: str, version: Version) -> str:
        name = version.data.physical_hash
        return f"{folder}{name}?{self.urls.signed(kind, self.dataset, name, self.expires_s)}"

    def _file(self, version: Version, url: str, size: int, **more: Any) -> FileTold:
        return FileTold(
            url=url,
            id=str(version.data.physical_hash),
            size=size,
            version=version.number,
            made_ms=version.recorded.millis,
            expires_ms=self.expires_s * 1000,
            **more,
        )

    def _stats(self, version: Version) -> str:
        """What the block says of the rows: no file is opened."""
        interval = version.data.offset_interval
        told = {
            "numRecords": version.rows,
            "minValues": {self.offset: interval.start},
            "maxValues": {self.offset: interval.end},
            "nullCount": {self.offset: 0},
        }
        return msgspec.json.encode(told).decode()


def slice_files(
    urls: SignedUrls, access: DatasetAccess, table: SharedTable, found: Versioned, base: str
) -> Files:
    """Files of a table, below the address of this node."""
    return Files(
        urls=urls,
        dataset=table.entry.id,
        folder=f"{base}{access.shown_alias(table.entry)}/{SLICES}/",
        changes=f"{base}{CHANGED.format(dataset=table.entry.id)}",
        offset=found.outline.vocab.offset_column,
        expires_s=urls.expiry(),
    )
