"""A view of a dataset as an Iceberg table: its snapshots, with their schemas and files.

Everything is computed from the versions of the dataset and its name. Nothing is stored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from odf_protocol.chain.schema_evolution import odf_schema
from odf_protocol.errors import BadInput
from odf_protocol.iceberg.manifests import File, Range, bound
from odf_protocol.iceberg.metadata import Snapshot, snapshot_id, table_metadata
from odf_protocol.iceberg.schemas import IcebergSchema, IcebergSchemas
from odf_protocol.metadata.schema import DataSchema
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.versions.versions import Version

from ..sharing.names import VIEWS
from ..versions.versions import Versioned
from .file_names import FileName, Kind

GROUP = 256
"""Number of versions whose slices are in one manifest. A full manifest never changes."""


class NotInIceberg(BadInput):
    """Clients of Iceberg do not read some columns as they are."""

    def __init__(self, columns: Sequence[str]) -> None:
        super().__init__(
            f"Iceberg has no type for the columns {', '.join(columns)[:300]}: it lacks unsigned "
            "numbers of 32 and 64 bits, decimals above 38 digits, half-precision floats, nulls, "
            "and times of day in units other than microseconds. Read the dataset by GET …/read "
            "of the node",
            columns=list(columns[:20]),
        )


@dataclass(frozen=True)
class IcebergTable:
    """The table as of the head of the dataset."""

    found: Versioned
    view: str
    """A key of `VIEWS`."""
    location: str
    """The URL `s3://…` below which all files are."""

    @property
    def projection(self) -> Projection:
        return VIEWS[self.view]

    @cached_property
    def identity(self) -> str:
        """The identity of the table: of this view of this history."""
        return self.found.history.identity(self.found.dataset.id, self.view)

    @cached_property
    def schemas(self) -> IcebergSchemas:
        told = [odf_schema(event) for _, event in self.found.outline.schemas]
        return IcebergSchemas(told or [DataSchema(fields=())])

    def schema(self, number: int) -> IcebergSchema:
        """Return the schema of a version, or that of the head if there are no versions."""
        starts = [before for before, _ in self.found.outline.schemas]
        at = bisect_right(starts, number) - 1 if len(self.found.versions) else -1
        return self.schemas.all[at]

    def check_types(self) -> None:
        """Raise `NotInIceberg` if clients of Iceberg do not read a column as it is."""
        foreign = self.schemas.all[-1].foreign
        if foreign:
            raise NotInIceberg(foreign)

    def path(self, name: FileName) -> str:
        """Return the URL of a generated file."""
        return f"{self.location}/iceberg/{name}"

    def name(self, kind: Kind, *numbers: int) -> FileName:
        return FileName(kind, self.identity, numbers)

    def snapshot(self, number: int) -> Snapshot:
        version = self.found.versions[number]
        before = self.found.versions[number - 1] if number else None
        return Snapshot(
            id=snapshot_id(version.block),
            parent=None if before is None else snapshot_id(before.block),
            sequence=number + 1,
            made_ms=version.recorded.millis,
            manifests=self.path(self.name(Kind.SNAPSHOT, number)),
            schema=self.schema(number).number,
            block=str(version.block),
            only_adds=self.deleted_as_of(number) != number,
        )

    def deleted_as_of(self, number: int) -> int | None:
        """Return the version whose delete files also apply to this version; None if no row is
        deleted."""
        return self.found.changed_as_of(number, self.projection)

    def metadata(self, count: int, most: int) -> dict[str, Any]:
        """Return the metadata of the table with its first `count` versions. It lists the newest
        `most` of them."""
        snapshots = [self.snapshot(number) for number in range(max(count - most, 0), count)]
        numbers = {each.schema for each in snapshots} or {self.schema(0).number}
        return table_metadata(
            identity=self.identity,
            location=self.location,
            created_ms=self.found.dataset.entry.created_at.millis,
            schemas=self.schemas,
            shown=[self.schemas.all[each] for each in sorted(numbers)],
            snapshots=snapshots,
            properties={"odf.dataset": str(self.found.dataset.id), "odf.view": self.view},
        )

    def slice_path(self, version: Version) -> str:
        return f"{self.location}/data/{version.data.physical_hash}"

    def files(self, first: int, count: int) -> Iterator[File]:
        """Yield the slices of `count` versions, beginning with `first`."""
        for version in self.found.versions[first : first + count]:
            yield File(
                path=self.slice_path(version),
                rows=version.rows,
                size=version.data.size,
                snapshot=snapshot_id(version.block),
                sequence=version.number + 1,
                ranges=self._ranges(version),
            )

    def _ranges(self, version: Version) -> list[Range]:
        """Return the ranges of columns that follow from the block, without opening the slice."""
        vocab, schema = self.found.outline.vocab, self.schema(version.number)
        ranges = []
        offset = schema.column(vocab.offset_column)
        if offset is not None:
            number, kind = offset
            interval = version.data.offset_interval
            lower, upper = bound(kind, interval.start), bound(kind, interval.end)
            ranges.append(Range(number, lower, upper, nulls=0))
        time = schema.column(vocab.system_time_column)
        if time is not None and time[1].startswith("timestamp"):
            # the system time of a row is at most that of its block
            latest = (version.recorded.millis + 2) * 1000 - 1
            ranges.append(Range(time[0], None, bound(time[1], latest)))
        return ranges
