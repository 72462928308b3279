"""The slices of a dataset from an offset on, which other processes can read.

A node lists them, so its chain need not be fetched; in a folder or a bucket we read the chain. In
both cases slices are hashed when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from odf_protocol.chain.state import Vocab
from odf_protocol.codec.manifests import from_data
from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DataSlice, OffsetInterval
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.pruning.filters import Filter
from odf_storage.datasets.read.read import RowsRequest, reading
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.read.scan import narrowed
from odf_storage.datasets.read.view import View, view_of

from ..client.nodes.http import open_http
from ..client.nodes.node_api import NodeApi, NotOffered
from ..client.transfer.sync import opened
from ..service.read.read import CHANGELOG, FACTS, ReadRequest
from .following import FromChain, FromNode, StreamPlace

Offsets = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class ListedSlice:
    """Slices as of a block, oldest first, with all that is needed to read them; can be pickled."""

    place: StreamPlace
    block: Multihash
    vocab: Vocab
    schema: pa.Schema
    slices: tuple[tuple[DataSlice, Instant], ...]
    only_adds: bool = False
    """Whether the node says that no row of the dataset takes another back."""
    missing: Offsets | None = None
    """Ascending offsets of rows that are left out; None: no rows are."""

    @property
    def end(self) -> int | None:
        """The offset after the last slice; None if there are no slices."""
        return self.slices[-1][0].offset_interval.end + 1 if self.slices else None

    def pruned(self, filters: Sequence[Filter]) -> ListedSlice:
        """Return only the slices that may contain a row satisfying all filters, judged by their
        offsets. Raises `UnknownColumn`, `MalformedFilter`."""
        with self._view() as view:
            return self._only(narrowed(view, filters).view.slices)

    def shown(self, projection: str) -> ListedSlice:
        """Return the same slices without the rows that the projection leaves out. It reads the
        offsets of the rows that are left. Raises the same errors as `Dataset.batches`."""
        if projection == CHANGELOG or (projection == FACTS and self.only_adds) or not self.slices:
            return self
        offset = self.vocab.offset_column
        source = FromNode(self.place) if self.place.is_served else FromChain(self.place)
        request = ReadRequest(as_at=str(self.block), projection=projection, columns=offset)
        with source.rows(request) as rows:
            found = [batch.column(offset).to_numpy() for batch in rows.reader]
        left = np.concatenate([np.empty(0, np.int64), *found])
        missing = np.setdiff1d(np.arange(self.end or 0, dtype=np.int64), left, assume_unique=True)
        return replace(self, missing=missing)

    def _only(self, slices: tuple[tuple[DataSlice, Instant], ...]) -> ListedSlice:
        """Return these successive slices alone."""
        if self.missing is None or not slices:
            return replace(self, slices=slices)
        start, end = slices[0][0].offset_interval.start, slices[-1][0].offset_interval.end
        first, last = np.searchsorted(self.missing, [start, end + 1])
        return replace(self, slices=slices, missing=self.missing[first:last])

    def groups(self, most_bytes: int) -> Iterator[ListedSlice]:
        """Split into groups of successive slices: each has at most `most_bytes` bytes, or a single
        slice."""
        group: list[tuple[DataSlice, Instant]] = []
        size = 0
        for each in self.slices:
            if group and size + each[0].size > most_bytes:
                yield self._only(tuple(group))
                group, size = [], 0
            group.append(each)
            size += each[0].size
        if group:
            yield self._only(tuple(group))

    @contextmanager
    def rows(
        self, columns: Sequence[str], filters: Sequence[Filter]
    ) -> Iterator[Iterator[pa.RecordBatch]]:
        """Read the rows of these slices that satisfy all filters. Raises the same errors as
        `Dataset.batches`."""
        offset, missing = self.vocab.offset_column, self.missing
        read = columns if missing is None else dict.fromkeys([*columns, offset])
        asked = RowsRequest(
            columns=tuple(read), filters=tuple(filters), projection=Projection.CHANGELOG
        )
        with self._view() as view, reading(view, asked) as (_, batches):
            if missing is None:
                yield batches
            else:
                yield (_without(batch, offset, missing).select(list(columns)) for batch in batches)

    @contextmanager
    def _view(self) -> Iterator[View]:
        with opened(self.place.location, self.place.token) as repository:
            yield View(
                source=repository,
                head=self.block,
                vocab=self.vocab,
                schema=self.schema,
                slices=self.slices,
                key=(),
            )


def _without(batch: pa.RecordBatch, offset: str, missing: Offsets) -> pa.RecordBatch:
    is_missing = np.isin(batch.column(offset).to_numpy(), missing, assume_unique=True)
    return batch.filter(pa.array(~is_missing))


def listed(place: StreamPlace, at: Multihash | None = None, *, since: int = 0) -> ListedSlice:
    """List the slices with rows at or after the offset `since`, as of a block, by default the
    newest.

    Raises:
        BlockNotFound, NothingThere: no such block or dataset. Also errors of `Dataset.batches`.
    """
    if not place.is_served:
        return _by_chain(place, at, since)
    try:
        return _by_node(place, at, since)
    except NotOffered:  # the transfer protocol has the same facts
        return _by_chain(place, at, since)


def _by_node(place: StreamPlace, at: Multihash | None, since: int) -> ListedSlice:
    slices: list[tuple[DataSlice, Instant]] = []
    with open_http() as http:
        api = NodeApi(place.location.base, place.token, http=http)
        for page in api.file_pages(None if at is None else str(at)):
            behind = [each for each in page["files"] if each["offsets"]["end"] >= since]
            slices += [(_slice(each), Instant.parse(each["systemTime"])) for each in behind]
            if len(behind) < len(page["files"]):
                break
    schema, vocab = page["schema"], page["vocab"]
    return ListedSlice(
        place=place,
        block=Multihash.parse(page["at"]),
        vocab=Vocab(
            offset_column=vocab["offsetColumn"],
            operation_type_column=vocab["operationTypeColumn"],
            system_time_column=vocab["systemTimeColumn"],
            event_time_column=vocab["eventTimeColumn"],
        ),
        schema=pa.schema([]) if schema is None else to_arrow(from_data(schema, DataSchema)),
        slices=tuple(reversed(slices)),
        only_adds=page.get("hasRetractions") is False,
    )


def _slice(told: dict[str, Any]) -> DataSlice:
    return DataSlice(
        logical_hash=Multihash.parse(told["logicalHash"]),
        physical_hash=Multihash.parse(told["physicalHash"]),
        offset_interval=OffsetInterval(**told["offsets"]),
        size=told["size"],
    )


def _by_chain(place: StreamPlace, at: Multihash | None, since: int) -> ListedSlice:
    with opened(place.location, place.token, whole=True) as repository:
        view = view_of(repository, at)
    behind = tuple(each for each in view.slices if each[0].offset_interval.end >= since)
    schema = pa.schema([]) if view.schema is None else view.schema
    return ListedSlice(place, view.head, view.vocab, schema, behind)
