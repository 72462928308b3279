"""URLs of files of shared tables: unchanged slices, and slices rewritten for feeds of changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from odf_protocol.delta.vectors import inline_vectors
from odf_storage.datasets.versions.dead_rows import DeadRows
from odf_storage.datasets.versions.versions import Version

from ..auth.dataset_access import DatasetAccess
from ..auth.signed_urls import SignedUrls
from ..history.versions import Versioned
from .lines import FileTold
from .names import SharedTable

SLICES, CHANGES = "data", "changes"
"""Kinds of files for which URLs are signed."""
CHANGED = "delta-sharing/changes/{dataset}/"
"""Address of the rewritten slices."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Address of a kind of files, with a slash at the end; `signed` maps a name to a query."""

    address: str
    signed: Callable[[str], str]

    def url(self, name: str) -> str:
        return f"{self.address}{name}?{self.signed(name)}"


@dataclass(frozen=True, slots=True)
class Files:
    """Makes signed URLs of files of one dataset."""

    slices: Folder
    changes: Folder
    """Slices that were rewritten for feeds of changes."""
    offset: str
    """The name of the offset column, as JSON."""
    expires_ms: int

    def told(self, versions: Sequence[Version], dead: DeadRows) -> Iterator[FileTold]:
        """Yield the files of unchanged slices."""
        names = [str(version.data.physical_hash) for version in versions]
        gone = [name for name in names if name in dead]
        vectors = dict(zip(gone, inline_vectors(dead[name] for name in gone), strict=True))
        for name, version in zip(names, versions, strict=True):
            yield FileTold(
                url=self.slices.url(name),
                id=name,
                size=version.data.size,
                version=version.number,
                made_ms=version.recorded.millis,
                expires_ms=self.expires_ms,
                stats=self._stats(version),
                vector=vectors.get(name),
            )

    def told_anew(self, version: Version, size: int) -> FileTold:
        """Return the file of a rewritten slice, whose rows have their types of change."""
        name = str(version.data.physical_hash)
        return FileTold(
            url=self.changes.url(name),
            id=name,
            size=size,
            version=version.number,
            made_ms=version.recorded.millis,
            expires_ms=self.expires_ms,
            is_mixed=True,
        )

    def _stats(self, version: Version) -> str:
        """Return statistics from the block, without opening the file."""
        interval = version.data.offset_interval
        return (
            f'{{"numRecords":{version.rows},'
            f'"minValues":{{{self.offset}:{interval.start}}},'
            f'"maxValues":{{{self.offset}:{interval.end}}},'
            f'"nullCount":{{{self.offset}:0}}}}'
        )


def slice_files(
    urls: SignedUrls, access: DatasetAccess, table: SharedTable, found: Versioned, base: str
) -> Files:
    """Return the maker of URLs for a table, below the address `base`."""
    dataset, expires_s = table.entry.id, urls.expiry()
    slices = f"{base}{access.shown_alias(table.entry)}/{SLICES}/"
    changes = f"{base}{CHANGED.format(dataset=dataset)}"
    return Files(
        slices=Folder(slices, urls.signer(SLICES, dataset, expires_s, table.account)),
        changes=Folder(changes, urls.signer(CHANGES, dataset, expires_s, table.account)),
        offset=json.dumps(found.outline.vocab.offset_column),
        expires_ms=expires_s * 1000,
    )
