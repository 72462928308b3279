"""A batch to slices: cut by position, written and hashed side by side, in bounded memory.

Where slices end depends on the rows and two settings alone, so that equal batches give equal
slices however many partitions or threads had a hand in them. Threads suffice: encoding and
hashing leave the interpreter's lock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa

from .columns import Operation
from .conform import NullCounts
from .pieces import Piece, pieces
from .write import (
    SMALL_BYTES,
    SlicePlan,
    Written,
    complete,
    described,
    described_small,
    tallied,
    write_batches,
    write_small,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where a slice ends: after so many rows or bytes, whichever comes first.

    Bytes are those of the values, not of the file.
    """

    rows: int = 1 << 20
    size: int = 256 << 20
    threads: int = 2
    """So many slices are written side by side; one more is in memory."""


def write_slices(
    batches: Iterator[pa.RecordBatch], plan: SlicePlan, folder: Path, cut: Cut
) -> list[Written]:
    """Write merged rows, which come in their final order; no slice when there are no rows.

    Raises:
        CannotMerge: a row with a problem.
        UnexpectedNulls: nulls in columns the dataset requires.
        UnsupportedColumn: a column type without a logical hash.
    """
    nulls = NullCounts(plan.schema)
    done: list[Written] = []
    running: deque[Future[Written]] = deque()
    waiting = pieces(complete(batches, plan, nulls), cut.rows, cut.size)
    start = plan.start
    first, second = next(waiting, None), next(waiting, None)
    if first is not None and second is None:  # threads for one cost more than they bring
        path = folder / f"slice-{start}.parquet"
        small = first.size < SMALL_BYTES
        done.append((_made if small else _write)(first, plan, path, start))
        nulls.check()
        return done
    with ThreadPoolExecutor(cut.threads, thread_name_prefix="slices") as pool:
        for piece in chain(filter(None, (first, second)), waiting):
            if len(running) >= cut.threads:
                done.append(running.popleft().result())
            path = folder / f"slice-{start}.parquet"
            running.append(pool.submit(_write, piece, plan, path, start))
            start += piece.rows
        done += [each.result() for each in running]
    nulls.check()
    return done


def operations(slices: Sequence[Written]) -> Counter[Operation]:
    """How many rows of each kind the slices hold."""
    total: Counter[Operation] = Counter()
    for written in slices:
        total.update(written.operations)
    return total


def _made(piece: Piece, plan: SlicePlan, path: Path, start: int) -> Written:
    """A small slice, in memory; `path` is where it is not."""
    written = Written(path)
    rows = [tallied(batch, plan.vocab, written) for batch in piece.batches]
    written.content = write_small(rows, plan.schema)
    written.data = described_small(written.content, rows, start)
    return written


def _write(piece: Piece, plan: SlicePlan, path: Path, start: int) -> Written:
    written = Written(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_batches(
        (tallied(batch, plan.vocab, written) for batch in piece.batches), plan.schema, path
    )
    written.data = described(path, start)
    return written
