"""Start the process of Spark's JVM, confined and with few variables, and connect to it.

Strangers' queries run in it. So it does not inherit this process's environment, which has keys and
passwords, and it sees only Java, Spark and the files of its jobs. A local Spark may connect only to
its own Python workers and to this process, at one port each; this process connects to the JVM.

Class archives: files of Spark's classes that a JVM maps into memory, which halves its start.

`odf-worker class-archive` makes them for the Java and the jars of this installation. Every JVM
compares both with those of the archive, and ignores the archive if anything differs, so it may be
old or missing. The JVM does not check whether the files are complete; `using` does.
"""

from __future__ import annotations

import json
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
"""Seconds after which this process gives up on a JVM that has not reported its port."""
_LOOK_S = 0.02
_OF_CLUSTERS = ("SPARK_", "HADOOP_", "YARN_", "KUBE")
"""Prefixes of the names of variables by which a driver finds its cluster."""
_OF_EXECUTORS = ("SPARK_", "JDK_JAVA_OPTIONS", "PYTHONPATH", "HOME")
"""Prefixes of the names of variables for a standalone cluster that is started here."""
_CLUSTER_READS = (
    "/etc/resolv.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/ssl",
    "/etc/pki",
    "/var/run/secrets/kubernetes.io",
)
"""Paths that a driver reads to find its cluster, to trust it, and to authenticate itself."""
_USERS = ("/etc/passwd",)
"""Hadoop's classes ask for the name of this process's user, and do not start without it."""
_OF_PROCESSES = ("/proc",)
"""Spark checks there whether its Python workers are alive. Secrets of a process, such as its
environment, stay hidden: Landlock denies them to processes that may not trace it."""
_OWN_ADDRESS, _OWN_NAME = "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"
"""The variables that name the address a driver listens at, and the name by which it is found."""
_SETTINGS = "SPARK_CONF_DIR"
"""The variable that names the folder of the administrator's settings of Spark."""
_FILES = (_SETTINGS, "HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG")
"""Variables that name files for the JVM to read."""
_connecting = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """How to start one JVM. Jobs read and write files in `scratch` and in `folders`."""

    java: Path
    scratch: Path
    folders: Sequence[Path] = ()
    reads: Sequence[Path] = ()
    """Other paths that the JVM may read."""
    flags: Sequence[str] = ()
    memory: str = "1g"
    settings: Mapping[str, str]
    local: bool = True
    """Whether the JVM itself runs the tasks, so that it connects to Python processes only."""
    python_port: int = field(default_factory=free_port)
    """Port at which the parent of its Python workers listens, if it is local."""
    updates_port: int = field(default_factory=free_port)
    """Port at which this process receives accumulator updates of Python tasks, if it is local."""
    page_port: int = 0
    """Port of its web page; 0 means no page."""
    confinement: Mode = "auto"


def start(machine: Machine) -> None:
    """Start the JVM, and have PySpark use it instead of starting one itself.

    Raises:
        OSError: the JVM cannot be started, or ends before this process can connect to it.
    """
    folder = Path(tempfile.mkdtemp(prefix="connection-", dir=machine.scratch))
    try:
        told = folder / "port"
        process = subprocess.Popen(
            [*launcher(rules_of(machine)), *command_of(machine)],
            stdin=subprocess.PIPE,  # the JVM ends when this pipe closes with this process
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
    """PySpark's server, but at the port that the JVM's confinement allows."""

    def __init__(self, port: int, address: tuple[str, int], *rest: Any) -> None:
        super().__init__((address[0], port), *rest)


def rules_of(machine: Machine) -> Rules:
    """Return the rules of confinement for the JVM."""
    own = (machine.java, *_linked(machine.java.resolve()), spark_home(), *machine.reads)
    named = [path for name, path in environment_of(machine).items() if name in _FILES]
    return Rules(
        reads=(
            *program_reads(),
            *_USERS,
            *_OF_PROCESSES,
            *map(str, own),
            *named,
            *(() if machine.local else _CLUSTER_READS),
        ),
        writes=(str(machine.scratch), *map(str, machine.folders)),
        connects=(machine.python_port, machine.updates_port) if machine.local else None,
        binds=(0, machine.python_port, machine.page_port) if machine.local else None,
        sockets="stream" if machine.local else "any",
        starts=True,  # Spark's script starts the JVM
        mode=machine.confinement,
    )


def environment_of(machine: Machine) -> dict[str, str]:
    """Return the variables of the JVM: the ones named here, and no others of this process."""
    of_clusters = {} if machine.local else _of_clusters()
    local = {}
    if machine.local:
        local = {_OWN_ADDRESS: "127.0.0.1", PORT: str(machine.python_port)}
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
    """Return the variables of masters and executors, without keys and settings of the node."""
    named = {key: value for key, value in os.environ.items() if key.startswith(_OF_EXECUTORS)}
    return environment({**named, "JAVA_HOME": str(java), "SPARK_HOME": str(spark_home())})


def command_of(machine: Machine) -> list[str]:
    """Return the command line of Spark's script that starts a driver to which Python connects."""
    given = [word for each in machine.settings.items() for word in ("--conf", "=".join(each))]
    options = ["--driver-memory", machine.memory, "--driver-java-options"]
    script = str(spark_home() / "bin" / "spark-submit")
    return [script, *given, *options, shlex.join(machine.flags), "pyspark-shell"]


def spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _linked(home: Path) -> set[Path]:
    """Return a Java's home and the targets of its links; distributions link to their settings."""
    folders = (home / "bin", home / "conf", home / "lib")
    links = (each for folder in folders for each in folder.rglob("*") if each.is_symlink())
    return {home, *(each.resolve() for each in links)}


def _of_clusters() -> dict[str, str]:
    """Return the variables by which a driver finds its cluster, and its executors find the driver.

    Spark would tell them the name that belongs to its address; a pod's name is known to itself
    alone. So it gets the address as its name, unless it has another.
    """
    found = {key: value for key, value in os.environ.items() if key.startswith(_OF_CLUSTERS)}
    own = {_OWN_NAME: found[_OWN_ADDRESS]} if _OWN_ADDRESS in found else {}
    return {**own, **found}


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
    """Connect PySpark to a running JVM. PySpark reads port and secret from the environment."""
    given = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    with _connecting:
        os.environ.update(given)
        try:
            return launch_gateway()
        finally:
            for name in given:
                os.environ.pop(name, None)


def _heeds_no_interrupt() -> None:
    """Ignore Ctrl-C in the JVM. This process handles it, and ends the JVM after its job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


FOLDER = Path(sys.prefix) / "share" / "odf-node"
"""Default folder; it is part of the installation, because the JVM runs what it maps from here."""
JAVA, SPARK = "java.jsa", "spark.jsa"
"""File names of two archives: the classes of Java, for which not every Java includes an archive;
and all other classes, which builds on the first."""
INDEX = "classes.json"
"""Name of the file with the subfolder and the sizes of both archives; it is written last."""
QUIET = ("-Xlog:disable", "-Xlog:all=error,cds*=off:stderr")
"""Flags that keep standard output free for results, and say nothing of archives: Java does without
those that do not fit."""


def dumping(folder: Path) -> tuple[str, ...]:
    """Return flags of a JVM that archives Java's own classes in the folder, and ends."""
    return ("-Xshare:dump", f"-XX:SharedArchiveFile={folder / JAVA}", *QUIET)


def recording(folder: Path) -> tuple[str, ...]:
    """Return flags of a JVM that, at its end, archives the classes that it used. The folder must
    have the archive of `dumping`."""
    below, top = folder / JAVA, folder / SPARK
    return (f"-XX:SharedArchiveFile={below}", f"-XX:ArchiveClassesAtExit={top}", *QUIET)


def using(folder: Path = FOLDER) -> tuple[str, ...]:
    """Return flags of a JVM that uses the archives of the folder; none unless both are complete."""
    try:
        index = json.loads((folder / INDEX).read_text())
        archives = [folder / index["folder"] / name for name in (JAVA, SPARK)]
        if any(path.stat().st_size != index["sizes"][path.name] for path in archives):
            return ()
    except (OSError, ValueError, LookupError, TypeError):
        return ()
    both = os.pathsep.join(map(str, archives))
    return (f"-XX:SharedArchiveFile={both}", "-Xshare:auto", *QUIET)


def publish(made: Path) -> int:
    """Use the archives in `made`, a subfolder of the folder of archives, from now on, and remove
    earlier ones; return their size in bytes. Raise `FileNotFoundError`.

    They stay where they were made: the second archive names the path of the first. A JVM that
    starts meanwhile may miss files of earlier archives, and uses none.
    """
    folder, sizes = made.parent, {}
    for name in (JAVA, SPARK):
        with (made / name).open("rb") as file:
            os.fsync(file.fileno())
        sizes[name] = (made / name).stat().st_size
        (made / name).chmod(0o644)
    made.chmod(0o755)
    index = made / INDEX
    index.write_text(json.dumps({"folder": made.name, "sizes": sizes}))
    index.chmod(0o644)
    index.replace(folder / INDEX)
    for other in folder.iterdir():
        if other.is_dir() and other != made:
            shutil.rmtree(other, ignore_errors=True)
    return sum(sizes.values())
