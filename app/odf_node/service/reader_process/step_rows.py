"""A step from the earlier live rows to the current ones; the reader's part, which needs no index.

The service makes two requests: first for the hashes of new rows. It finds the older rows with these
hashes, and then requests which of all these rows are live.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from odf_storage.datasets.kartothek.matching import Offsets, hashed, matched_columns
from odf_storage.datasets.read.narrowed import check_columns, narrowed
from odf_storage.datasets.read.rows import (
    DatasetHasNoPrimaryKeys,
    Projection,
    live_by_key,
    live_facts,
)
from odf_storage.datasets.read.scan import SliceScan
from odf_storage.datasets.read.view import View


def step_hashes(view: View, projection: Projection, first: int) -> Iterator[bytes]:
    """Yield `ROW`s (hashes) of the rows from the offset `first` on.

    Raises:
        DatasetHasNoPrimaryKeys, UnknownColumn. UnreadableSlice: raised during the iteration.
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
    """Yield offsets of live rows among the touched ones (live before) and all from `first` on.

    Raises:
        UnusableKey, and the same errors as `step_hashes`.
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
    """Return the key columns by which rows are matched; None if whole rows are compared."""
    if projection is not Projection.STATE:
        return None
    if not view.key:
        raise DatasetHasNoPrimaryKeys
    return view.key
