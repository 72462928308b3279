"""Spark's JVM has nothing to steal and nowhere to go, whatever code runs in it."""

from __future__ import annotations

import base64
import os
import pwd
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.workers.datasets import created, ndjson, submit

from odf_protocol.metadata.events import AddPushSource, SqlQueryStep, TransformSql
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepNdJson
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.ports.values import Failed, Succeeded
from odf_workers.confine import environment, launcher, missing
from odf_workers.engines.spark.machine import Machine, environment_of, rules_of
from odf_workers.engines.spark.session import SparkOptions, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CANARY = "canary-4e1f9c"
KEY = base64.b64encode(f"{CANARY}-of-the-seal".ljust(32, "."[:1]).encode()[:32]).decode()
SECRETS = {
    "ODF_STORE_SECRETS_KEYS": KEY,
    "AWS_ACCESS_KEY_ID": f"{CANARY}-id",
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}-of-the-bucket",
    "PGPASSWORD": f"{CANARY}-of-the-database",
    "ODF_WORKER_TEMPLATE_VARIABLES": '["API_TOKEN"]',
    "API_TOKEN": f"{CANARY}-of-a-source",
}
WORDS = (CANARY.encode(), KEY.encode())
kernel = pytest.mark.skipif(
    bool(missing()), reason="this kernel cannot confine a process wholly (Landlock, seccomp)"
)


def machine(scratch: Path, **options: Any) -> Machine:
    return Machine(java=java(), scratch=scratch, settings={}, **options)


@pytest.mark.parametrize("local", [True, False])
def test_the_jvm_is_given_no_variable_that_is_a_secret(
    local: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    given = environment_of(machine(tmp_path, local=local))
    assert CANARY not in str(given)
    assert set(given) & set(SECRETS) == set()


def test_a_driver_is_found_by_its_address_unless_it_is_given_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_HOSTNAME", raising=False)
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.4")
    driver = machine(tmp_path, local=False)
    assert environment_of(driver)["SPARK_LOCAL_HOSTNAME"] == "10.0.0.4"
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "driver.example.org")
    assert environment_of(driver)["SPARK_LOCAL_HOSTNAME"] == "driver.example.org"


def test_a_local_jvm_may_read_its_scratch_folder_and_connect_to_its_python_only(
    tmp_path: Path,
) -> None:
    made = machine(tmp_path / "scratch", reads=[tmp_path / "objects"])
    rules = rules_of(made)
    assert rules.writes == (str(tmp_path / "scratch"),)
    below = [path for path in rules.reads if Path(path).is_relative_to(tmp_path)]
    assert below == [str(tmp_path / "objects")]
    assert rules.connects == (made.python_port, made.updates_port)
    assert rules.sockets == "stream"


def test_options_of_spark_reach_the_rules_of_its_jvm(tmp_path: Path) -> None:
    from odf_workers.engines.spark import session as spark

    options = SparkOptions(folders=(tmp_path / "f",), reads=(tmp_path / "r",), confinement="off")
    made = spark._machine(options, tmp_path, {})
    rules = rules_of(made)
    assert str(tmp_path / "f") in rules.writes
    assert str(tmp_path / "r") in rules.reads
    assert rules.mode == "off"


@kernel
def test_a_local_jvm_may_ask_for_the_name_of_any_user(tmp_path: Path) -> None:
    # Hadoop's classes do not start without the name of theirs. Systemd tells root's, without the
    # file: a user of another number shows whether the file may be read.
    user = next(each for each in pwd.getpwall() if each.pw_name not in ("root", "nobody"))
    ask = [sys.executable, "-c", f"import pwd; print(pwd.getpwuid({user.pw_uid}).pw_name)"]
    words = [*launcher(rules_of(machine(tmp_path))), *ask]
    told = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
    assert told.stdout.strip() == user.pw_name


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder like that of a node's data, of no job."""
    with tempfile.TemporaryDirectory(prefix="data-") as folder:
        for name in ("secret.key", "node.db"):
            (Path(folder) / name).write_text(CANARY)
        yield Path(folder)


@pytest.mark.spark
@kernel
class TestCodeInTheJvm:
    """What a query could do if the judgement of its plan had a hole."""

    def read(self, spark: SparkSession, path: Path | str) -> str:
        jvm = spark.sparkContext._jvm
        none = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 0)
        return str(jvm.java.nio.file.Files.readString(jvm.java.nio.file.Path.of(str(path), none)))

    def refused(self, attempt: Any, *given: Any) -> str:
        from py4j.protocol import Py4JJavaError

        with pytest.raises(Py4JJavaError) as failed:
            attempt(*given)
        return str(failed.value.java_exception.toString())

    @pytest.mark.parametrize("name", ["secret.key", "node.db"])
    def test_cannot_read_what_is_beside_its_folders(
        self, name: str, spark: SparkSession, outside: Path
    ) -> None:
        assert "AccessDenied" in self.refused(self.read, spark, outside / name)

    def test_can_read_what_is_in_them(self, spark: SparkSession, tmp_path: Path) -> None:
        (tmp_path / "own").write_text("rows")
        assert self.read(spark, tmp_path / "own") == "rows"

    def test_cannot_write_beside_its_folders(self, spark: SparkSession, outside: Path) -> None:
        writer = spark.sparkContext._jvm.java.io.FileWriter
        assert "Permission denied" in self.refused(writer, str(outside / "new"))
        assert sorted(path.name for path in outside.iterdir()) == ["node.db", "secret.key"]

    @pytest.mark.parametrize("name", ["environ", "mem", "maps"])
    def test_cannot_read_the_process_that_started_it(self, name: str, spark: SparkSession) -> None:
        refusal = self.refused(self.read, spark, f"/proc/{os.getpid()}/{name}")
        assert "AccessDenied" in refusal or "Permission denied" in refusal

    def test_cannot_have_a_program_read_it_either(self, spark: SparkSession, outside: Path) -> None:
        jvm = spark.sparkContext._jvm
        words = jvm.java.util.ArrayList()
        for word in ("/bin/cat", str(outside / "secret.key"), f"/proc/{os.getpid()}/environ"):
            words.add(word)
        started = jvm.java.lang.ProcessBuilder(words).start()
        assert started.waitFor() != 0
        assert started.getInputStream().readAllBytes() == b""

    def test_cannot_connect_to_this_machine(self, spark: SparkSession) -> None:
        jvm = spark.sparkContext._jvm
        with socket.create_server(("127.0.0.1", 0)) as asked:
            asked.settimeout(0)
            self.refused(jvm.java.net.Socket, "127.0.0.1", asked.getsockname()[1])
            with pytest.raises(BlockingIOError):
                asked.accept()

    def test_cannot_send_datagrams_nor_use_sockets_of_this_machine(
        self, spark: SparkSession
    ) -> None:
        jvm = spark.sparkContext._jvm
        assert "not permitted" in self.refused(jvm.java.net.DatagramSocket)
        family = jvm.java.net.StandardProtocolFamily.UNIX
        self.refused(jvm.java.nio.channels.SocketChannel.open, family)

    def test_can_collect_more_than_one_message_holds(self, spark: SparkSession) -> None:
        rows = spark.range(2_000_000, numPartitions=2).toArrow()
        assert rows.num_rows == 2_000_000


@pytest.mark.spark
def test_no_secret_of_a_worker_is_in_its_spark_nor_in_anything_it_says(tmp_path: Path) -> None:
    stores = open_stores(StoreSettings(data=tmp_path / "data"))
    stolen = "IDENTIFIER('reflect')('java.lang.System', 'getenv', 'ODF_STORE_SECRETS_KEYS')"
    queries = ["select n + 1 as m from input", f"select n, {stolen} as m from input"]
    jobs = [
        submit(stores, created(stores, number=at, source=preprocessed(query)), ndjson([{"n": 1}]))
        for at, query in enumerate(queries)
    ]
    log = tmp_path / "log"
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [sys.executable, "-m", "odf_workers.main", "--data", str(tmp_path / "data")],
            env={
                **os.environ,
                **SECRETS,
                "ODF_WORKER_SCRATCH": str(tmp_path / "scratch"),
                "ODF_WORKER_WARM_UP": "false",
                "ODF_STORE_LOG_LEVEL": "DEBUG",
            },
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + 300
        while any(stores.jobs.get(job).outcome is None for job in jobs):
            assert worker.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        machines = [pid for pid in processes_below(worker.pid) if is_java(pid)]
        assert len(machines) == 1
        for pid in machines:
            assert found_in(Path(f"/proc/{pid}/environ").read_bytes()) == []
            assert found_in(Path(f"/proc/{pid}/cmdline").read_bytes()) == []
            assert found_in_memory(pid) == []
    finally:
        worker.terminate()
        worker.wait(60)
    answered, refused = (stores.jobs.get(job).outcome for job in jobs)
    assert isinstance(answered, Succeeded), answered
    assert isinstance(refused, Failed), refused
    assert "IDENTIFIER is not available in queries" in refused.message
    assert found_in(log.read_bytes() + str((answered, refused)).encode()) == []
    stores.close()


def preprocessed(query: str) -> AddPushSource:
    return AddPushSource(
        source_name="default",
        read=ReadStepNdJson(),
        preprocess=TransformSql(engine="spark", queries=(SqlQueryStep(query=query),)),
        merge=MergeStrategyAppend(),
    )


def processes_below(parent: int) -> list[int]:
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        parents[int(status.parent.name)] = int(fields[1])
    found = [parent]
    for each in found:
        found += [pid for pid, of in parents.items() if of == each]
    return found[1:]


def is_java(pid: int) -> bool:
    return "java" in Path(f"/proc/{pid}/comm").read_text()


def found_in(content: bytes) -> list[bytes]:
    return [word for word in WORDS if word in content]


def found_in_memory(pid: int) -> list[bytes]:
    """Words in what a process can write to, its heap above all."""
    found: set[bytes] = set()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            at = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if at is None:
                continue
            start, end = int(at[1], 16), int(at[2], 16)
            while start < end:
                try:
                    memory.seek(start)
                    part = memory.read(min(end - start, 1 << 24))
                except (OSError, OverflowError, ValueError):  # not there any more, or never
                    break
                found.update(found_in(part))
                start += len(part) or end
    return sorted(found)
