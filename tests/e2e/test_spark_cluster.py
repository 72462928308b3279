"""A worker whose executors run elsewhere: they read and write the bucket themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from buckets import fresh_location, log_in
from servers import S3Server

from protocol.identity import DatasetRef
from protocol.metadata.reading import MergeStrategyLedger
from storage.config import StoreSettings, open_stores
from storage.layout import EXCHANGE
from storage.objects.s3 import S3ObjectStore
from storage.values import Succeeded
from storage.verify import DatasetSource, verify_chain
from tests.workers.datasets import created, submit

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]
WORKER = Path(sys.executable).parent / "odf-worker"


def ndjson(*numbers: int) -> bytes:
    return "".join(json.dumps({"id": n, "text": f"row {n}"}) + "\n" for n in numbers).encode()


def test_executors_elsewhere_read_and_write_the_bucket(
    s3: S3Server, s3_bucket_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_cluster import spark_cluster

    log_in(monkeypatch, s3)
    place = fresh_location(s3_bucket_url)
    url = f"s3+{place.endpoint}/{place.bucket}/{place.prefix}".rstrip("/")
    stores = open_stores(StoreSettings(data=tmp_path, objects_url=url))
    assert isinstance(stores.objects, S3ObjectStore)
    datasets = [
        created(stores, number=number, merge=MergeStrategyLedger(primary_key=("id",)))
        for number in (1, 2)
    ]
    jobs = [
        submit(stores, dataset, body)
        for dataset in datasets
        for body in (ndjson(1, 2, 3), ndjson(2, 3, 4))
    ]
    (tmp_path / "spark").mkdir()
    with spark_cluster(tmp_path / "spark") as master:
        command = [WORKER, "--once", "--data", tmp_path, "--objects-url", url, "--master", master]
        environment: dict[str, Any] = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": ""}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    for job in jobs:
        outcome = stores.jobs.get(job).outcome
        assert isinstance(outcome, Succeeded), outcome
    for dataset in datasets:
        state = stores.dataset(DatasetRef(id=dataset.id)).state()
        assert state.num_records == 4
        assert verify_chain(DatasetSource(dataset)).ok
    for number in (0, 1):
        log = tmp_path / "spark" / f"worker-{number}.log"
        assert "Launching executor" in log.read_text()
    sent = [found.name for found in stores.objects.bucket.walk(f"{EXCHANGE}/")]
    assert sent == [], "files of ended jobs are removed"
    stores.close()
