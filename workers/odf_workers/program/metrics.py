"""Metrics of a worker for Prometheus, on a separate port.

They count jobs by kind and outcome, batches by where their stages ran, rows, and seconds.

`odf-worker class-archive`: store Spark's classes as they are in memory, for quicker starts.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    start_http_server,
)

from odf_protocol.errors import NodeError, NodeFault
from odf_storage.stores.ports.values import Job, JobOutcome, Succeeded

from ..confine import PARTS, Mode, missing
from ..engines.spark import machine as class_archive
from ..jobs.work.context import StagesRan

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
DONE, FAILED = "done", "failed"
OF_BATCHES = {
    "odf_worker_batch_rows": ("rows", "Rows read of batches, by where their stages ran."),
    "odf_worker_batch_bytes": ("bytes", "Bytes read of batches, by where their stages ran."),
}
"""Counters by kind and way: the member of `BatchSize`, and the help text."""
OF_SPARK = {
    "odf_worker_spark_jobs": ("jobs", "Jobs of Spark."),
    "odf_worker_spark_tasks": ("tasks", "Tasks of Spark."),
    "odf_worker_shuffle_bytes": ("shuffle_bytes", "Bytes of rows between tasks of Spark."),
    "odf_worker_spill_bytes": ("spill_bytes", "Bytes of rows that memory was too short for."),
}
"""Counters by kind and way: the member of `Usage`, and the help text."""


class WorkerMetrics:
    """Counters of one worker process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        kind = ["kind"]
        self._jobs = Counter(
            "odf_worker_jobs", "Jobs ended.", [*kind, "outcome"], registry=self.registry
        )
        self._rows = Counter("odf_worker_rows", "Rows committed.", kind, registry=self.registry)
        self._late_rows = Counter(
            "odf_worker_late_rows",
            "Rows of inputs that derivatives left out because they came too late.",
            registry=self.registry,
        )
        self._seconds = Histogram(
            "odf_worker_job_seconds",
            "From the claim of a job to its end.",
            kind,
            buckets=SECONDS,
            registry=self.registry,
        )

        by_way = [*kind, "way"]
        self._batch_seconds = Histogram(
            "odf_worker_batch_seconds",
            "How long the stages of a batch ran, by where they ran.",
            by_way,
            buckets=SECONDS,
            registry=self.registry,
        )
        self._of_batches, self._of_spark = (
            {
                member: Counter(name, said, by_way, registry=self.registry)
                for name, (member, said) in counters.items()
            }
            for counters in (OF_BATCHES, OF_SPARK)
        )

    def confinement(self, mode: Mode) -> None:
        """Set the gauges of what the kernel keeps away from the processes that run queries."""
        lacking = missing(mode)
        gauge = Gauge(
            "odf_worker_engines_confined",
            "Whether the kernel keeps processes that run queries from it.",
            ["what"],
            registry=self.registry,
        )
        for what in PARTS:
            gauge.labels(what).set(what not in lacking)

    def ended(self, job: Job, outcome: JobOutcome, seconds: float) -> None:
        kind, done = job.spec.kind, isinstance(outcome, Succeeded)
        self._jobs.labels(kind, DONE if done else FAILED).inc()
        self._seconds.labels(kind).observe(seconds)
        if isinstance(outcome, Succeeded):
            self._rows.labels(kind).inc(int(outcome.result.get("rowsAdded") or 0))
            self._late_rows.inc(int(outcome.result.get("rowsLate") or 0))

    def stages_ran(self, kind: str, ran: StagesRan) -> None:
        """Count a run of stages: each of its batches, and once what Spark used for all of them."""
        way = ran.usage.way
        for batch in ran.batches:
            self._batch_seconds.labels(kind, way).observe(ran.seconds)
            for member, counter in self._of_batches.items():
                counter.labels(kind, way).inc(getattr(batch, member))
        for member, counter in self._of_spark.items():
            counter.labels(kind, way).inc(getattr(ran.usage, member))

    def serve(self, port: int, host: str = "0.0.0.0") -> None:  # noqa: S104 - to be scraped
        """Answer scrapes in a thread. Raises `OSError` if the port is in use."""
        start_http_server(port, addr=host, registry=self.registry)


MOST_SECONDS = 300
"""Seconds that a JVM may take to write its classes."""


class ClassesNotKept(NodeFault):
    """The installed Java cannot store its classes."""


@click.command(
    "class-archive",
    short_help="Keep Spark's classes ready: it starts in half the time.",
    epilog="\b\nExamples:\n  odf-worker class-archive",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def keep_classes(*, as_json: bool) -> None:
    """Keep Spark's classes as the Java virtual machine has them in memory.

    Once for an installation, and again when Java or Spark were renewed: until then Spark starts
    as it does without. Takes half a minute, and 200 MB beside the installed packages.
    """
    folder = class_archive.FOLDER
    if sys.stderr.isatty():
        click.echo("Spark does a few jobs, then Java writes what it has …", err=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        size = keep(folder)
    except (NodeError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "size": size}, indent=2))
    else:
        click.echo(f"{size / 1e6:.0f} MB of classes are kept in {folder}")


def keep(folder: Path) -> int:
    """Create the files again, and return their size in bytes. Starts and ends the Spark of this
    process.

    Raises:
        ClassesNotKept: this Java cannot store its classes.
        JavaNotFound: no Java is installed.
        OSError: the disk is full, or Spark does not start.
    """
    with ExitStack() as failing:
        making = Path(tempfile.mkdtemp(prefix="of-", dir=folder))
        failing.callback(shutil.rmtree, making, ignore_errors=True)
        try:
            _keep_java(making)
            _keep_spark(making)
        except subprocess.TimeoutExpired:
            raise ClassesNotKept(f"Java did not end within {MOST_SECONDS} s") from None
        try:
            size = class_archive.publish(making)
        except FileNotFoundError as missing:
            name = Path(missing.filename).name
            raise ClassesNotKept(f"Java ended without having written {name}") from None
        failing.pop_all()
        return size


def _keep_java(folder: Path) -> None:
    from ..engines.spark.session import java

    words = [str(java() / "bin" / "java"), *class_archive.dumping(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    if done.returncode != 0:
        raise ClassesNotKept(f"Java keeps no classes: {(done.stdout + done.stderr).strip()}")


def _keep_spark(folder: Path) -> None:
    """Store all classes that a worker's warm-up jobs use."""
    from odf_storage.datasets.merge_state.store import MergeStates
    from odf_storage.stores.objects.memory import MemoryObjectStore

    from ..engines.spark.session import SparkOptions, SparkWhenNeeded
    from ..engines.spark_engine.engine import SparkEngine
    from ..jobs.work.context import Engines, IngestOptions, WorkerContext
    from .engines import warm_up
    from .handlers import now

    with tempfile.TemporaryDirectory(prefix="odf-classes-") as scratch:
        options = SparkOptions(scratch=Path(scratch), record_classes_in=folder)
        session = SparkWhenNeeded(options).start()
        context = WorkerContext(
            engines=Engines(session=session, first=SparkEngine(session)),
            objects=MemoryObjectStore(),
            scratch=Path(scratch),
            ingest=IngestOptions(states=MergeStates(Path(scratch) / "merge-state", max_bytes=0)),
        )
        warm_up(context, now=now())
        machine = session.sparkContext._gateway.proc
        session.stop()
        machine.stdin.close()  # this ends the process
        machine.wait(MOST_SECONDS)
        if machine.returncode != 0:
            raise ClassesNotKept(f"Java ended with code {machine.returncode}")
