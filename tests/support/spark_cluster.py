"""A standalone Spark on this machine: master and workers from the classes of pyspark."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from servers import free_port, wait_until

from odf_node.workers.engines.spark.class_archive import using
from odf_node.workers.engines.spark.session import LOCAL_JVM_FLAGS, java


def _quoted(flag: str) -> str:
    return f'"{flag}"'


RUN = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
QUICK_START = {"JDK_JAVA_OPTIONS": " ".join((*LOCAL_JVM_FLAGS, *map(_quoted, using())))}
"""For every Java that is started under it: none lives long enough to be worth optimizing."""


@contextmanager
def spark_cluster(folder: Path, *, workers: int = 2, **env: str) -> Iterator[str]:
    """The master's URL. Executors inherit `env`, and no key of a bucket."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        **QUICK_START,
        **env,
        "JAVA_HOME": str(java()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    master = [DEPLOY + ".master.Master", "--host", "127.0.0.1", "--port", str(port)]
    with ExitStack() as stack:
        log = stack.enter_context(_running([*master, "--webui-port", "0"], folder, "master", given))
        wait_until(lambda: "New state: ALIVE" in log.read_text(), "the Spark master", 150)
        logs = []
        for number in range(workers):
            place = folder / f"worker-{number}"
            place.mkdir()
            worker = [DEPLOY + ".worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
            options = ["--cores", "1", "--memory", "1200m", "--work-dir", str(place), url]
            mine = {**given, "SPARK_LOCAL_DIRS": str(place), "TMPDIR": str(place)}
            name = f"worker-{number}"
            logs.append(stack.enter_context(_running([*worker, *options], folder, name, mine)))
        for each in logs:
            wait_until(lambda log=each: _is_registered(log), "a Spark worker", 150)
        yield url


def _is_registered(log: Path) -> bool:
    return "Successfully registered" in log.read_text()


@contextmanager
def _running(words: list[str], folder: Path, name: str, env: dict[str, str]) -> Iterator[Path]:
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [RUN, *words], stdout=out, stderr=out, env=env, cwd=folder, start_new_session=True
        )
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=20)
