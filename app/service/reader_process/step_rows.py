"""A step from the rows that stood before to those that stand: in a reader, which knows no index.

It is asked twice: for the hashes of rows that are new, and, when the service has found the
older rows with such hashes, for those that stand among all of these.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from odf_node.storage.datasets.kartothek.matching import Offsets, hashed, matched_columns
from odf_node.storage.datasets.read.narrowed import check_columns, narrowed
from odf_node.storage.datasets.read.rows import (
    DatasetHasNoPrimaryKeys,
    Projection,
    live_by_key,
    live_facts,
)
from odf_node.storage.datasets.read.scan import SliceScan
from odf_node.storage.datasets.read.view import View


def step_hashes(view: View, projection: Projection, first: int) -> Iterator[bytes]:
    """`ROW`s of the rows from the offset `first` on.

    Raises:
        DatasetHasNoPrimaryKeys, UnknownColumn. UnreadableSlice: while rows are read.
    """
    key = _key(view, projection)
    new = tuple(each for each in view.slices if each[0].offset_interval.end >= first)
    narrow = narrowed(replace(view, slices=new))
    check_columns(key or (), narrow.schema)
    columns = matched_columns(narrow.schema, view.vocab, key)
    with tempfile.TemporaryDirectory(prefix="step-") as folder:
        scan = SliceScan(narrow, Path(folder), once=True)
        for rows in hashed(scan, view.vocab, columns, key, None):
            yield rows.tobytes()


def step_living(
    view: View, projection: Projection, touched: Offsets, first: int
) -> Iterator[bytes]:
    """Offsets of rows that stand among those touched, which did before, and all from `first` on.

    Raises:
        As `step_hashes`. UnusableKey.
    """
    key = _key(view, projection)
    if not view.slices:
        return
    end = view.slices[-1][0].offset_interval.end
    some = np.concatenate([touched, np.arange(first, end + 1, dtype=np.int64)])
    with tempfile.TemporaryDirectory(prefix="step-") as folder:
        whole = SliceScan(narrowed(view), Path(folder))

        def scan(columns: Sequence[str] | None, _: object) -> Iterator[pa.RecordBatch]:
            return whole(columns, some if first else None)

        found = live_by_key(scan, view.vocab, key) if key else live_facts(scan, view.vocab)
        yield found.astype("<i8").tobytes()


def _key(view: View, projection: Projection) -> tuple[str, ...] | None:
    """None: rows are matched as a whole."""
    if projection is not Projection.STATE:
        return None
    if not view.key:
        raise DatasetHasNoPrimaryKeys
    return view.key
