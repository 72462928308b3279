"""The metrics page for Prometheus: counters of this process, and the queues of the node.

The page is built from plain numbers on request; only then is the client library imported.

Counters of the service, as plain numbers, so that only a scrape costs time.

Only the thread of the event loop counts, so no counter needs a lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from odf_protocol.instant import Instant
from odf_storage.datasets.backup.last import LastBackup, last_backup
from odf_storage.datasets.node.overviews import Gauges, read_gauges
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.extras import app_version
from odf_storage.stores.index.sql_sizes import NODE, Usage
from odf_storage.stores.registers.signed.head_log import HeadLog

from ..setting_groups.words import Tenancy

if TYPE_CHECKING:
    from prometheus_client import Metric


BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram's buckets in seconds."""


@dataclass(slots=True)
class Durations:
    """A histogram: the count of each bucket (the last one is unbounded) and the sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.total_s += seconds


@dataclass(slots=True)
class Answered:
    """The number of responses of one kind, and the bytes of their bodies."""

    count: int = 0
    body_bytes: int = 0

    def add(self, body_bytes: int) -> None:
        self.count += 1
        self.body_bytes += body_bytes


@dataclass(slots=True)
class Counters:
    """The counters of one service process since its start."""

    answers: dict[tuple[str, str, int], Answered] = field(default_factory=dict)
    """Responses by method, route and status."""
    durations: dict[tuple[str, str], Durations] = field(default_factory=dict)
    """Durations by method and route."""
    transfers: dict[tuple[str, int], int] = field(default_factory=dict)
    """Ended smart transfers, by `pull` or `push` and close code."""
    slices_opened: int = 0
    """Slices that queries, filtered reads and lookups opened."""
    slices_left_out: int = 0
    """Slices that these skipped, since they have no row of the answer."""
    in_flight: int = 0
    stalls: int = 0
    """Pauses of the event loop that the watchdog noticed."""
    longest_stall_s: float = 0.0
    deeds_lost: int = 0
    """Audit entries that could not be recorded in the index; they are in the log of the process."""

    def answered(self, method: str, route: str, status: int) -> Answered:
        """Return the counter of such responses; callers may keep a reference to it."""
        key = (method, route, status)
        found = self.answers.get(key)
        if found is None:
            found = self.answers[key] = Answered()
        return found

    def took(self, method: str, route: str, seconds: float) -> None:
        key = (method, route)
        found = self.durations.get(key)
        if found is None:
            found = self.durations[key] = Durations()
        found.add(seconds)

    def stood_still(self, seconds: float) -> None:
        """Count a pause of the event loop."""
        self.stalls += 1
        self.longest_stall_s = max(self.longest_stall_s, seconds)

    def filtered(self, scanned: int, total: int) -> None:
        """Count an answer that opens `scanned` of `total` slices."""
        self.slices_opened += scanned
        self.slices_left_out += total - scanned

    def transferred(self, exchange: str, code: int) -> None:
        self.transfers[exchange, code] = self.transfers.get((exchange, code), 0) + 1


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, eq=False)
class Metrics:
    """A collector of all metrics for the client library."""

    counters: Counters
    stores: Stores
    tenancy: Tenancy
    clock: Clock

    def collect(self) -> Iterator[Metric]:
        yield from _of_process(self.counters, self.tenancy, self.stores.free_bytes())
        yield from _of_requests(self.counters)
        gauges = read_gauges(self.stores.engine)
        yield from _of_node(gauges, self.clock().ns / 1e9)
        yield from _of_quota(self.stores.quotas.usage(NODE))
        with suppress(Exception):  # a bucket that is away hides these only
            yield from _of_backups(last_backup(self.stores.projections), self.clock())
        yield from _of_log(self.stores.head_log, self.clock().ns / 1e9)


def page(metrics: Metrics) -> bytes:
    """Return the page in Prometheus' text format."""
    from prometheus_client import (
        CollectorRegistry,
        GCCollector,
        PlatformCollector,
        ProcessCollector,
        generate_latest,
    )

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(metrics)
    return generate_latest(registry)


def _of_process(counters: Counters, tenancy: Tenancy, free: int | None) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    about = {"version": app_version(), "tenancy": tenancy.value}
    yield InfoMetricFamily("odf_node", "This node.", value=about)
    yield GaugeMetricFamily(
        "odf_requests_in_flight", "Requests being answered.", value=counters.in_flight
    )
    yield CounterMetricFamily(
        "odf_stalls", "Pauses of seconds in which nothing was answered.", value=counters.stalls
    )
    yield GaugeMetricFamily(
        "odf_longest_stall_seconds", "The longest of them.", value=counters.longest_stall_s
    )
    if free is not None:
        yield GaugeMetricFamily(
            "odf_free_bytes", "Space that is free for objects and database.", value=free
        )
    yield CounterMetricFamily(
        "odf_deeds_lost", "Deeds that could not be recorded.", value=counters.deeds_lost
    )


def _of_requests(counters: Counters) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    labels = ["method", "route", "status"]
    answers = CounterMetricFamily("odf_requests", "Requests answered.", labels=labels)
    sent = CounterMetricFamily("odf_sent_bytes", "Bytes of bodies sent.", labels=labels)
    for (method, route, status), answered in list(counters.answers.items()):
        answers.add_metric([method, route, str(status)], answered.count)
        sent.add_metric([method, route, str(status)], answered.body_bytes)
    took = HistogramMetricFamily(
        "odf_request_seconds", "From the request to the end of its answer.", labels=labels[:2]
    )
    ends = [*map(str, BUCKETS_S), "+Inf"]
    for (method, route), durations in list(counters.durations.items()):
        classes = list(zip(ends, accumulate(durations.counts), strict=True))
        took.add_metric([method, route], classes, durations.total_s)
    ended = CounterMetricFamily("odf_transfers", "Transfers ended.", labels=["exchange", "code"])
    for (exchange, code), count in list(counters.transfers.items()):
        ended.add_metric([exchange, str(code)], count)
    slices = CounterMetricFamily(
        "odf_filtered_slices",
        "Slices of datasets that filters or queries were asked of.",
        labels=["outcome"],
    )
    slices.add_metric(["opened"], counters.slices_opened)
    slices.add_metric(["left_out"], counters.slices_left_out)
    yield from (answers, sent, took, ended, slices)


def _of_backups(last: LastBackup, now: Instant) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    age_s = last.age_s(now)
    if age_s is not None:
        yield GaugeMetricFamily(
            "odf_backup_age_seconds", "Since the moment of the last good backup.", value=age_s
        )
    yield GaugeMetricFamily(
        "odf_backup_failing",
        "1 if the newest attempt to make a backup failed.",
        value=0 if last.problem is None else 1,
    )


def _of_quota(usage: Usage) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    yield GaugeMetricFamily(
        "odf_stored_bytes", "What all datasets take, as quotas count it.", value=usage.used
    )
    if usage.limit is not None:
        yield GaugeMetricFamily("odf_quota_bytes", "What all datasets may take.", value=usage.limit)


def _of_node(gauges: Gauges, now_s: float) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield GaugeMetricFamily("odf_datasets", "Datasets registered.", value=gauges.datasets)
    yield CounterMetricFamily(
        "odf_head_moves", "Moves of heads since the node began.", value=gauges.last_move
    )
    yield GaugeMetricFamily(
        "odf_damaged_objects",
        "Objects that are damaged or missing, and not healed.",
        value=gauges.damaged,
    )
    jobs = GaugeMetricFamily("odf_jobs", "Jobs that wait or run.", labels=["kind", "status"])
    for (kind, status), count in gauges.jobs.items():
        jobs.add_metric([kind, status], count)
    oldest = GaugeMetricFamily(
        "odf_oldest_job_wait_seconds", "How long the first of the queue waits.", labels=["kind"]
    )
    for kind, since in gauges.waiting_since.items():
        oldest.add_metric([kind], max(0.0, now_s - since.ns / 1e9))
    yield from (jobs, oldest)


def _of_log(log: HeadLog, now_s: float) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    state = log.state()
    if state is not None and state.signed_at is not None:
        yield GaugeMetricFamily(
            "odf_log_checkpoint_age_seconds",
            "Since the log of heads was signed.",
            value=max(0.0, now_s - state.signed_at.ns / 1e9),
        )
    ages = GaugeMetricFamily(
        "odf_log_cosignature_age_seconds",
        "Since a witness signed the log of heads.",
        labels=["witness"],
    )
    for witness, at_s in log.cosigners().items():
        ages.add_metric([witness], max(0.0, now_s - at_s))
    yield ages
