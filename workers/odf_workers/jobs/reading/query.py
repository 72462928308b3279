"""A query job: compute on Spark over datasets as of given blocks, and store the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.codec.manifests import to_data
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.errors import LimitExceeded
from odf_protocol.identity import DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.query_job import (
    DIALECT,
    QueriedDataset,
    QueryPayload,
    QueryReceipt,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.query.messages import TableView
from odf_storage.datasets.query.tables import QueryResults, table_of
from odf_storage.datasets.read.formats import Format, encoded
from odf_storage.datasets.read.view import Outline, outline_of, require_in_history
from odf_storage.stores.ports.values import JobId, ObjectKind

from ...engines.port.job_listener import Heard
from ...engines.spark_engine.reader_queries import ReaderQueries
from ..transform.result import InputFiles, work_folder
from ..transform.run import input_files
from ..work.context import WorkerContext

BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A dataset of the query, and its outline as of its block."""

    named: QueriedDataset
    dataset: Dataset
    outline: Outline


def run_query(
    stores: Stores, payload: QueryPayload, job: JobId, context: WorkerContext
) -> QueryReceipt:
    """Compute and store the rows. A repeated job replaces the result of an earlier run.

    Raises:
        DatasetNotFound, BlockNotFound: an input is gone, or its history was rewritten.
        InvalidQuery, NoPrimaryKey. QueryTooSlow, QueryResultTooLong. JobLost.
    """
    told = context.job_progress
    told.phase("execute")
    inputs = [_input(stores, each) for each in payload.datasets]
    tables = [
        table_of(
            each.named.alias,
            TableView(each.named.plain),
            [TableView(view) for view in each.named.views],
            each.outline,
            folder="",
        )
        for each in inputs
    ]
    options = context.queries
    queries = ReaderQueries(context.engines.session, seconds=options.seconds, size=options.size)
    with work_folder(context.scratch, "query-") as name:
        folder = Path(name)
        files = input_files(folder, context.scratch, context.transforms)
        made = queries.run(
            payload.query,
            tables,
            lambda number: _slices(inputs[number], files),
            folder,
            Heard(told),
            skip=payload.skip,
            limit=payload.limit,
        )
        told.phase("write")
        batches = told.rows(_batches(made.files, made.schema))
        counted = _Counted(
            encoded(made.schema, batches, Format(payload.form)), options.result_bytes
        )
        QueryResults(stores.projections).put(payload.owner, str(job), counted, most=options.results)
        rows = sum(pq.read_metadata(file).num_rows for file in made.files)
        files.trim()
    return QueryReceipt(
        job=str(job),
        rows=rows,
        bytes=counted.size,
        schema=to_data(from_arrow(made.schema)),
        input=_echo(payload, [inputs[number] for number in made.used]),
        engine="spark",
        engine_version=queries.version,
    )


def _input(stores: Stores, named: QueriedDataset) -> Input:
    dataset = stores.dataset(DatasetRef.parse(named.id))
    block = Multihash.parse(named.block_hash)
    require_in_history(dataset, block)
    return Input(named=named, dataset=dataset, outline=outline_of(dataset, block))


def _slices(one: Input, files: InputFiles) -> list[Path]:
    return [
        files.get(one.dataset, ObjectKind.DATA, data.physical_hash)
        for data, _ in one.outline.slices
    ]


def _batches(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


class _Counted:
    """Chunks on their way to the store, limited to the bytes of a result."""

    def __init__(self, chunks: Iterable[bytes], most: int) -> None:
        self.size, self._chunks, self._most = 0, chunks, most

    def __iter__(self) -> Iterator[bytes]:
        """Raises `QueryResultTooLong`."""
        for chunk in self._chunks:
            self.size += len(chunk)
            if self.size > self._most:
                raise LimitExceeded(
                    "QueryResultTooLong",
                    f"the rows take more than the {self._most} bytes of a result; ask for fewer, "
                    "or for fewer columns",
                    limit=self._most,
                    setting="ODF_WORKER_QUERY_RESULT_BYTES",
                )
            yield chunk


def _echo(payload: QueryPayload, used: Sequence[Input]) -> dict[str, object]:
    """Return the request in the form in which `/query` echoes it."""
    pins = sorted((each.named.alias, each.named.id, str(each.outline.head)) for each in used)
    projection = next((each.named.plain for each in used if each.named.plain != "changelog"), None)
    return {
        "query": payload.query,
        "queryDialect": DIALECT,
        **({} if projection is None else {"projection": projection}),
        "dataFormat": payload.form,
        "include": [],
        "datasets": [
            {"id": dataset, "alias": alias, "blockHash": block} for alias, dataset, block in pins
        ],
        "skip": payload.skip,
        "limit": payload.limit,
    }
