"""Spark on a cluster: executors read and write the bucket themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from buckets import fresh_location, log_in
from servers import S3Server

from storage.layout import EXCHANGE
from storage.objects.s3_bucket import Bucket

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(400)]
ROOT = Path(__file__).parents[2]
WORK = """
import sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from storage.objects.s3_bucket import Bucket, S3Location
from workers.engine import exchange
from workers.engine.frames import read_parquet, sorted_batches
from workers.engine.spark import SparkOptions, start_spark

master, url, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ms", "UTC")), ("text", pa.string()),
                    ("small", pa.uint8())])
def rows(ids):
    return pa.table([pa.array(ids), pa.array([1000 * n for n in ids], schema.field(1).type),
                     pa.array([f"row {n}" for n in ids]),
                     pa.array([n % 200 for n in ids], pa.uint8())], schema=schema)
staged, slice_ = folder / "staged.parquet", folder / "slice.parquet"
pq.write_table(rows(list(range(500, 0, -1))), staged)
pq.write_table(rows(list(range(501, 1001))).drop_columns(["text"]), slice_)
Bucket(S3Location.parse(url)).call("put_object", "fed01/data/slice", Body=slice_.read_bytes())
exchange.remember(slice_, "fed01/data/slice")
slice_.unlink()  # only the bucket has it
session = start_spark(SparkOptions(master=master, scratch=folder / "scratch", exchange=url))
for small in (True, False):
    frame = read_parquet(session, [staged, slice_], schema)
    found = pa.Table.from_batches(
        list(sorted_batches(frame, ["id"], folder / "scratch", small=small, partitions=3)))
    assert found["id"].to_pylist() == list(range(1, 1001)), found["id"]
    assert found["text"].to_pylist() == [f"row {n}" for n in range(1, 501)] + [None] * 500
    assert found["at"].cast(pa.timestamp("ms", "UTC")).equals(
        pa.chunked_array([pa.array([1000 * n for n in range(1, 1001)], schema.field(1).type)]))
    assert found["small"].to_pylist() == [n % 200 for n in range(1, 1001)]
    print("executors", session.sparkContext.uiWebUrl, small)
exchange.clear()
session.stop()
"""


def test_executors_elsewhere_read_and_write_the_bucket(
    s3: S3Server, s3_bucket_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_cluster import spark_cluster

    log_in(monkeypatch, s3)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    place = fresh_location(s3_bucket_url)
    url = f"s3+{place.endpoint}/{place.bucket}/{place.prefix}".rstrip("/")
    with spark_cluster(tmp_path) as master:
        work = [sys.executable, "-c", WORK, master, url, str(tmp_path)]
        done = subprocess.run(work, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("executors") == 2
    assert [found.name for found in Bucket(place).walk(f"{EXCHANGE}/")] == []
