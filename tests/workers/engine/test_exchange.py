"""What passes between worker and executors is hashed before a row of it is looked at."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from buckets import fresh_location, log_in
from pyspark.errors import PySparkException
from pyspark.sql import types as T
from static_files import static_files

from odf_node.protocol.errors import Unavailable
from odf_node.protocol.multihash import Multihash
from odf_node.storage.stores.objects.layout import EXCHANGE
from odf_node.storage.stores.objects.s3_bucket import Bucket
from odf_node.workers.engines.spark import exchange
from odf_node.workers.engines.spark.exchange import (
    ExchangeFailed,
    ExchangeFault,
    failed,
    reading,
    write_remotely,
)
from tests.workers.executors import Executors, no_plans

SCHEMA = T.StructType([T.StructField("n", T.LongType())])


def file_of(*numbers: int) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), out)
    return out.getvalue()


def rows_read(folder, stored: bytes, named: bytes) -> list[dict]:
    (folder / "slice").write_bytes(stored)
    with static_files(folder) as server:
        links = {"link": [f"{server.url}slice"], "hash": [str(Multihash.of(named))]}
        batches = reading(SCHEMA)(iter([pa.RecordBatch.from_pydict(links)]))
        return [row for batch in batches for row in batch.to_pylist()]


def test_rows_of_what_was_named_are_read(tmp_path):
    content = file_of(1, 2, 3)
    assert rows_read(tmp_path, content, content) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_other_bytes_are_refused_before_their_first_row(tmp_path):
    named = file_of(1, 2, 3)
    with pytest.raises(ExchangeFault, match=str(Multihash.of(named))):
        rows_read(tmp_path, file_of(1, 2, 4), named)


@pytest.fixture
def through_a_bucket():
    exchange.use("s3://bucket")
    yield
    exchange.use(None)


@pytest.mark.usefixtures("through_a_bucket")
def test_a_fault_of_the_exchange_is_nobodys_query():
    """Spark tells it as the last line of what a task of ours printed."""
    said = "Traceback …\nworkers.engine.exchange.ExchangeFault: the bucket answers 503 to GET\n\n"
    found = failed(PySparkException(said))
    assert isinstance(found, Unavailable)
    assert found.message == "the bucket answers 503 to GET"
    assert failed(PySparkException("[DIVIDE_BY_ZERO] Division by zero")) is None
    assert failed(ValueError(said)) is None


@pytest.fixture
def bucket(s3, s3_bucket_url, monkeypatch):
    log_in(monkeypatch, s3)
    return Bucket(fresh_location(s3_bucket_url))


def url_of(bucket):
    place = bucket.location
    return f"s3+{place.endpoint}/{place.bucket}/{place.prefix}".rstrip("/")


def files_written(bucket, folder, then):
    """What a worker gets of two partitions, if `then` happens before it looks."""
    partitions = [pa.table({"n": numbers}).to_batches() for numbers in ([1, 2], [3])]
    with no_plans():
        return write_remotely(Executors(partitions, then), url_of(bucket), folder)


def test_rows_are_those_that_executors_wrote(bucket, tmp_path):
    files = files_written(bucket, tmp_path / "sorted", lambda: None)
    assert [pq.read_table(file)["n"].to_pylist() for file in files] == [[1, 2], [3]]
    assert list(bucket.walk(f"{EXCHANGE}/")) == []


@pytest.mark.parametrize("which", [0, 1])
def test_other_bytes_than_executors_wrote_are_no_result(bucket, tmp_path, which):
    def swap():
        found = sorted(each.name for each in bucket.walk(f"{EXCHANGE}/"))
        bucket.call("put_object", found[which], Body=file_of(1, 2, 4))  # as good a file

    with pytest.raises(ExchangeFailed, match="other bytes than an executor wrote"):
        files_written(bucket, tmp_path / "sorted", swap)
    assert len(list((tmp_path / "sorted").iterdir())) == which  # none that is wrong
