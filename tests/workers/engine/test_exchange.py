"""What passes between worker and executors is hashed before a row of it is looked at."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from buckets import fresh_location, log_in
from chain_maker import some_id
from fault_proxy import FAULTS, fault_proxy
from pyspark.errors import PySparkException
from pyspark.sql import types as T
from refusals import refusing
from static_files import static_files
from tests.workers.executors import Executors, no_plans

from odf_protocol.errors import Unavailable
from odf_protocol.multihash import Multihash
from odf_storage.stores.objects.layout import EXCHANGE, bucket_name
from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import Bucket
from odf_storage.stores.ports.values import ObjectKey, ObjectKind, StoredFile
from odf_workers.engines.exchange import links, worker_side
from odf_workers.engines.exchange import links as executor_side
from odf_workers.engines.exchange.links import ATTEMPTS, ExchangeFault, Loan, name_of
from odf_workers.engines.exchange.worker_side import failed
from odf_workers.engines.spark.frames import reading, write_delivered


@pytest.fixture(autouse=True)
def executor(tmp_path, monkeypatch):
    """An executor with a disk of its own, which waits for no bucket."""
    (tmp_path / "executor").mkdir()
    monkeypatch.setattr(executor_side.tempfile, "gettempdir", lambda: str(tmp_path / "executor"))
    monkeypatch.setattr(links, "PAUSE_S", 0.001)
    links._pool.cache_clear()
    yield tmp_path / "executor"
    links._pool.cache_clear()


@pytest.fixture
def exchanging(bucket, monkeypatch):
    """The URL of the bucket, which the worker uses for the exchange."""
    monkeypatch.setattr(worker_side, "_url", url_of(bucket))
    monkeypatch.setattr(worker_side, "_job", None)
    return url_of(bucket)


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
    worker_side.use("s3://bucket")
    yield
    worker_side.use(None)


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


def url_of(bucket, endpoint=None):
    """How the worker names the bucket; `endpoint` is another way to its server."""
    place = bucket.location
    return f"s3+{endpoint or place.endpoint}/{place.bucket}/{place.prefix}".rstrip("/")


def files_written(bucket, folder, then):
    """What a worker gets of two partitions, if `then` happens before it looks."""
    partitions = [pa.table({"n": numbers}).to_batches() for numbers in ([1, 2], [3])]
    with no_plans():
        return write_delivered(Executors(partitions, then), url_of(bucket), folder)


def test_rows_are_those_that_executors_wrote(bucket, tmp_path):
    files = files_written(bucket, tmp_path / "sorted", lambda: None)
    assert [pq.read_table(file)["n"].to_pylist() for file in files] == [[1, 2], [3]]
    assert list(bucket.walk(f"{EXCHANGE}/")) == []


@pytest.mark.parametrize("which", [0, 1])
def test_other_bytes_than_executors_wrote_are_no_result(bucket, tmp_path, which):
    def swap():
        found = sorted(each.name for each in bucket.walk(f"{EXCHANGE}/"))
        bucket.call("put_object", found[which], Body=file_of(1, 2, 4))  # as good a file

    with refusing("ExchangeFailed", match="other bytes than an executor wrote"):
        files_written(bucket, tmp_path / "sorted", swap)
    assert len(list((tmp_path / "sorted").iterdir())) == which  # none that is wrong


# --- a loan, on an executor -----------------------------------------------------------------


@contextmanager
def lent(folder, content):
    """A loan of these bytes, and the proxy through which they come."""
    folder.mkdir()
    (folder / "slice").write_bytes(content)
    with static_files(folder) as server, fault_proxy(server.url.rstrip("/")) as proxy:
        yield Loan(f"{proxy.url}/slice", str(Multihash.of(content))), proxy


def test_a_loan_is_fetched_once_and_again_when_it_was_changed(tmp_path):
    with lent(tmp_path / "bucket", b"rows") as (loan, proxy):
        path = executor_side.at_hand(loan)
        assert executor_side.at_hand(loan) == path
        assert (path.read_bytes(), len(proxy.seen)) == (b"rows", 1)
        path.write_bytes(b"rots")
        assert executor_side.at_hand(loan).read_bytes() == b"rows"
        assert len(proxy.seen) == 2
    assert path.parent.stat().st_mode & 0o77 == 0


def test_tasks_beside_each_other_fetch_a_loan_once(tmp_path):
    with lent(tmp_path / "bucket", b"rows" * 100_000) as (loan, proxy):
        with ThreadPoolExecutor(4) as pool:
            paths = set(pool.map(executor_side.at_hand, [loan] * 4))
        assert len(paths) == len(proxy.seen) == 1


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"slow"}))
def test_a_loan_comes_whole_from_a_bucket_that_throttles_or_breaks_off(tmp_path, fault):
    content = b"rows" * 500_000
    with lent(tmp_path / "bucket", content) as (loan, proxy):
        proxy.then(*[fault] * 3)
        assert executor_side.at_hand(loan).read_bytes() == content
        assert len(proxy.seen) == 4


@pytest.mark.parametrize("fault", ["busy", "cut short", "reset"])
def test_a_bucket_that_stays_away_is_a_fault_and_leaves_no_file(tmp_path, executor, fault):
    with lent(tmp_path / "bucket", b"rows" * 500_000) as (loan, proxy):
        proxy.always = fault
        with pytest.raises(ExchangeFault, match="the bucket"):
            executor_side.at_hand(loan)
        assert len(proxy.seen) == links.TRIES
    kept = [each.name for folder in executor.iterdir() for each in folder.iterdir()]
    assert kept == [f"{loan.hash}{executor_side._LOCK}"]


@pytest.mark.parametrize("fault", ["busy", "fails after doing", "reset", "reset after doing"])
def test_a_file_is_delivered_whole_to_a_bucket_that_throttles_or_breaks_off(
    bucket, s3, tmp_path, fault
):
    (tmp_path / "rows").write_bytes(file_of(*range(10_000)))
    with fault_proxy(s3.endpoint) as proxy:
        url = url_of(bucket, proxy.url)
        box = worker_side.outbox(url, tmp_path, 1)
        proxy.clear()
        proxy.then(*[fault] * 3)
        executor_side.begin(0, 0)
        delivered = executor_side.deliver(tmp_path / "rows", box)
        assert len(proxy.seen) == 4
        worker_side.collect(url, delivered.stored, delivered.path)
        assert delivered.path.read_bytes() == file_of(*range(10_000))
        worker_side.clear()


def test_what_executors_deliver_after_their_worker_ended_is_removed_by_the_one_that_repeats_the_job(
    bucket, tmp_path, exchanging
):
    (tmp_path / "rows").write_bytes(b"rows")
    worker_side.begin("job-1", repeated=[])
    box = worker_side.outbox(exchanging, tmp_path, 1)
    worker_side.close()
    executor_side.begin(0, 0)
    executor_side.deliver(tmp_path / "rows", box)
    worker_side.begin("job-2", repeated=[])
    worker_side.clear()
    assert [found.name for found in bucket.walk(f"{EXCHANGE}/job-1/")] != []
    worker_side.begin("job-3", repeated=["job-1"])
    worker_side.clear()
    assert list(bucket.walk(f"{EXCHANGE}/")) == []


def test_without_a_bucket_nothing_is_left_of_a_job(monkeypatch):
    monkeypatch.setattr(worker_side, "_job", None)
    worker_side.begin("job-1", repeated=["job-1"])
    assert worker_side._sent == []


def test_what_a_failing_bucket_keeps_is_removed_after_another_job(bucket, s3, tmp_path):
    (tmp_path / "rows").write_bytes(b"rows")
    with fault_proxy(s3.endpoint) as proxy:
        url = url_of(bucket, proxy.url)
        box = worker_side.outbox(url, tmp_path, 1)
        executor_side.begin(0, 0)
        executor_side.deliver(tmp_path / "rows", box)
        proxy.always = "busy"
        with pytest.raises(Unavailable):
            worker_side.clear()
        proxy.always = None
        worker_side.clear()
    assert list(bucket.walk(f"{EXCHANGE}/")) == []


def test_what_was_delivered_and_is_gone_is_no_result(bucket, tmp_path):
    lost = StoredFile(f"{EXCHANGE}/none/0-0", Multihash.of(b"rows"), '"etag"')
    with refusing("ExchangeFailed", match="lost what an executor wrote"):
        worker_side.collect(url_of(bucket), lost, tmp_path / "x")
    with refusing("ExchangeFailed", match="lost what an executor wrote"):
        worker_side.keep(url_of(bucket), lost, ObjectKey(DATASET, ObjectKind.DATA, lost.hash))


# --- a slice, which stays in the bucket -----------------------------------------------------

DATASET = some_id("delivered")


def delivered_to(bucket, folder, content):
    """A file that an executor delivered, and the key of the object that it shall become."""
    (folder / "slice").write_bytes(content)
    executor_side.begin(0, 0)
    stored = executor_side.deliver(
        folder / "slice", worker_side.outbox(url_of(bucket), folder, 1)
    ).stored
    return stored, ObjectKey(DATASET, ObjectKind.DATA, Multihash.of(content))


def test_the_bucket_itself_copies_what_was_delivered_to_its_key(bucket, s3, tmp_path):
    stored, key = delivered_to(bucket, tmp_path, content := b"rows" * 10_000)
    with fault_proxy(s3.endpoint) as proxy:
        url = url_of(bucket, proxy.url)
        worker_side.keep(url, stored, key)
        assert (proxy.sent.total(), len(proxy.seen)) == (0, 1)
        assert proxy.received.total() < 1000
    worker_side.keep(url_of(bucket), stored, key)  # a job that begins again finds it there
    with S3ObjectStore(bucket).open(key) as stream:
        assert stream.read() == content
    worker_side.clear()


def test_what_changed_since_it_was_delivered_becomes_no_object(bucket, tmp_path):
    stored, key = delivered_to(bucket, tmp_path, b"rows" * 10_000)
    bucket.call("put_object", stored.name, Body=b"rots" * 10_000)
    with refusing("ExchangeFailed", match="other bytes than an executor wrote"):
        worker_side.keep(url_of(bucket), stored, key)
    assert S3ObjectStore(bucket).stat(key) is None
    worker_side.clear()


def test_what_was_not_hashed_to_its_key_becomes_no_object(bucket, tmp_path):
    stored, key = delivered_to(bucket, tmp_path, b"rows" * 10_000)
    other = replace(key, hash=Multihash.of(b"another slice"))
    with refusing("ExchangeFailed", match="other bytes than an executor wrote"):
        worker_side.keep(url_of(bucket), stored, other)
    assert S3ObjectStore(bucket).stat(other) is None
    worker_side.clear()


def test_a_damaged_object_is_replaced_by_what_was_delivered(bucket, tmp_path):
    stored, key = delivered_to(bucket, tmp_path, content := b"rows" * 10_000)
    bucket.call("put_object", bucket_name(key), Body=b"rots" * 10_000)
    with refusing("ExchangeFailed"):
        worker_side.keep(url_of(bucket), stored, key)  # puts it aside
    worker_side.keep(url_of(bucket), stored, key)
    with S3ObjectStore(bucket).open(key) as stream:
        assert stream.read() == content
    worker_side.clear()


def test_the_bucket_refuses_bytes_that_changed_on_their_way(bucket, tmp_path, monkeypatch):
    (tmp_path / "slice").write_bytes(b"rows" * 10_000)
    box = worker_side.outbox(url_of(bucket), tmp_path, 1)

    def flipped(method, link, *, body, **more):
        return asked(method, link, body=body.read().replace(b"r", b"s", 1), **more)

    asked = links._asked
    monkeypatch.setattr(links, "_asked", flipped)
    executor_side.begin(0, 0)
    with pytest.raises(ExchangeFault, match="answers 400 to PUT"):
        executor_side.deliver(tmp_path / "slice", box)
    assert list(bucket.walk(f"{EXCHANGE}/")) == []


def test_any_number_of_attempts_has_a_link(bucket, tmp_path):
    """Spark counts attempts on when an executor was lost, whatever it gives up after."""
    box = worker_side.outbox(url_of(bucket), tmp_path, 2)
    names = {name_of(partition, attempt) for partition in (0, 1) for attempt in range(3 * ATTEMPTS)}
    assert names == set(box.links)


def test_executors_need_no_key_of_the_bucket(bucket, tmp_path, monkeypatch):
    (tmp_path / "rows").write_bytes(file_of(1, 2, 3))
    loan = worker_side.lend(url_of(bucket), tmp_path / "rows")
    box = worker_side.outbox(url_of(bucket), tmp_path, 1)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert executor_side.at_hand(loan).read_bytes() == file_of(1, 2, 3)
    found, _ = links.upload(tmp_path / "rows", box.links["0-0"])
    assert found == Multihash.of(file_of(1, 2, 3))
    with pytest.raises(ExchangeFault, match="answers 403"):
        links.download(loan.link.partition("?")[0], tmp_path / "again")
