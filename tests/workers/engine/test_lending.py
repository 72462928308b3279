"""What the worker lends to executors on other machines, and what it need not send for that."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from buckets import fresh_location, log_in
from chain_maker import entry
from fault_proxy import FAULTS, FaultProxy, fault_proxy
from ingesting import begin
from servers import S3Server
from throwaway import throwaway_stores

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.sources import ReadStepCsv, ReadStepNdJson, ReadStepParquet
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.stores.objects.layout import EXCHANGE
from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import SENT_PART_BYTES, Bucket
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.engines.exchange import links, worker_side
from odf_workers.engines.exchange.links import ExchangeFault, LinkSpan, Loan, Spans
from odf_workers.jobs.ingest.source import Source, splits_of
from odf_workers.jobs.transform.result import InputFiles
from odf_workers.jobs.work.context import local_file, readable
from odf_workers.partitions.port import Here
from odf_workers.readers.formats.read import open_split
from odf_workers.readers.formats.splits import unpacked_size
from odf_workers.slices.schema import Limits
from odf_workers.slices.write import Written

CONTENT = b"id,at\n" + b"1,2024-01-01T00:00:00Z\n" * 1000


@pytest.fixture
def bucket(
    s3: S3Server, s3_bucket_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bucket]:
    """A bucket of one's own, and an executor with a disk of its own."""
    log_in(monkeypatch, s3)
    (tmp_path / "executor").mkdir()
    monkeypatch.setattr(links.tempfile, "gettempdir", lambda: str(tmp_path / "executor"))
    yield Bucket(fresh_location(s3_bucket_url))
    worker_side.clear()


@pytest.fixture
def dataset(bucket: Bucket) -> Dataset:
    stores, made = replace(throwaway_stores(), objects=S3ObjectStore(bucket)), entry("kamu/lent")
    begin(stores, made)
    return stores.dataset(DatasetRef.parse(str(made.id)))


def url_of(bucket: Bucket) -> str:
    place = bucket.location
    return f"s3+{place.endpoint}/{place.bucket}/{place.prefix}".rstrip("/")


def sent(bucket: Bucket) -> list[str]:
    return [found.name for found in bucket.walk(f"{EXCHANGE}/")]


@pytest.mark.parametrize("kind", [ObjectKind.UPLOAD, ObjectKind.DATA, ObjectKind.CHECKPOINT])
def test_a_copy_of_an_object_is_lent_as_that_object(
    kind: ObjectKind, bucket: Bucket, dataset: Dataset, tmp_path: Path
) -> None:
    name = Multihash.of(CONTENT)
    S3ObjectStore(bucket).put(ObjectKey(dataset.id, kind, name), [CONTENT])
    path = local_file(dataset, kind, name, tmp_path / "worker")
    loan = worker_side.lend(url_of(bucket), path)
    assert links.at_hand(loan).read_bytes() == CONTENT
    assert sent(bucket) == []


def test_a_link_to_a_copy_in_the_cache_is_lent_as_the_object(
    bucket: Bucket, dataset: Dataset, tmp_path: Path
) -> None:
    name = Multihash.of(CONTENT)
    S3ObjectStore(bucket).put(ObjectKey(dataset.id, ObjectKind.DATA, name), [CONTENT])
    files = InputFiles(tmp_path / "job", tmp_path / "cache", cache_bytes=1 << 20)
    path = files.get(dataset, ObjectKind.DATA, name)
    assert path.parent == tmp_path / "job"
    loan = worker_side.lend(url_of(bucket), path)
    assert links.at_hand(loan).read_bytes() == CONTENT
    assert sent(bucket) == []


def test_a_file_that_is_no_object_is_sent_a_large_one_in_parts(
    bucket: Bucket, tmp_path: Path
) -> None:
    content = bytes(range(256)) * (2 * SENT_PART_BYTES // 256) + b"end"
    (tmp_path / "prepared").write_bytes(content)
    loan = worker_side.lend(url_of(bucket), tmp_path / "prepared")
    (name,) = sent(bucket)
    assert bucket.stat(name).etag.strip('"').endswith("-3")
    assert links.at_hand(loan).read_bytes() == content


def test_stages_and_the_executors_side_import_no_spark() -> None:
    look = "import sys; import odf_workers.stages.batch; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_slice_that_executors_delivered_is_fetched_where_its_rows_are_read(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_side, "_url", url_of(bucket))
    (tmp_path / "slice").write_bytes(CONTENT)
    links.begin(0, 0)
    box = worker_side.outbox(url_of(bucket), tmp_path, 1)
    delivered = links.deliver(tmp_path / "slice", box)
    assert not delivered.path.exists()
    (found,) = readable([Written(delivered.path, delivered.stored)])
    assert b"".join(found.chunks()) == CONTENT


# --- files that further jobs need -----------------------------------------------------------


@pytest.fixture
def segments(tmp_path: Path) -> Iterator[list[Path]]:
    paths = [tmp_path / f"segment-{number}" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 1000)
    yield paths
    worker_side.close()


def lend_all(bucket: Bucket, segments: list[Path]) -> list[Loan]:
    return [worker_side.lend_lasting(url_of(bucket), each, each.name) for each in segments]


def test_a_lasting_file_is_sent_once_for_many_jobs_and_removed_with_the_worker(
    bucket: Bucket, segments: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lend_all(bucket, segments)
    there, send = sent(bucket), Bucket.send
    assert len(there) == 3
    names: list[str] = []
    monkeypatch.setattr(Bucket, "send", lambda *given: (names.append(given[1]), send(*given)))
    worker_side.clear()
    again = lend_all(bucket, segments)
    assert (sent(bucket), names) == (there, [])
    assert [loan.hash for loan in again] == [loan.hash for loan in first]
    assert [links.at_hand(loan).read_bytes()[0] for loan in again] == [0, 1, 2]
    worker_side.close()
    assert sent(bucket) == []
    lend_all(bucket, segments)
    assert len(names) == 3


def test_a_lasting_file_that_a_cleanup_removed_is_sent_again(
    bucket: Bucket, segments: list[Path]
) -> None:
    lend_all(bucket, segments)
    removed = S3ObjectStore(bucket).remove_abandoned(now=datetime.now(UTC) + timedelta(days=2))
    assert (removed, sent(bucket)) == (3, [])
    loans = lend_all(bucket, segments)
    assert [links.at_hand(loan).read_bytes()[0] for loan in loans] == [0, 1, 2]


def test_a_lasting_file_that_a_cleanup_may_soon_remove_is_sent_again(
    bucket: Bucket, segments: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lend_all(bucket, segments)
    before = [found.modified for found in bucket.walk(f"{EXCHANGE}/")]
    time.sleep(1.1)  # the server counts seconds
    monkeypatch.setattr(worker_side, "KEPT_FOR", timedelta(seconds=1))
    lend_all(bucket, segments)
    after = [found.modified for found in bucket.walk(f"{EXCHANGE}/")]
    assert len(after) == 3
    assert all(late > early for early, late in zip(before, after, strict=True))


def test_lasting_files_beyond_the_limit_are_removed_between_jobs_the_oldest_first(
    bucket: Bucket, segments: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_side, "KEPT_BYTES", 2000)
    lend_all(bucket, segments)
    lend_all(bucket, segments[:1])
    assert len(sent(bucket)) == 3  # a job needs all of them
    worker_side.clear()
    assert {Path(name).name for name in sent(bucket)} == {"segment-0", "segment-2"}
    assert [links.at_hand(each).stat().st_size for each in lend_all(bucket, segments)] == [1000] * 3


# --- only the bytes of a split --------------------------------------------------------------


@pytest.fixture
def asked(s3: S3Server, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """What executors ask the bucket for."""
    monkeypatch.setattr(links, "PAUSE_S", 0.001)
    with fault_proxy(s3.endpoint) as proxy:
        yield proxy


def url_by(proxy: FaultProxy, bucket: Bucket) -> str:
    place = bucket.location
    return f"s3+{proxy.url}/{place.bucket}/{place.prefix}".rstrip("/")


def test_an_executor_fetches_the_bytes_of_its_part_to_their_positions(
    asked: FaultProxy, bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_bytes(content := bytes(range(256)) * 8000)
    late, end = LinkSpan(1_000_003, 2_000_000), LinkSpan(len(content) - 9, len(content))
    parts: list[Spans | None] = [
        (LinkSpan(0, 7),),
        None,
        (late,),
        (late, end),
        (LinkSpan(0, 7), end),
    ]
    loans = worker_side.lend_spans(url_by(asked, bucket), tmp_path / "rows", parts)
    assert len(sent(bucket)) == 1
    for loan, spans in zip(loans, parts, strict=True):
        asked.clear()
        wanted = spans or (LinkSpan(0, len(content)),)
        (path,) = {links.at_hand(loan) for _ in range(2)}
        found = path.read_bytes()
        assert len(found) == wanted[-1].end
        assert [found[slice(*span)] for span in wanted] == [
            content[slice(*span)] for span in wanted
        ]
        assert asked.received[links.AGENT] == sum(span.end - span.start for span in wanted)


def test_equal_bytes_of_other_parts_are_another_file(
    asked: FaultProxy, bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_bytes(content := b"x" * 40)
    parts = [(LinkSpan(0, 10), LinkSpan(20, 30)), (LinkSpan(0, 12), LinkSpan(20, 28))]
    for loan in worker_side.lend_spans(url_by(asked, bucket), tmp_path / "rows", parts):
        found = links.at_hand(loan).read_bytes()
        assert all(found[slice(*span)] == content[slice(*span)] for span in loan.spans or ())


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"slow"}))
def test_a_span_comes_whole_from_a_bucket_that_throttles_or_breaks_off(
    fault: str, asked: FaultProxy, bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_bytes(content := bytes(range(256)) * 8000)
    first, span = LinkSpan(10, 20), LinkSpan(100_000, 2_000_000)
    (loan,) = worker_side.lend_spans(url_by(asked, bucket), tmp_path / "rows", [(first, span)])
    asked.clear()
    asked.then("pass", *[fault] * 3)
    found = links.at_hand(loan).read_bytes()
    assert found[span.start :] == content[slice(*span)]
    assert found[slice(*first)] == content[slice(*first)]
    assert len(asked.seen) == 5


def test_other_bytes_of_a_span_are_refused_and_damaged_ones_are_fetched_again(
    asked: FaultProxy, bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_bytes(content := bytes(range(256)) * 10)
    (loan,) = worker_side.lend_spans(
        url_by(asked, bucket), tmp_path / "rows", [(LinkSpan(10, 20),)]
    )
    path = links.at_hand(loan)
    path.write_bytes(content[:15] + b"other")
    assert links.at_hand(loan).read_bytes()[10:] == content[10:20]
    path.unlink()
    (name,) = sent(bucket)
    bucket.call("put_object", name, Body=content[:15] + b"other")
    with pytest.raises(ExchangeFault, match="other bytes than those of"):
        links.at_hand(loan)
    assert not path.exists()


class Lending(Here):
    """Stages here, as on another machine: with a width, and files from the bucket."""

    width = 2
    in_process = False

    def __init__(self, url: str) -> None:
        self.url = url

    def spans(self, path: Path, parts: Sequence[Spans | None]) -> Sequence[Loan]:
        return worker_side.lend_spans(self.url, path, parts)


def read_by_executors(source: Source, asked: FaultProxy, bucket: Bucket) -> tuple[list[int], int]:
    """The numbers in all splits of a source, and how many splits; `asked` has what was fetched."""
    no_plan: Any = None  # of a source that is there
    lending = Lending(url_by(asked, bucket))
    read, found = splits_of(source, no_plan, lending, Limits(), None)
    assert len(found.splits) > 1
    asked.clear()
    numbers: list[int] = []
    for split in found.splits:
        with open_split(read, split, None) as frame:
            assert frame is not None
            for batch in frame.batches:
                numbers += batch.column("n").to_pylist()
    return numbers, len(found.splits)


SCHEMA = from_arrow(pa.schema([("n", pa.int64()), ("text", pa.string())]))
TEXTS = {
    "csv": (ReadStepCsv(header=True, schema=SCHEMA), "n,text\n", "{0},{1}\n"),
    "ndjson": (
        ReadStepNdJson(schema=SCHEMA),
        "",
        '{{"n": {0}, "text": "{1}"}}\n',
    ),
}


@pytest.mark.parametrize("form", sorted(TEXTS))
def test_executors_read_all_rows_of_a_text_although_each_fetches_only_its_part(
    form: str, asked: FaultProxy, bucket: Bucket, tmp_path: Path
) -> None:
    step, head, row = TEXTS[form]
    text = head + "".join(row.format(n, "x" * 900) for n in range(10_000))
    (tmp_path / "rows").write_text(text)
    source = Source(content=tmp_path / "rows", step=step, sizes=(len(text),))
    numbers, _ = read_by_executors(source, asked, bucket)
    assert numbers == list(range(10_000))
    assert asked.received[links.AGENT] == len(text) - len(head)


def test_executors_fetch_only_their_row_groups_and_the_footer(
    asked: FaultProxy, bucket: Bucket, tmp_path: Path
) -> None:
    path, rows = tmp_path / "rows", 10_000
    texts = [f"{n} " + random.Random(n).randbytes(450).hex() for n in range(rows)]
    table = pa.table({"n": range(rows), "text": texts})
    pq.write_table(table, path, row_group_size=500, compression="none", use_dictionary=False)
    step = ReadStepParquet()
    source = Source(content=path, step=step, sizes=(unpacked_size(step, path, Limits()),))
    numbers, splits = read_by_executors(source, asked, bucket)
    assert numbers == list(range(rows))
    footers = splits * pq.read_metadata(path).serialized_size
    content = path.stat().st_size
    assert content - 100 < asked.received[links.AGENT] < content + footers + 100
