"""The one place that starts Spark.

A worker process keeps one session from the first job on that needs it; each job works in its
own child session, so that views and settings of one job are unknown to the next. Rows enter and
leave as Parquet files or Arrow batches, never as Python objects.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...confine import Mode
from ..exchange import worker_side as exchange
from . import class_archive, jvm, machine
from . import visible_files as shown
from .gateway import remember_classes
from .java import java_home

LOCAL_JVM_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    # With one compiler Java keeps 48 MB for compiled code, which a few dozen queries fill; from
    # then on it throws code away and compiles it again, which doubled what later steps took.
    "-XX:ReservedCodeCacheSize=160m",
)
"""Quick start and small jobs; measured a third faster to start than the defaults."""
SAME_EVERYWHERE_FLAGS = (
    "-Duser.language=en",
    "-Duser.country=US",
    "-Duser.timezone=UTC",
    "-Dfile.encoding=UTF-8",
    # XML of rows may name a document type: it is read neither from the network nor from files.
    "-Djavax.xml.accessExternalDTD=",
    "-Djavax.xml.accessExternalSchema=",
    "-Djavax.xml.accessExternalStylesheet=",
)
"""Results must not depend on where a worker runs, nor queries reach out of it."""
JAVA_CACHE = Path(tempfile.gettempdir()) / "odf-node"
"""Where the launcher of a packaged Java lies."""
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
LAYOUTS = {
    "text": """
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n
""",
    "json": """
appender.stderr.layout.alwaysWriteExceptions = false
appender.stderr.layout.pattern = {"time": "%d{yyyy-MM-dd'T'HH:mm:ss.SSS}{UTC}+00:00", \
"level": "%level{lowerCase=true}", "logger": "%c", "message": "%enc{%m}{JSON}", \
"exception": "%enc{%xEx}{JSON}"}%n
""",
}
"""Lines of the JVM, in the forms the worker's own have."""
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
    # A query may name views only: without this, any file of the machine is a table.
    "spark.sql.runSQLOnFiles": "false",
    # Otherwise ${env:…} in a query is whatever the environment of the worker holds.
    "spark.sql.variable.substitute": "false",
    # Plans are small and known; adaptive planning costs more than it saves, and the
    # order of partitions would depend on sizes measured at run time.
    "spark.sql.adaptive.enabled": "false",
    "spark.python.daemon.module": "odf_node.workers.engines.spark.python_daemon",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    # Otherwise every call that builds a plan looks up where in Python it was made.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
INSIDE_SETTINGS: Mapping[str, str] = {
    # A longer result would be fetched by the JVM from itself, by a connection it may not open.
    "spark.task.maxDirectResultSize": "2047m",
    "spark.rpc.message.maxSize": "2047",
}
"""For a Spark whose tasks run in its one JVM."""


PAGE_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "true",
    # It shows, and does nothing.
    "spark.ui.killEnabled": "false",
    "spark.ui.threadDumpsEnabled": "false",
    "spark.ui.heapHistogramEnabled": "false",
}
"""For a Spark that has a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """How to start Spark. `master` is any Spark master URL; `memory` as Spark writes it."""

    master: str = "local[2]"
    memory: str = "1g"
    scratch: Path | None = None
    shuffle_partitions: int = 4
    exchange: str | None = None
    """URL of the bucket through which executors elsewhere read and write; None: they are here."""
    log_format: str = "text"
    folders: tuple[Path, ...] = ()
    """Folders beside `scratch` whose files jobs name, to be read and written."""
    reads: tuple[Path, ...] = ()
    """What jobs only read."""
    confinement: Mode = "auto"
    page_port: int = 0
    """Where Spark's own page answers; 0: there is none."""
    executor_memory: str | None = None
    """Heap of an executor elsewhere; None: as Spark is configured."""
    cores: int | None = None
    """Most of a standalone cluster; None: as Spark is configured, or all."""
    record_classes_in: Path | None = None
    """Where the JVM keeps the classes it used, at its end, instead of using those that are kept."""

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def runs_inside(self) -> bool:
        """Whether tasks run in the JVM itself, and no other process is asked."""
        return self.master == "local" or self.master.startswith("local[")


class Spark(Protocol):
    """What engines need of the Spark of their process; a `SparkSession` is one."""

    @property
    def sparkContext(self) -> Any: ...  # noqa: N802

    def newSession(self) -> SparkSession: ...  # noqa: N802

    def stop(self) -> None: ...


class SparkWhenNeeded:
    """Spark that starts with the first work for it: rows that meet no others need none.

    That there is a Java is made sure of at once, which raises `JavaNotFound`. A Spark that
    does not start is one that does not answer: a `ConnectionError` where it was needed.
    """

    def __init__(self, options: SparkOptions) -> None:
        java()
        self._options = options
        self._starting = threading.Lock()
        self._session: SparkSession | None = None

    def start(self) -> SparkSession:
        with self._starting:
            if self._session is None:
                try:
                    self._session = start_spark(self._options)
                except (PySparkException, Py4JError, OSError) as error:
                    raise ConnectionError(f"Spark does not start: {error}") from error
            return self._session

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        return self.start().sparkContext

    def newSession(self) -> SparkSession:  # noqa: N802
        return self.start().newSession()

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()

    def renew(self) -> None:
        """Leave a Spark that is gone, or of no use any more, and start another at once: health
        checks look for it. Raises `ConnectionError`."""
        with self._starting:
            self._session = None
            jvm.leave()
        self.start()


def java() -> Path:
    """Home of the Java that starts Spark. Raises `JavaNotFound`."""
    return java_home(os.environ, JAVA_CACHE)


def start_spark(options: SparkOptions) -> SparkSession:
    """Start (or join) this process's Spark.

    Raises:
        JavaNotFound: there is none.
        OSError: it does not start.
    """
    scratch = options.scratch or Path(tempfile.gettempdir()) / f"odf-spark-{os.getpid()}"
    scratch.mkdir(parents=True, exist_ok=True)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # Prints whole JVM stacks for every wrong query; the reason reaches the caller anyway.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    exchange.use(options.exchange)
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
    """What is taken of a cluster. What is not set is left to the administrator's configuration."""
    asked = {
        "spark.executor.memory": options.executor_memory,
        "spark.cores.max": options.cores,
    }
    return {name: str(value) for name, value in asked.items() if value is not None}


def _start_machine(options: SparkOptions, scratch: Path, settings: Mapping[str, str]) -> None:
    if options.confinement == "off":
        shown.sees_everything()
    else:
        shown.sees(scratch, (*options.folders, *options.reads))
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
        flags += class_archive.using()
    else:
        flags += class_archive.recording(options.record_classes_in)
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
