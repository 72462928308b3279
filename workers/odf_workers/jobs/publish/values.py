"""Values of many slices for the indices of a dataset: one partition per slice, on Spark.

A refresh usually adds little, which the publication reads itself. This module serves the first
publication of a large dataset, and large blocks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.kartothek.keys import encoded
from odf_protocol.kartothek.types import normalised
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.kartothek.chain_slices import ChainSlice, ChainView, chain_view
from odf_storage.datasets.kartothek.own_index import own_index
from odf_storage.datasets.kartothek.slice_values import SliceValues, distinct, encode_values
from odf_storage.stores.ports import KeyedStore
from odf_storage.stores.ports.values import ObjectKind

from ...partitions.files import File, at_hand
from ...partitions.port import Output
from ..ingest.ways import way_of
from ..work.context import WorkerContext
from ..work.slice_files import local_file

AT_ONCE = 128
"""Number of slices whose files are on this machine at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceColumns:
    """A slice, and its requested columns with their types."""

    file: File
    name: str
    columns: dict[str, pa.DataType]


def keep_values(
    dataset: Dataset,
    projections: KeyedStore,
    kept: SliceValues,
    columns: Sequence[str],
    context: WorkerContext,
) -> int:
    """Store the values of slices that the index does not cover, if these slices are large. Return
    the number of slices read.

    Raises:
        ObjectDamaged, ObjectHealing: a slice is damaged. StageFailed.
    """
    chain = chain_view(dataset)
    new = _not_covered(dataset, projections, columns, chain)
    size = sum(each.data.size for each in new)
    if size < context.ingest.micro_batch_bytes:
        return 0
    types = {name: normalised(chain.schema.field(name).type) for name in columns}
    read = 0
    for start in range(0, len(new), AT_ONCE):
        with tempfile.TemporaryDirectory(prefix="values-", dir=context.scratch) as folder:
            some = new[start : start + AT_ONCE]
            read += _keep(dataset, kept, some, types, context, size, Path(folder))
    return read


def _not_covered(
    dataset: Dataset, projections: KeyedStore, columns: Sequence[str], chain: ChainView
) -> list[ChainSlice]:
    index = own_index(projections, dataset.id)
    if index is None or index.head not in chain.path or not index.columns >= set(columns):
        return list(chain.slices)
    return [each for each in chain.slices if each.sequence > index.sequence_number]


def _keep(
    dataset: Dataset,
    kept: SliceValues,
    slices: Sequence[ChainSlice],
    types: dict[str, pa.DataType],
    context: WorkerContext,
    size: int,
    folder: Path,
) -> int:
    way = way_of(context, size)
    try:
        inputs = []
        for each in slices:
            name = each.data.physical_hash
            there = kept.has(name)
            wanted = {column: its for column, its in types.items() if encoded(column) not in there}
            if wanted:
                path = local_file(dataset, ObjectKind.DATA, name, folder)
                inputs.append(SliceColumns(file=way.file(path), name=str(name), columns=wanted))
        if inputs:
            for facts in way.read(inputs, read_values).facts():
                for name, column, raw in facts:
                    kept.put(Multihash.parse(name), column, raw)
        return len(inputs)
    finally:
        way.close()


def read_values(wanted: SliceColumns) -> Output:
    """Yield slice, column, and the encoded values, for each column. A column missing in the slice
    has no values."""
    with pq.ParquetFile(at_hand(wanted.file)) as file:
        has = {name: its for name, its in wanted.columns.items() if name in file.schema_arrow.names}
        values = distinct(file.iter_batches(columns=list(has)) if has else iter(()), has)
    for name, its in wanted.columns.items():
        yield wanted.name, name, encode_values(values.get(name, pa.array([], its)))
