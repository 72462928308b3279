"""The definition of a publication as users write it: check it, and make a publication of it.

The settings of a publication, and its result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
from msgspec import Meta, Struct

from odf_protocol.errors import BadInput, Conflict
from odf_protocol.identity import DatasetId
from odf_protocol.kartothek.keys import checked_uuid
from odf_protocol.kartothek.partition_values import is_partitionable, kind_of
from odf_protocol.kartothek.predicates import is_indexable
from odf_protocol.metadata.sources import (
    MergeStrategyChangelogStream,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odf_protocol.multihash import Multihash
from odf_protocol.typed import convert

from ...runtime.clock import parse_duration
from ...stores.objects.layout import dataset_folder
from ..dataset.dataset import Dataset
from ..read.view import active_merge

MAX_INDICES = 16
MAX_INDEX_BYTES = 64 << 20


class Mode(StrEnum):
    """Rows of the table: all rows of the changelog, or only the live ones."""

    CHANGELOG = "changelog"
    STATE = "state"


class StateFormat(StrEnum):
    JSON = "json"
    MSGPACK = "msgpack"


def content_hash(raw: bytes) -> str:
    """Return the hash by which a publisher recognises its own files."""
    return hashlib.sha3_256(raw).hexdigest()


class PublicationConflict(Conflict):
    """The state file in the store is not the one that this node published last."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"{key} was written by somebody else; only a forced publication replaces it", key=key
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """How a dataset is published. `primary_key` None: rows are matched by all their columns."""

    uuid: str
    mode: Mode = Mode.CHANGELOG
    primary_key: tuple[str, ...] | None = None
    secondary_indices: tuple[str, ...] = ()
    partition_on: tuple[str, ...] = ()
    state_format: StateFormat = StateFormat.JSON
    grace: timedelta = timedelta(hours=24)
    max_index_bytes: int = MAX_INDEX_BYTES
    has_data: bool = True
    """False: only an index of the unchanged slices, without data files. Only for a changelog."""

    def fingerprint(self) -> str:
        """Return a hash that changes if other files have to be written for the same rows."""
        says = [self.mode, self.primary_key, self.secondary_indices, self.state_format]
        more = [self.partition_on] if self.partition_on else []
        return content_hash(json.dumps([*says, self.max_index_bytes, *more]).encode())

    def check(self, schema: pa.Schema) -> None:
        """Check the named columns against the dataset's schema. Raise `UnusablePublication`."""
        if len(self.secondary_indices) > MAX_INDICES:
            raise BadInput("UnusablePublication", f"at most {MAX_INDICES} columns have an index")
        for name in (*self.secondary_indices, *self.partition_on, *(self.primary_key or ())):
            if name not in schema.names:
                raise BadInput(
                    "UnusablePublication", f"the dataset has no column {name[:100]!r}", column=name
                )
        for name in self.partition_on:
            kind = schema.field(name).type
            if not is_partitionable(kind_of(kind)):
                raise BadInput(
                    "UnusablePublication", f"column {name!r} of type {kind} cannot make partitions"
                )
            if name in self.secondary_indices:
                raise BadInput(
                    "UnusablePublication", f"column {name!r} makes partitions, so it has no index"
                )
        if len(set(self.partition_on)) == len(schema.names):
            raise BadInput("UnusablePublication", "some column has to be left in the files")
        for name in self.secondary_indices:
            if not is_indexable(name, schema.field(name).type):
                kind = schema.field(name).type
                raise BadInput(
                    "UnusablePublication", f"column {name!r} of type {kind} has no index"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What readers of the publication see now."""

    head: str
    partitions: int
    rows: int
    indices: Mapping[str, Mapping[str, int]]
    """Number of values, and bytes, of each index, by column."""
    skipped: tuple[str, ...]
    unmatched_retractions: int = 0
    changed: bool = True


_Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Names = Annotated[tuple[_Name, ...], Meta(max_length=64)]
_Duration = Annotated[str, Meta(max_length=8)]
KEYED = (MergeStrategySnapshot, MergeStrategyUpsertStream, MergeStrategyChangelogStream)
"""Merge strategies after which each key has at most one row."""


class Definition(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The requested publication. Missing fields have their defaults."""

    uuid: Annotated[str, Meta(max_length=200)] | None = None
    """Name in the store; by default the id of the dataset."""
    store: Annotated[str, Meta(max_length=2000)] | None = None
    """`file:///folder`, `s3://bucket/prefix`; None: served by the node itself."""
    mode: Literal["changelog", "state"] = "changelog"
    primary_key: _Names | msgspec.UnsetType | None = msgspec.UNSET
    """Default: the key of the merge strategy. None: rows are matched by all their columns."""
    secondary_indices: _Names = ()
    partition_on: _Names = ()
    metadata_format: Literal["json", "msgpack"] = "json"
    min_interval: _Duration = "0s"
    grace: _Duration = "24h"
    max_index_bytes: Annotated[int, Meta(ge=1, le=1 << 30)] = MAX_INDEX_BYTES

    def name(self, dataset: Dataset) -> str:
        """Return the name in the store. Raise `MalformedUuid`, `NameOfAnother`."""
        name, own = (
            checked_uuid(self.uuid or dataset_folder(dataset.id)),
            dataset_folder(dataset.id),
        )
        if name != own and _is_hash(name):
            raise BadInput(
                "NameOfAnother",
                f"{name[:100]!r} is the form of an id or a block hash; a publication has the id "
                "of its own dataset or a name of another form",
                uuid=name[:100],
            )
        return name

    @property
    def interval(self) -> timedelta:
        """The shortest time between two refreshes. Raises `UnreadableDuration`."""
        return parse_duration(self.min_interval)

    def publication(self, dataset: Dataset) -> Publication:
        """Make the publication. Raise `MalformedUuid`, `UnreadableDuration`,
        `MalformedPublication`."""
        if self.partition_on and self.store is None:
            raise BadInput(
                "MalformedPublication", "partitionOn takes a store: files are written for it"
            )
        key = self.primary_key
        if isinstance(key, msgspec.UnsetType):
            merge = active_merge(dataset)
            key = tuple(merge.primary_key) if isinstance(merge, KEYED) else None
        return Publication(
            uuid=self.name(dataset),
            mode=Mode(self.mode),
            primary_key=(key or None) if self.mode == "state" else None,
            secondary_indices=self.secondary_indices,
            partition_on=self.partition_on,
            state_format=StateFormat(self.metadata_format),
            grace=parse_duration(self.grace),
            max_index_bytes=self.max_index_bytes,
        )


def read_definition(value: Any) -> Definition:
    """Convert parsed JSON to a definition. Raise `MalformedPublication`."""
    try:
        return convert(value, Definition)
    except (msgspec.ValidationError, ValueError) as bad:
        raise BadInput(
            "MalformedPublication", f"the publication cannot be read: {str(bad)[:300]}"
        ) from None


def _is_hash(name: str) -> bool:
    """Return whether the name has the form of a dataset's id, with or without its prefix, or of a
    hash: in base 16, as the node writes them, or as a multibase text of another base."""
    for parse in (DatasetId.parse, Multihash.parse):
        for text in (name, f"did:odf:{name}"):
            try:
                parse(text)
            except BadInput:
                continue
            return True
    return False
