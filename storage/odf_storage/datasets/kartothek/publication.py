"""The settings of a publication, and its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import pyarrow as pa

from odf_protocol.errors import BadInput, Conflict
from odf_protocol.kartothek.index import is_indexable
from odf_protocol.kartothek.partition_values import is_partitionable
from odf_protocol.kartothek.types import kind_of

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


class UnusablePublication(BadInput):
    """A publication names a column that the dataset lacks, or that cannot be indexed."""


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
            raise UnusablePublication(f"at most {MAX_INDICES} columns have an index")
        for name in (*self.secondary_indices, *self.partition_on, *(self.primary_key or ())):
            if name not in schema.names:
                raise UnusablePublication(f"the dataset has no column {name[:100]!r}", column=name)
        for name in self.partition_on:
            kind = schema.field(name).type
            if not is_partitionable(kind_of(kind)):
                raise UnusablePublication(f"column {name!r} of type {kind} cannot make partitions")
            if name in self.secondary_indices:
                raise UnusablePublication(f"column {name!r} makes partitions, so it has no index")
        if len(set(self.partition_on)) == len(schema.names):
            raise UnusablePublication("some column has to be left in the files")
        for name in self.secondary_indices:
            if not is_indexable(name, schema.field(name).type):
                kind = schema.field(name).type
                raise UnusablePublication(f"column {name!r} of type {kind} has no index")


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
