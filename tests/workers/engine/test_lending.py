"""What the worker lends to executors on other machines, and what it need not send for that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from buckets import fresh_location, log_in
from chain_maker import entry
from ingesting import begin
from servers import S3Server
from throwaway import throwaway_stores

from odf_node.protocol.identity import DatasetRef
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.stores.objects.layout import EXCHANGE
from odf_node.storage.stores.objects.s3 import S3ObjectStore
from odf_node.storage.stores.objects.s3_bucket import SENT_PART_BYTES, Bucket
from odf_node.storage.stores.ports.values import ObjectKey, ObjectKind
from odf_node.workers.engines.exchange import executor_side, worker_side
from odf_node.workers.jobs.transform.files import InputFiles
from odf_node.workers.jobs.work.slice_files import local_file

CONTENT = b"id,at\n" + b"1,2024-01-01T00:00:00Z\n" * 1000


@pytest.fixture
def bucket(
    s3: S3Server, s3_bucket_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bucket]:
    """A bucket of one's own, and an executor with a disk of its own."""
    log_in(monkeypatch, s3)
    (tmp_path / "executor").mkdir()
    monkeypatch.setattr(executor_side.tempfile, "gettempdir", lambda: str(tmp_path / "executor"))
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
    assert executor_side.at_hand(loan).read_bytes() == CONTENT
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
    assert executor_side.at_hand(loan).read_bytes() == CONTENT
    assert sent(bucket) == []


def test_a_file_that_is_no_object_is_sent_a_large_one_in_parts(
    bucket: Bucket, tmp_path: Path
) -> None:
    content = bytes(range(256)) * (2 * SENT_PART_BYTES // 256) + b"end"
    (tmp_path / "prepared").write_bytes(content)
    loan = worker_side.lend(url_of(bucket), tmp_path / "prepared")
    (name,) = sent(bucket)
    assert bucket.stat(name).etag.strip('"').endswith("-3")
    assert executor_side.at_hand(loan).read_bytes() == content


def test_stages_and_the_executors_side_import_no_spark() -> None:
    look = "import sys; import odf_node.workers.stages.batch; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
