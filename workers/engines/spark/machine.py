"""The process of Spark's JVM: started confined, with an environment of its own, and connected to.

Queries of strangers run in it. So it gets no copy of this process's environment, which holds keys
and passwords; it sees Java, Spark and the files of its jobs; and a local Spark connects to nothing
but its own Python workers and this process, at a port each: this process connects to it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway
from pyspark import SparkContext, accumulators
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from ...confine import Mode, Rules, environment, launcher, program_reads
from .python_daemon import PORT, free_port

START_S = 300.0
"""After so long a JVM that has not told its port is given up."""
_LOOK_S = 0.02
_OF_CLUSTERS = ("SPARK_", "HADOOP_", "YARN_", "KUBE")
"""Beginnings of variables by which a driver finds its cluster."""
_OF_EXECUTORS = ("SPARK_", "JDK_JAVA_OPTIONS", "PYTHONPATH", "HOME")
"""The same for a standalone cluster that is started here."""
_CLUSTER_READS = (
    "/etc/resolv.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/passwd",
    "/etc/ssl",
    "/etc/pki",
    "/var/run/secrets/kubernetes.io",
)
"""What a driver needs to find and trust its cluster, and to be trusted."""
_OF_PROCESSES = ("/proc",)
"""Spark looks there whether its Python workers live. What is secret of a process, as its
environment is, Landlock keeps from those that may not trace it."""
_SETTINGS = "SPARK_CONF_DIR"
"""Names the folder of an administrator's own settings of Spark."""
_FILES = (_SETTINGS, "HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG")
"""Variables whose files the JVM reads, if it is given them."""
_connecting = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """How one JVM is started. Folders are those whose files jobs name; `scratch` is among them."""

    java: Path
    scratch: Path
    folders: Sequence[Path] = ()
    reads: Sequence[Path] = ()
    """What it may read beside them."""
    flags: Sequence[str] = ()
    memory: str = "1g"
    settings: Mapping[str, str]
    local: bool = True
    """Whether executors are inside of it, so that it connects to nothing but Python."""
    python_port: int = field(default_factory=free_port)
    """Where the parent of its Python workers listens, if it is local."""
    updates_port: int = field(default_factory=free_port)
    """Where this process listens for what tasks in Python count, which a local Spark sends."""
    page_port: int = 0
    """Where its page answers; 0: it has none."""
    confinement: Mode = "auto"


def start(machine: Machine) -> None:
    """Start the JVM, and have PySpark take it for the one it would start itself.

    Raises:
        OSError: it cannot be started, or ends before it can be connected to.
    """
    folder = Path(tempfile.mkdtemp(prefix="connection-", dir=machine.scratch))
    try:
        told = folder / "port"
        process = subprocess.Popen(
            [*launcher(rules_of(machine)), *command_of(machine)],
            stdin=subprocess.PIPE,  # it ends when this process does
            env=environment_of(machine) | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)},
            cwd=machine.scratch,
            preexec_fn=_heeds_no_interrupt,
        )
        port, secret = _connection(process, told)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    gateway = _connected(port, secret)
    gateway.proc = process
    if machine.local:
        accumulators.AccumulatorTCPServer = partial(_UpdatesServer, machine.updates_port)
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm


class _UpdatesServer(accumulators.AccumulatorTCPServer):  # type: ignore[misc]
    """PySpark's own, at a port that the JVM's confinement names."""

    def __init__(self, port: int, address: tuple[str, int], *rest: Any) -> None:
        super().__init__((address[0], port), *rest)


def rules_of(machine: Machine) -> Rules:
    """What the JVM may do."""
    own = (machine.java, *_linked(machine.java.resolve()), spark_home(), *machine.reads)
    named = [path for name, path in environment_of(machine).items() if name in _FILES]
    return Rules(
        reads=(
            *program_reads(),
            *_OF_PROCESSES,
            *map(str, own),
            *named,
            *(() if machine.local else _CLUSTER_READS),
        ),
        writes=(str(machine.scratch), *map(str, machine.folders)),
        connects=(machine.python_port, machine.updates_port) if machine.local else None,
        binds=(0, machine.python_port, machine.page_port) if machine.local else None,
        sockets="stream" if machine.local else "any",
        starts=True,  # Spark's own script, and the JVM by it
        mode=machine.confinement,
    )


def environment_of(machine: Machine) -> dict[str, str]:
    """The variables the JVM has: named ones, none by being there."""
    of_clusters = {} if machine.local else _of_clusters()
    local = {}
    if machine.local:
        local = {"SPARK_LOCAL_IP": "127.0.0.1", PORT: str(machine.python_port)}
    if _SETTINGS in os.environ:
        local |= {_SETTINGS: os.environ[_SETTINGS]}
    return environment(
        {
            **local,
            **of_clusters,
            "HOME": str(machine.scratch),
            "JAVA_HOME": str(machine.java),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONNECT_MODE": "0",
            "SPARK_HOME": str(spark_home()),
            "TMPDIR": str(machine.scratch),
        }
    )


def environment_of_cluster(java: Path) -> dict[str, str]:
    """The variables that masters and executors have: no key and no setting of the node."""
    named = {key: value for key, value in os.environ.items() if key.startswith(_OF_EXECUTORS)}
    return environment({**named, "JAVA_HOME": str(java), "SPARK_HOME": str(spark_home())})


def command_of(machine: Machine) -> list[str]:
    """Spark's own script for starting a driver that Python connects to."""
    given = [word for each in machine.settings.items() for word in ("--conf", "=".join(each))]
    options = ["--driver-memory", machine.memory, "--driver-java-options"]
    script = str(spark_home() / "bin" / "spark-submit")
    return [script, *given, *options, shlex.join(machine.flags), "pyspark-shell"]


def spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _linked(home: Path) -> set[Path]:
    """A Java and what it links to: distributions keep its settings elsewhere."""
    folders = (home / "bin", home / "conf", home / "lib")
    links = (each for folder in folders for each in folder.rglob("*") if each.is_symlink())
    return {home, *(each.resolve() for each in links)}


def _of_clusters() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key.startswith(_OF_CLUSTERS)}


def _connection(process: subprocess.Popen[bytes], told: Path) -> tuple[int, str]:
    deadline = time.monotonic() + START_S
    while not told.is_file():
        if process.poll() is not None:
            raise OSError(f"its Java ended with code {process.returncode}")
        if time.monotonic() > deadline:
            process.kill()
            raise TimeoutError(f"its Java did not answer within {START_S:g} s")
        time.sleep(_LOOK_S)
    with told.open("rb") as info:
        return read_int(info), UTF8Deserializer().loads(info)


def _connected(port: int, secret: str) -> JavaGateway:
    """PySpark's own way to a JVM that is there already; it takes both from the environment."""
    given = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    with _connecting:
        os.environ.update(given)
        try:
            return launch_gateway()
        finally:
            for name in given:
                os.environ.pop(name, None)


def _heeds_no_interrupt() -> None:
    """Ctrl-C is for this process, which ends the JVM when it has ended its job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
