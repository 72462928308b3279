"""What a worker tells Prometheus, on a port of its own: jobs by kind and outcome, rows, seconds."""

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

from odf_node.storage.stores.ports.values import Job, JobOutcome, Succeeded

from ..confine import PARTS, Mode, missing

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
DONE, FAILED = "done", "failed"


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
        self._seconds = Histogram(
            "odf_worker_job_seconds",
            "From the claim of a job to its end.",
            kind,
            buckets=SECONDS,
            registry=self.registry,
        )

    def confinement(self, mode: Mode) -> None:
        """What the processes that run queries are kept from."""
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

    def serve(self, port: int, host: str = "0.0.0.0") -> None:  # noqa: S104 - to be scraped
        """Answer scrapes from a thread. Raises `OSError`: the port is taken."""
        start_http_server(port, addr=host, registry=self.registry)
