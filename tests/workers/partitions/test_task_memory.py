"""How large partitions are, by the memory of a Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from odf_workers.partitions.memory import (
    SMALLEST_PARTITION_BYTES,
    heap_bytes,
    of_spark,
    partition_bytes,
)

MIB = 1 << 20


class Context:
    """What a context of Spark says of itself."""

    def __init__(self, master: str, cores: int, processes: int, **conf: str) -> None:
        self.master, self.defaultParallelism = master, cores
        self._conf = {name.replace("_", "."): value for name, value in conf.items()}
        status = SimpleNamespace(size=lambda: processes)
        context = SimpleNamespace(getExecutorMemoryStatus=lambda: status)
        self._jsc = SimpleNamespace(sc=lambda: context)

    def getConf(self) -> Any:
        return SimpleNamespace(get=self._conf.get)


@pytest.mark.parametrize(
    ("heap", "tasks", "bytes_"),
    [("1g", 2, 64 * MIB), ("8g", 4, 256 * MIB), ("1g", 1, 128 * MIB), ("256m", 32, 4 * MIB)],
)
def test_a_partition_is_an_eighth_of_the_share_of_a_task(
    heap: str, tasks: int, bytes_: int
) -> None:
    assert partition_bytes(heap, tasks) == bytes_
    assert partition_bytes(heap, tasks) >= SMALLEST_PARTITION_BYTES


def test_sizes_are_read_as_spark_writes_them() -> None:
    found = [heap_bytes(text) for text in ("512", "512m", "512MB", "1g", "2048k", "100b")]
    assert found == [512 * MIB, 512 * MIB, 512 * MIB, 1024 * MIB, 2 * MIB, 100]
    with pytest.raises(ValueError, match=r"1\.5g"):
        heap_bytes("1.5g")


def test_a_local_spark_has_the_heap_of_its_driver_and_a_cluster_that_of_each_executor() -> None:
    local = Context("local[2]", 2, 1, spark_driver_memory="2g", spark_executor_memory="9g")
    assert of_spark(local) == 128 * MIB
    cluster = Context("spark://m:7077", 12, 4, spark_driver_memory="9g", spark_executor_memory="4g")
    assert of_spark(cluster) == 128 * MIB
    assert of_spark(Context("spark://m:7077", 2, 1)) == 64 * MIB
    assert of_spark(Context("local[4]", 4, 1)) == 32 * MIB


@pytest.mark.spark
def test_a_spark_of_tests_tells_its_memory(spark: Any) -> None:
    from odf_workers.partitions.on_spark import OnSpark

    assert OnSpark(spark).partition_bytes == partition_bytes("1g", OnSpark(spark).width)
