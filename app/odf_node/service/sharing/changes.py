"""Feeds of the changes of a shared table between versions.

If a version only adds rows, its slice is served unchanged. Otherwise it is rewritten with a column
for the type of change of each row.

Files of feeds of changes, for callers that have the signed URL from a feed.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from anyio import to_thread

from odf_protocol.delta.schemas import DeltaSchema
from odf_protocol.errors import BadInput, LimitExceeded
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.versions.dead_rows import changed_rows_key, write_changed_rows
from odf_storage.datasets.versions.versions import version_files
from odf_storage.stores.ports.errors import KeyNotFound

from ..auth.access import DatasetHidden
from ..auth.signed_urls import SignedUrls
from ..history.versions import Versioned
from ..projections.gateway import ServedFile
from .files import CHANGES, slice_files
from .lines import Capabilities, FileTold, LineForm, change_line, head_lines
from .names import SharedTable
from .tables import SharedTables, Told, When, told_of, version_of

SHARING_NEW_FILES = 1_000
"""Most versions that take rows back in one feed of changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSpan:
    """A range of versions, both ends included."""

    first: When
    last: When


@dataclass(frozen=True)
class ChangeFeeds:
    """Makes feeds of changes."""

    tables: SharedTables
    most_files: int
    """Limit of slices that are rewritten for one request."""
    most_bytes: int
    """Limit of the bytes of one rewritten slice."""

    async def changes(
        self, table: SharedTable, span: ChangeSpan, can: Capabilities, base: str, caller: str
    ) -> Told:
        """Return the files of all versions of a span, with URLs below `base`.

        Raises:
            NoChangesOfState, NoSuchVersion, BadVersion, TooManyNewFiles, NotInDeltaFormat.
            The errors of `VersionReads` and `write_changed_rows`.
        """
        if table.view is Projection.STATE:
            raise BadInput(
                "NoChangesOfState",
                "the tables of the schema 'state' have no feed of changes: read the feed of the "
                "table of this name in the schema 'changelog'",
            )
        found = await self.tables.reads.of(table.entry, caller)
        first, last = _numbers(found, span)
        return await to_thread.run_sync(self._told, table, found, first, last, can, base)

    def _told(
        self,
        table: SharedTable,
        found: Versioned,
        first: int,
        last: int,
        can: Capabilities,
        base: str,
    ) -> Told:
        schema = found.schema(last)
        form = can.form(has_dead_rows=False, foreign=DeltaSchema(schema).foreign)
        versions = found.versions[first : last + 1]
        about = DeltaSchema(schema, plain=form is LineForm.PARQUET)
        told = told_of(table, found, versions, first, about, is_feed=True)
        changed = {number for number in found.history.changed if first <= number <= last}
        if len(changed) > self.most_files:
            raise LimitExceeded(
                "TooManyNewFiles",
                f"{len(changed)} of the versions take rows back, and one request may name "
                f"{self.most_files} of those: ask for fewer versions at a time",
                limit=self.most_files,
            )
        files = slice_files(self.tables.urls, self.tables.access, table, found, base)
        lines = head_lines(form, told)
        for each, whole in zip(versions, files.told(versions, {}), strict=True):
            file: FileTold = whole
            if each.number in changed:
                file = files.told_anew(each, self._made(found, each.number))
            lines.append(change_line(form, file))
        return Told(first, form, lines)

    def _made(self, found: Versioned, number: int) -> int:
        """Write the file unless it exists, and return its size."""
        return write_changed_rows(
            version_files(self.tables.reads.stores.projections, found.dataset.id),
            found.dataset,
            found.versions[number].data.physical_hash,
            found.outline.vocab.operation_type_column,
            most=self.most_bytes,
        )


def _numbers(found: Versioned, span: ChangeSpan) -> tuple[int, int]:
    """Return the numbers of the span's ends. Raises `NoSuchVersion`, `BadVersion`."""
    start, versions = span.first, found.versions
    if (start.version is None) == (start.timestamp is None):
        raise BadInput("BadVersion", "name one of startingVersion and startingTimestamp")
    first = versions.since(start.timestamp) if start.timestamp else version_of(found, start)
    last = version_of(found, span.last)
    if first > last:
        raise BadInput("BadVersion", f"the first version, {first}, is behind the last one, {last}")
    return first, last


def find_changed_file(
    stores: Stores, urls: SignedUrls, dataset: str, name: str, signature: str
) -> ServedFile:
    """Return a file by its signed URL.

    Raises `DatasetHidden`, `SignedUrlExpired`, for the same reasons as `SignedUrls.check`.
    """
    try:
        owner, slice_hash = DatasetId.parse(dataset), Multihash.parse(name)
    except BadInput:
        raise DatasetHidden from None
    urls.check(signature, CHANGES, owner, slice_hash)
    store = version_files(stores.projections, owner)
    key = changed_rows_key(slice_hash)
    try:
        with store.open(key) as stream:
            size = stream.seek(0, io.SEEK_END)
    except KeyNotFound:
        raise DatasetHidden from None
    return ServedFile(
        open=lambda: store.open(key),
        size=size,
        tag=f"{slice_hash}-{CHANGES}",
        is_fixed=True,
        is_public=False,
    )
