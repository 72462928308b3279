"""The slices of a dataset from an offset on, which other processes can read.

A node lists them, so its chain need not be fetched; in a folder or a bucket we read the chain. In
both cases slices are hashed when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from odf_node.protocol.arrow_schema import to_arrow
from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.codec.manifests import from_data
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.data import DataSlice, OffsetInterval
from odf_node.protocol.metadata.schema import DataSchema
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.pruning.filters import Filter
from odf_node.storage.datasets.read.narrowed import narrowed
from odf_node.storage.datasets.read.read import Asked, reading
from odf_node.storage.datasets.read.view import View, view_of

from ..client.http import open_http
from ..client.node_api import NodeApi
from ..client.sync import opened
from .place import Place


@dataclass(frozen=True, slots=True)
class Listed:
    """Slices as of a block, oldest first, with all that is needed to read them; can be pickled."""

    place: Place
    block: Multihash
    vocab: Vocab
    schema: pa.Schema
    slices: tuple[tuple[DataSlice, Instant], ...]

    @property
    def end(self) -> int | None:
        """The offset after the last slice; None if there are no slices."""
        return self.slices[-1][0].offset_interval.end + 1 if self.slices else None

    def pruned(self, filters: Sequence[Filter]) -> Listed:
        """Return only the slices that may contain a row satisfying all filters, judged by their
        offsets. Raises `UnknownColumn`, `MalformedFilter`."""
        with self._view() as view:
            return replace(self, slices=narrowed(view, filters).view.slices)

    def groups(self, most_bytes: int) -> Iterator[Listed]:
        """Split into groups of successive slices: each has at most `most_bytes` bytes, or a single
        slice."""
        group: list[tuple[DataSlice, Instant]] = []
        size = 0
        for each in self.slices:
            if group and size + each[0].size > most_bytes:
                yield replace(self, slices=tuple(group))
                group, size = [], 0
            group.append(each)
            size += each[0].size
        if group:
            yield replace(self, slices=tuple(group))

    @contextmanager
    def rows(
        self, columns: Sequence[str], filters: Sequence[Filter]
    ) -> Iterator[Iterator[pa.RecordBatch]]:
        """Read the rows of these slices that satisfy all filters. Raises the same errors as
        `Dataset.batches`."""
        asked = Asked(columns=tuple(columns), filters=tuple(filters))
        with self._view() as view, reading(view, asked) as (_, batches):
            yield batches

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


def listed(place: Place, at: Multihash | None = None, *, since: int = 0) -> Listed:
    """List the slices with rows at or after the offset `since`, as of a block, by default the
    newest.

    Raises:
        BlockNotFound, NothingThere: no such block or dataset. Also errors of `Dataset.batches`.
    """
    return _by_node(place, at, since) if place.is_served else _by_chain(place, at, since)


def _by_node(place: Place, at: Multihash | None, since: int) -> Listed:
    slices: list[tuple[DataSlice, Instant]] = []
    with open_http() as http:
        api = NodeApi(place.location.base, place.token, http=http)
        for page in api.file_pages(None if at is None else str(at)):
            behind = [each for each in page["files"] if each["offsets"]["end"] >= since]
            slices += [(_slice(each), Instant.parse(each["systemTime"])) for each in behind]
            if len(behind) < len(page["files"]):
                break
    schema, vocab = page["schema"], page["vocab"]
    return Listed(
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
    )


def _slice(told: dict[str, Any]) -> DataSlice:
    return DataSlice(
        logical_hash=Multihash.parse(told["logicalHash"]),
        physical_hash=Multihash.parse(told["physicalHash"]),
        offset_interval=OffsetInterval(**told["offsets"]),
        size=told["size"],
    )


def _by_chain(place: Place, at: Multihash | None, since: int) -> Listed:
    with opened(place.location, place.token, whole=True) as repository:
        view = view_of(repository, at)
    behind = tuple(each for each in view.slices if each[0].offset_interval.end >= since)
    schema = pa.schema([]) if view.schema is None else view.schema
    return Listed(place, view.head, view.vocab, schema, behind)
