"""Batches as messages: Spark stores and transfers them without reading their content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

MESSAGE_BYTES = 4 << 20
"""Approximate bytes of rows in a message: large enough that there are few, small enough to process
one by one."""
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def message(batch: pa.RecordBatch) -> bytes:
    """Return the batch with its schema, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def batch_of(content: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_next_batch()


def gathered(
    batches: Iterable[pa.RecordBatch], most: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Return the same rows in batches of about `most` bytes, by default `MESSAGE_BYTES`: small ones
    joined, large ones cut."""
    most = MESSAGE_BYTES if most is None else most
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if waiting and batch.schema != waiting[0].schema:
            yield from _joined(waiting)
            waiting, size = [], 0
        for part in _cut(batch, most):
            waiting.append(part)
            size += part.nbytes
            if size >= most:
                yield from _joined(waiting)
                waiting, size = [], 0
    yield from _joined(waiting)


def _cut(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    parts = -(-batch.nbytes // (2 * most)) or 1
    step = -(-batch.num_rows // parts) or 1
    if parts <= 1:
        yield batch
        return
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) == 1:
        yield batches[0]
    elif batches:
        yield pa.concat_batches(batches)
