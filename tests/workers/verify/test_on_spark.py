"""A verification on Spark: its report, its receipt, and what ends it."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from damaged import DatasetMaker
from tests.workers.derivatives import add_rows, moment, root
from tests.workers.verify import stages
from tests.workers.verify.test_spread import DATASET, chain_made, damage, stored

from odf_protocol.errors import Unavailable
from odf_protocol.metadata.events import AddData
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload, answer_of, to_json
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.verify.run import verify_chain
from odf_storage.datasets.verify.stages import Split
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.engines.port.job_listener import Heard
from odf_workers.jobs.ingest.ways import LARGE, SMALL
from odf_workers.jobs.verify.run import run_verification
from odf_workers.jobs.verify.spread import OnPartitions
from odf_workers.runtime.progress import JobLost, JobProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.partitions.on_spark import OnSpark

pytestmark = pytest.mark.spark


@pytest.fixture
def way(spark: SparkSession) -> Iterator[OnSpark]:
    from pyspark import cloudpickle

    from odf_workers.partitions.on_spark import OnSpark

    cloudpickle.register_pickle_by_value(sys.modules[stages.__name__])
    made = OnSpark(spark)
    yield made
    made.close()
    cloudpickle.unregister_pickle_by_value(sys.modules[stages.__name__])


@pytest.fixture
def local_stores(tmp_path: Path) -> Iterator[Stores]:
    opened = open_stores(StoreSettings(data=tmp_path / "node", durable=False))
    yield opened
    opened.close()


def spread_over(way: OnSpark, folder: Path, made: DatasetMaker) -> OnPartitions:
    return OnPartitions(way, stored(made, folder), DATASET, size=1 << 20, memory=1 << 30)


@pytest.mark.parametrize("seed", [4, 5, 12])
def test_tasks_that_are_confined_to_their_files_find_what_threads_find(
    seed: int, way: OnSpark, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    made = chain_made(chance)
    damage(made, chance)
    runner = spread_over(way, tmp_path, made)
    found = verify_chain(made.source, where=lambda *_: runner)
    assert found.problems == verify_chain(made.source).problems
    assert found == verify_chain(made.source)


def test_a_job_on_spark_answers_as_one_in_the_process_and_says_where_it_ran(
    spark: SparkSession, local_stores: Stores, tmp_path: Path
) -> None:
    from tests.workers.datasets import worker_of

    cities = root(local_stores, "cities")
    for n in range(3):
        row = (f"2024-01-0{n + 1}T00:00:00Z", "a", n)
        add_rows(local_stores, cities, [row], tmp_path, at=10 + n)
    [first, *_] = [
        each.event.new_data for each in cities.blocks() if isinstance(each.event, AddData)
    ]
    local = local_stores.objects.local_paths
    assert local is not None
    assert first is not None
    path = local.path(ObjectKey(cities.id, ObjectKind.DATA, first.physical_hash))
    path.write_bytes(path.read_bytes() + b"more")
    asked, now = VerifyPayload(), moment(100)
    answers = []
    for limit in (1 << 30, 0):
        context = worker_of(spark, local_stores, tmp_path, micro_batch_bytes=limit).context
        answers.append(run_verification(local_stores, cities, asked, context, now=now))
    [here], [spread] = (each.datasets for each in answers)
    assert here.report == spread.report
    assert [each["reason"] for each in here.report["problems"]] == ["SizeMismatch"]
    assert here.ran is not None
    assert spread.ran is not None
    assert (here.ran.way, here.ran.tasks) == ("process", 0)
    assert (spread.ran.way, spread.ran.bytes) == ("spark", here.ran.bytes)
    assert (here.ran.because, spread.ran.because) == (SMALL, LARGE)
    assert spread.ran.tasks >= 1
    assert spread.ran.splits == here.ran.splits
    assert answer_of(to_json(answers[1])) == answers[1]


def test_a_slice_that_ends_its_process_does_not_end_the_worker(
    way: OnSpark, tmp_path: Path
) -> None:
    made = DatasetMaker().play(["Seed"])
    runner = spread_over(way, tmp_path, made)
    splits: list[Split[int]] = [Split(number, ()) for number in range(3)]
    with pytest.raises(Unavailable, match="could not run a stage"):
        list(runner.run(stages.dying, splits))
    assert list(runner.run(stages.dying, splits[2:])) == [2]


def test_a_cancelled_verification_ends_its_tasks(
    way: OnSpark, spark: SparkSession, tmp_path: Path
) -> None:
    job_progress = JobProgress()
    made = type(way)(spark, listener=Heard(job_progress))
    runner = spread_over(made, tmp_path, DatasetMaker().play(["Seed"]))
    cancels = threading.Timer(3.0, job_progress.lose)
    cancels.start()
    with pytest.raises(JobLost):
        list(runner.run(stages.sleeping, [Split(60.0, ())]))
    cancels.join()
