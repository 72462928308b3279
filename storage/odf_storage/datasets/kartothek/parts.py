"""Plan the partitions of a published dataset: unchanged slices, and slices without dead rows.

Pure: existing partitions are kept, and new ones get labels that no reader uses yet.

The distinct values of columns in slices: read from the rows once, and then kept.

Indices are made from them. They are kept under the hash of the slice, which never changes.

A dataset as of one block as a Kartothek dataset whose name is the hash of the block.

Its files are computed from the chain, and never change. It is a changelog without indices. Its data
files are the unchanged slices, except slices that are older than a column: those need completing,
since readers fail on a missing column when they filter by it.

Find the state file of a dataset in a store, and read the state.
"""

from __future__ import annotations

import io
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.columns.slice_file import UNREADABLE, UnreadableSlice, open_slice
from odf_protocol.errors import LimitExceeded
from odf_protocol.kartothek.keys import (
    TABLE,
    NoKartothek,
    checked_uuid,
    data_key,
    encoded,
    schema_key,
    state_keys,
)
from odf_protocol.kartothek.partition_values import encode_schema, normalised, table_schema
from odf_protocol.kartothek.predicates import plain_values
from odf_protocol.kartothek.state import (
    MAX_STATE_BYTES,
    State,
    decode_json,
    decode_msgpack,
    encode_json,
)
from odf_protocol.multihash import Multihash

from ...runtime.logs import line
from ...stores.ports import KeyedReads, KeyedStore
from ...stores.ports.errors import KeyNotFound
from ...stores.ports.keyed import KeyedContent
from ..dataset.dataset import Dataset
from ..read.rows import Scan
from ..read.scan import batches_of
from .live import ChainSlice, chain_view

EMPTY = "empty"
"""Label of the partition of a dataset without rows; without it, readers would list the store."""


MAX_PARTITIONS = 100_000
"""Limit of partitions of one published dataset; its state file names each of them."""
Split = Callable[[ChainSlice, "np.ndarray[Any, Any]"], Mapping[str, "np.ndarray[Any, Any]"]]
"""Splits offsets of a slice by the folder of the values of their partition columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One partition. `source` None: the partition of a dataset without rows."""

    label: str
    rows: int
    source: ChainSlice | None
    offsets: np.ndarray[Any, Any]
    """Sorted offsets. If the partition has a folder, they are of all folders of its slice."""
    is_there: bool
    is_whole: bool
    """Whether its file is the slice itself."""
    folder: str = ""
    """`col=val/…/`, from the values of partition columns."""

    @property
    def is_all(self) -> bool:
        """Whether it has all rows of its slice."""
        return self.source is not None and self.rows == self.source.rows


def planned_parts(
    slices: Sequence[ChainSlice],
    live: np.ndarray[Any, Any] | None,
    there: Mapping[str, int],
    *,
    uuid: str,
    publishing: int,
    taken: Collection[str],
    mark: str,
    split: Split | None = None,
) -> list[Part]:
    """Return the partitions of these slices with the `live` offsets (None: all).

    `there` has existing partitions of the same slices, with their numbers of rows: rows of a slice
    can die but not come back, so equal numbers mean the same rows. `mark` makes labels unique if
    the plain one is taken. A slice is split only if it is new or some of its rows died.

    Raises:
        TooManyPartitions: more than `MAX_PARTITIONS`.
    """
    known: dict[int, dict[str, str]] = defaultdict(dict)
    for former in there:
        if former.partition("-")[0] != EMPTY:
            folder, block = _pieces(former)
            known[block][folder] = former
    parts: list[Part] = []
    for each in slices:
        offsets = _offsets(each, live)
        its = known[each.sequence]
        for folder, rows in _folders(each, offsets, its, there, split).items():
            is_all = len(offsets) == each.rows
            is_whole = split is None and each.is_current and is_all
            label = its.get(folder)
            is_there = label is not None and there[label] == rows
            if label is None or not is_there:
                plain = f"{folder}b{each.sequence:08}" + (
                    "" if is_whole or (split is not None and is_all) else f"-r{publishing:08}"
                )
                label = _free(plain, uuid, taken, mark)
            parts.append(
                Part(
                    label=label,
                    rows=rows,
                    source=each,
                    offsets=offsets,
                    is_there=is_there,
                    is_whole=is_whole,
                    folder=folder,
                )
            )
        if len(parts) > MAX_PARTITIONS:
            raise LimitExceeded(
                "TooManyPartitions",
                f"the dataset would have more than {MAX_PARTITIONS} partitions; partition on a "
                "column with fewer values",
                limit=MAX_PARTITIONS,
            )
    if parts or split is not None:
        return parts
    return [_empty(there, uuid, taken, mark)]


def _folders(
    each: ChainSlice,
    offsets: np.ndarray[Any, Any],
    its: Mapping[str, str],
    there: Mapping[str, int],
    split: Split | None,
) -> Mapping[str, int]:
    """Return the numbers of rows by folder, without empty folders."""
    if split is None:
        return {"": len(offsets)} if len(offsets) else {}
    if sum(there[label] for label in its.values()) == len(offsets):
        return {folder: there[label] for folder, label in its.items()}
    return {folder: len(some) for folder, some in split(each, offsets).items()}


def _empty(there: Mapping[str, int], uuid: str, taken: Collection[str], mark: str) -> Part:
    is_there = EMPTY in there
    return Part(
        label=EMPTY if is_there else _free(EMPTY, uuid, taken, mark),
        rows=0,
        source=None,
        offsets=np.empty(0, np.int64),
        is_there=is_there,
        is_whole=False,
    )


def _offsets(each: ChainSlice, live: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    interval = each.data.offset_interval
    if live is None:
        return np.arange(interval.start, interval.end + 1, dtype=np.int64)
    first = np.searchsorted(live, interval.start, side="left")
    last = np.searchsorted(live, interval.end, side="right")
    return live[first:last]


def _pieces(label: str) -> tuple[str, int]:
    """Return folder and block number of a label that `planned_parts` made."""
    folder, slash, name = label.rpartition("/")
    return folder + slash, int(name[1:9])


def _free(label: str, uuid: str, taken: Collection[str], mark: str) -> str:
    return label if data_key(uuid, label) not in taken else f"{label}-{mark}"


SLICES = "slices"
"""Folder of the kept files: `slices/<hash of the slice>/<column>.parquet`."""
VALUE = "value"
_log = logging.getLogger("odf.kartothek")


def encode_values(values: pa.Array) -> bytes:
    """Return the bytes of a file with the values of a column in a slice."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({VALUE: values}), sink, compression="snappy", version="2.6")
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


class SliceValues:
    """Files of distinct values in an internal keyed store of the node."""

    def __init__(self, store: KeyedStore) -> None:
        self._store = store

    def find(self, slice_hash: Multihash, column: str, wanted: pa.DataType) -> pa.Array | None:
        """Return the kept values; None if there are none, or the file cannot be used."""
        key = _key(slice_hash, column)
        try:
            with self._store.open(key) as stream:
                file = open_slice(stream)
                if file.schema_arrow.names != [VALUE]:
                    raise UnreadableSlice(f"its columns are {file.schema_arrow.names[:5]}")
                batches = [batch.column(0).cast(wanted) for batch in batches_of(file, stream)]
        except KeyNotFound:
            return None
        except (UnreadableSlice, *UNREADABLE) as error:
            if isinstance(error, MemoryError):
                raise
            _log.warning(line("kept values not used", key=key, reason=str(error)[:200]))
            return None
        return pa.chunked_array(batches, wanted).combine_chunks()

    def put(self, slice_hash: Multihash, column: str, raw: bytes) -> None:
        """Keep the values; `raw` is the result of `encode_values`."""
        self._store.put(_key(slice_hash, column), (raw,))

    def has(self, slice_hash: Multihash) -> frozenset[str]:
        """Return the encoded names of columns whose values are kept."""
        found = self._store.list(f"{SLICES}/{slice_hash}")
        return frozenset(info.key.rsplit("/", 1)[1].removesuffix(".parquet") for info in found)


class PartColumns:
    """Distinct values of columns of partitions, kept ones or read from the rows."""

    def __init__(
        self, scan: Scan, schema: pa.Schema, kept: SliceValues | None, split: Split | None = None
    ) -> None:
        self.scan, self.schema, self._kept, self.split = scan, schema, kept, split

    def offsets_of(self, part: Part) -> np.ndarray[Any, Any]:
        """Return the offsets of the rows of a partition."""
        if self.split is None or part.source is None:
            return part.offsets
        return self.split(part.source, part.offsets)[part.folder]

    def values_of(self, part: Part, columns: Sequence[str]) -> Mapping[str, pa.Array]:
        """Return the distinct values of these columns in a partition, without null and NaN."""
        types = {name: normalised(self.schema.field(name).type) for name in columns}
        if part.source is None:
            return {name: pa.array([], types[name]) for name in columns}
        if self._kept is None or not part.is_all:
            return self._scanned(part, types)
        its = part.source.data.physical_hash
        known = {name: self._kept.find(its, name, types[name]) for name in columns}
        found = {name: values for name, values in known.items() if values is not None}
        missing = {name: types[name] for name in columns if name not in found}
        if missing:
            for name, values in self._scanned(part, missing).items():
                self._kept.put(its, name, encode_values(values))
                found[name] = values
        return found

    def _scanned(self, part: Part, types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
        return distinct(self.scan(list(types), self.offsets_of(part)), types)


def distinct(
    batches: Iterator[pa.RecordBatch], types: Mapping[str, pa.DataType]
) -> dict[str, pa.Array]:
    """Return the distinct values of columns in these rows."""
    values = {name: [pa.array([], wanted)] for name, wanted in types.items()}
    for batch in batches:
        for name in types:
            values[name].append(plain_values(batch.column(name)))
    return {
        name: pc.unique(pa.chunked_array(some).combine_chunks()) for name, some in values.items()
    }


def _key(slice_hash: Multihash, column: str) -> str:
    return f"{SLICES}/{slice_hash}/{encoded(column)}.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenDataset:
    """The files and the slices of the dataset, by key."""

    files: dict[str, bytes]
    slices: dict[str, Multihash]
    incomplete: frozenset[str]
    """Keys of slices that lack columns of the schema."""
    schema: pa.Schema
    raw_schema: bytes


def frozen_dataset(dataset: Dataset, at: Multihash) -> FrozenDataset:
    """Return the dataset as of a block. Raise `BlockNotFound`, `UnsupportedColumn`."""
    chain = chain_view(dataset, at)
    uuid = str(at)
    schema = table_schema(chain.schema)
    slices = {data_key(uuid, _label(each)): each.data.physical_hash for each in chain.slices}
    raw_schema = encode_schema(schema)
    incomplete = [data_key(uuid, _label(each)) for each in chain.slices if not each.is_current]
    files = {schema_key(uuid, TABLE): raw_schema}
    if not slices:
        files[data_key(uuid, EMPTY)] = _no_rows(schema)
    keys = [*slices] or [data_key(uuid, EMPTY)]
    prefix, suffix = data_key(uuid, "\0").split("\0")
    state = State(
        uuid=uuid,
        partitions={key.removeprefix(prefix).removesuffix(suffix): {TABLE: key} for key in keys},
        metadata={
            "creation_time": chain.head.block.system_time.to_datetime()
            .replace(tzinfo=None)
            .isoformat(),
            "odf.dataset-id": str(dataset.id),
            "odf.head": uuid,
            "odf.sequence-number": str(chain.head.sequence_number),
            "odf.mode": "changelog",
        },
    )
    files[state_keys(uuid)[0]] = encode_json(state)
    return FrozenDataset(
        files=files,
        slices=slices,
        incomplete=frozenset(incomplete),
        schema=schema,
        raw_schema=raw_schema,
    )


def _label(each: ChainSlice) -> str:
    return f"b{each.sequence:08}"


def _no_rows(schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink, compression="snappy", version="2.6")
    return sink.getvalue()


@dataclass(frozen=True, slots=True)
class FoundState:
    """A state file: its key, its content, and the decoded state."""

    key: str
    content: KeyedContent
    state: State


def state_file(store: KeyedReads, uuid: str) -> tuple[str, KeyedContent] | None:
    """Return key and content of the state file, JSON before MessagePack; None if there is none.

    Raises `KeyedFileTooLarge`, and the errors of the store.
    """
    for key in state_keys(checked_uuid(uuid)):
        content = store.read(key, most=MAX_STATE_BYTES)
        if content is not None:
            return key, content
    return None


def find_state(store: KeyedReads, uuid: str) -> FoundState:
    """Return the state of a dataset.

    Raises:
        NoKartothek, MalformedState, and the errors of the store.
    """
    found = state_file(store, uuid)
    if found is None:
        raise NoKartothek(uuid)
    key, content = found
    decode = decode_json if key == state_keys(uuid)[0] else decode_msgpack
    return FoundState(key, content, decode(content.raw, key=key, uuid=uuid))
