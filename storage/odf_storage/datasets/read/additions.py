"""Whether a slice only adds rows: a look at one of its columns.

The chain cannot tell this. A merge strategy says what our workers add, but blocks may come from any
program, and footers have statistics that their writers made.
"""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from odf_protocol.columns.slice_file import UNREADABLE, open_slice
from odf_protocol.errors import Damaged
from odf_protocol.multihash import Multihash

from .rows import APPEND
from .scan import BATCH_ROWS, UnreadableSlice

HELD_BYTES = 1 << 20


def only_adds(stream: BinaryIO, operation: str, name: Multihash) -> bool:
    """Return whether every value of the column `operation` is the number of an added row; true
    without such a column, since no row takes another back then. Raises `UnreadableSlice`."""
    try:
        file = open_slice(_held(stream))
        rows = file.iter_batches(BATCH_ROWS, columns=[operation], use_threads=False)
        columns = (column for batch in rows for column in batch.columns)
        return all((_numbers(column) == APPEND).all() for column in columns)
    except MemoryError:
        raise
    except (Damaged, *UNREADABLE) as broken:
        raise UnreadableSlice.of(name, broken) from None


def _held(stream: BinaryIO) -> pa.Buffer | BinaryIO:
    """Return a short file as bytes in memory, which Arrow reads several times as fast."""
    content = stream.read(HELD_BYTES + 1)
    if len(content) <= HELD_BYTES:
        return pa.py_buffer(content)
    stream.seek(0)
    return stream


def _numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    """Return the values; a null, which is no added row, as NaN."""
    values: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return values
