"""Batches as messages: Spark stores and transfers them without reading their content.

A failure of a stage, in a form that can be sent from the stage to its caller.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from odf_protocol.errors import NodeError, Unavailable

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


class StageFailed(Unavailable):
    """Executors could not run a stage, for a reason unrelated to the rows."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class FailedInside(Exception):
    """A stage raised an unexpected error; the message is its traceback, for the log."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in a form that can be pickled. An error of this node is kept without its traceback,
    which shows where it was raised but nothing of the rows; any other error is kept as its
    traceback alone."""

    kind: type[Exception]
    args: tuple[Any, ...]
    state: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: Exception) -> Failure:
        if not isinstance(error, NodeError):
            return cls(FailedInside, ("".join(traceback.format_exception(error)),))
        return cls(type(error), error.args, dict(vars(error)))

    def error(self) -> Exception:
        """Rebuild the error without calling its constructor, because constructors have various
        signatures."""
        made = self.kind.__new__(self.kind)
        made.args = self.args
        vars(made).update(self.state)
        return made
