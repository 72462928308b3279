"""Read a Parquet file in batches of rows that take a few megabytes after decoding.

A footer says how long a column is before it is compressed. For a dictionary column this says
little about the decoded size: if the dictionary is long, a few rows are decoded first and
measured. This limits the memory for usual files; for malicious files, the memory limit of the
reading process counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.parquet_footer import PLAIN_DICTIONARY, RLE_DICTIONARY, RowGroup
from odf_protocol.slice_file import row_groups
from odf_protocol.stored_values import readable

BATCH_ROWS = 16_384
BATCH_BYTES = 8 * 1024 * 1024
PROBE_ROWS = 16
SHORT_BYTES = 64 * 1024
"""Size in bytes of a column chunk up to which its dictionary is not measured."""
_NUMBERED = frozenset({PLAIN_DICTIONARY, RLE_DICTIONARY})


def batches_of(
    file: pq.ParquetFile,
    stream: BinaryIO,
    *,
    columns: Sequence[str] | None = None,
    groups: Sequence[int] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these row groups (none: of all) in order, decoded by this thread, with
    texts that every reader takes. `stream` is the stream that the file was opened on."""
    asked: dict[str, Any] = {
        "columns": columns,
        "row_groups": list(groups or range(file.metadata.num_row_groups)),
        "use_threads": False,
    }
    widest, is_doubtful = _widest(row_groups(stream))
    if is_doubtful:
        probe = next(file.iter_batches(PROBE_ROWS, **asked), None)
        if probe is not None and probe.num_rows:
            widest = max(widest, probe.nbytes // probe.num_rows)
        del probe
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES // widest))
    yield from map(readable, file.iter_batches(rows, **asked))


def _widest(groups: Sequence[RowGroup]) -> tuple[int, bool]:
    """Return the bytes of a row according to the footer, and whether cells may be longer."""
    widest, is_doubtful = 1, not groups
    for group in groups:
        sizes = [chunk.total_uncompressed_size for chunk in group.chunks]
        if group.num_rows > 0:
            widest = max(widest, sum(sizes) // group.num_rows)
        is_doubtful |= any(
            size > SHORT_BYTES and not _NUMBERED.isdisjoint(chunk.encodings)
            for size, chunk in zip(sizes, group.chunks, strict=True)
        )
    return widest, is_doubtful
