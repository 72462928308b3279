"""Copy the data files of a table: several in parallel, with a common limit of bytes.

Copies are numbered in the order of the partitions, whichever is finished first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Lock
from typing import BinaryIO

import pyarrow.parquet as pq

from odf_storage.datasets.kartothek.rows import open_partition
from odf_storage.datasets.kartothek.tables import Partition, Table

from ..readers.table_files import TableFile, TablePart
from .files import CHUNK_BYTES
from .values import Deadline, FetchedTooLarge, FetchRequest, FetchRules, check_size, spooled


class TooManyFiles(FetchedTooLarge):
    """A table has more new data files than this node fetches in one poll."""

    def __init__(self, files: int, most: int) -> None:
        super().__init__(
            f"the table has {files} new data files, more than the {most} that one poll takes",
            limit="max_fetched_files",
            value=most,
        )


class _Total:
    """Bytes of all files together, and whether copying has ended."""

    def __init__(self, rules: FetchRules) -> None:
        self._rules, self._lock, self._bytes = rules, Lock(), 0
        self.is_over = False

    def chunks(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the bytes of a file. Raises `FetchedTooLarge`, and `CancelledError` once copying
        has ended."""
        while chunk := stream.read(CHUNK_BYTES):
            if self.is_over:
                raise CancelledError
            with self._lock:
                self._bytes += len(chunk)
                check_size(self._bytes, self._rules)
            yield chunk


def copied(
    table: Table, partitions: Sequence[Partition], request: FetchRequest, deadline: Deadline
) -> list[TableFile]:
    """Copy data files into the folder of the request; a table without rows becomes one file without
    rows.

    Raises:
        TooManyFiles, FetchedTooLarge, SourceUnreachable: a limit of number, size or time.
        KartothekFileMissing: the first missing file.
    """
    rules = request.rules
    if len(partitions) > rules.max_files:
        raise TooManyFiles(len(partitions), rules.max_files)
    if not partitions:
        empty = request.folder / "empty.parquet"
        pq.write_table(table.schema.empty_table(), empty)
        return [TableFile(empty, TablePart(table.found.key, table.schema))]
    total = _Total(rules)

    def copy(at: int, partition: Partition) -> TableFile:
        path = request.folder / f"part-{at}.parquet"
        with open_partition(table, partition) as stream:
            spooled(total.chunks(stream), path, rules, deadline)
        return TableFile(path, TablePart(partition.key, table.schema, partition.values))

    with ThreadPoolExecutor(rules.threads, thread_name_prefix="fetching") as pool:
        copies = [pool.submit(copy, at, each) for at, each in enumerate(partitions)]
        try:
            return [each.result() for each in copies]
        finally:
            total.is_over = True
            pool.shutdown(wait=False, cancel_futures=True)
