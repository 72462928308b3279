"""Metrics of a worker for Prometheus, on a separate port.

They count jobs by kind and outcome, batches by where their stages ran, rows, and seconds.
"""

from __future__ import annotations

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

from odf_storage.stores.ports.values import Job, JobOutcome, Succeeded

from ..confine import PARTS, Mode, missing
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
