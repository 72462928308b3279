"""Slices with only some of their rows, as the files of a query."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import OffsetInterval
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.stores.ports.values import ObjectKind

from ...plan.transform import InputPlan, TransformPlan
from ...slices.write import parquet_settings
from ..transform.result import InputFiles

Offsets = Sequence[int]
"""Sorted offsets of rows: a range, or an array of single ones."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of one input. `column` is the name of its offsets."""

    column: str
    offsets: Offsets


class ChosenFiles(InputFiles):
    """The files of a job, in which slices of some inputs have only the chosen rows."""

    def __init__(self, files: InputFiles, folder: Path, chosen: Mapping[DatasetId, Chosen]) -> None:
        folder.mkdir(parents=True)
        self._files, self.copies, self._chosen = files, folder, chosen

    def get(self, dataset: Dataset, kind: ObjectKind, content: Multihash) -> Path:
        path = self._files.get(dataset, kind, content)
        chosen = self._chosen.get(dataset.id)
        if kind is not ObjectKind.DATA or chosen is None or isinstance(chosen.offsets, range):
            return path
        copy = self.copies / str(content)
        if not copy.exists():
            _copy(path, copy, chosen)
        return copy


def _copy(path: Path, copy: Path, chosen: Chosen) -> None:
    wanted = np.asarray(chosen.offsets, np.int64)
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        with pq.ParquetWriter(copy, schema, **parquet_settings(schema)) as writer:
            for batch in file.iter_batches():
                there = batch.column(chosen.column).to_numpy(zero_copy_only=False)
                mask = np.isin(there.astype(np.int64), wanted)
                if mask.any():
                    writer.write_batch(batch.filter(pa.array(mask)))


def within(plan: TransformPlan, chosen: Mapping[DatasetId, Chosen]) -> TransformPlan:
    """Return the plan with only the chosen rows of its inputs."""
    return replace(plan, inputs=tuple(_within(item, chosen.get(item.id)) for item in plan.inputs))


def _within(item: InputPlan, chosen: Chosen | None) -> InputPlan:
    offsets = () if chosen is None else chosen.offsets
    if not len(offsets):
        return replace(item, prev_offset=None, new_offset=None, slices=())
    first, last = int(offsets[0]), int(offsets[-1])
    slices = tuple(data for data in item.slices if _is_part(data.offset_interval, offsets))
    return replace(item, prev_offset=first - 1 if first else None, new_offset=last, slices=slices)


def _is_part(interval: OffsetInterval, offsets: Offsets) -> bool:
    """Return whether an interval has one of the offsets."""
    at = bisect_left(offsets, interval.start)
    return at < len(offsets) and offsets[at] <= interval.end
