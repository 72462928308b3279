"""Files of shared tables: slices as they are, and written anew for feeds of changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from odf_node.protocol.delta.vectors import inline_vectors
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
class Folder:
    """Where files of a kind are, with a slash at the end; the query of a URL by the file's name."""

    address: str
    signed: Callable[[str], str]

    def url(self, name: str) -> str:
        return f"{self.address}{name}?{self.signed(name)}"


@dataclass(frozen=True, slots=True)
class Files:
    """Makes URLs of files of one dataset that carry the right to them."""

    slices: Folder
    changes: Folder
    """Slices that were written anew for feeds of changes."""
    offset: str
    """The column of offsets, as JSON."""
    expires_ms: int

    def told(self, versions: Sequence[Version], dead: DeadRows) -> Iterator[FileTold]:
        """Slices as they are."""
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
        """The slice of so many bytes whose rows say what they changed."""
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
        """What the block says of the rows: no file is opened."""
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
    """Files of a table, below the address of this node."""
    dataset, expires_s = table.entry.id, urls.expiry()
    slices = f"{base}{access.shown_alias(table.entry)}/{SLICES}/"
    changes = f"{base}{CHANGED.format(dataset=dataset)}"
    return Files(
        slices=Folder(slices, urls.signer(SLICES, dataset, expires_s)),
        changes=Folder(changes, urls.signer(CHANGES, dataset, expires_s)),
        offset=json.dumps(found.outline.vocab.offset_column),
        expires_ms=expires_s * 1000,
    )
