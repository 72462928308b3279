"""Build a worker from its settings: its engines and its context."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports import ObjectStore
from odf_storage.stores.publishing.sealing import open_keys

from ..settings import WorkerSettings, container_rules, environment
from .engines import query_size
from .scratch import scratch_folder

if TYPE_CHECKING:
    from odf_storage.datasets.merge_state.store import MergeStates

    from ..jobs.work.context import IngestOptions, PollOptions, WorkerContext
    from ..runtime.input_limits import PrepareLimits
    from ..slices.frame import Limits


def worker_of(settings: WorkerSettings, stores: Stores, scratch: Path, make: Any) -> Any:
    from ..engines.spark.session import SparkWhenNeeded
    from ..jobs.poll.secrets import Secrets
    from ..jobs.work.budget import STUCK_LEASES, bounded
    from ..jobs.work.context import Engines, WorkerContext
    from ..runtime.input_limits import PrepareLimits
    from .engines import engines
    from .loop import KINDS_OF

    options = _spark_options(settings, stores, scratch)
    session = SparkWhenNeeded(options)
    if not options.is_local:
        session.start()  # so that no job is claimed in vain while the cluster is unavailable
    first, *others = engines(settings, session)
    archives = PrepareLimits(
        max_bytes=settings.max_fetched_bytes,
        max_ratio=settings.max_unpack_ratio,
        commands=frozenset(settings.pipe_commands),
    )
    context = WorkerContext(
        engines=Engines(session=session, first=first, others=tuple(others)),
        objects=stores.objects,
        scratch=scratch,
        ingest=_ingest(settings, archives, scratch),
        polls=_polls(settings, archives),
        transforms=_transforms(settings),
        queries=_queries(settings),
        verify_task_bytes=settings.verify_task_bytes,
        publish_to=settings.publish_to,
    )
    return make(
        stores=stores,
        context=context,
        name=f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}",
        lease=timedelta(seconds=settings.lease_s),
        kinds=KINDS_OF[settings.jobs],
        idle_s=settings.idle_s,
        attempts=settings.job_attempts,
        deaths=settings.job_deaths,
        stuck_s=STUCK_LEASES * settings.lease_s,
        budget=bounded(settings.job_s, settings.job_memory_bytes),
        renew_spark=session.renew if options.is_local else None,
        secrets=Secrets(stores, open_keys(settings.secrets_keys, settings.data)).of,
    )


def _ingest(settings: WorkerSettings, archives: PrepareLimits, scratch: Path) -> IngestOptions:
    from ..jobs.work.ahead import StatesAhead
    from ..jobs.work.context import IngestOptions
    from ..slices.costs import Cut

    return IngestOptions(
        limits=_limits(settings, archives),
        watermark_ahead_s=settings.watermark_ahead_s,
        micro_batch_bytes=settings.micro_batch_bytes,
        cut=Cut(rows=settings.slice_rows, size=settings.slice_bytes),
        states=_merge_states(settings),
        ahead=StatesAhead(scratch),
    )


def _polls(settings: WorkerSettings, archives: PrepareLimits) -> PollOptions:
    from ..jobs.work.context import PollOptions

    return PollOptions(
        fetch=_fetch_rules(settings),
        preparation=archives,
        max_vanish_percent=settings.poll_max_vanish_percent,
    )


def _limits(settings: WorkerSettings, archives: PrepareLimits) -> Limits:
    from ..slices.frame import Limits

    return Limits(
        cell_bytes=settings.max_row_bytes // 2,
        row_bytes=settings.max_row_bytes,
        archives=archives,
    )


def _spark_options(settings: WorkerSettings, stores: Stores, scratch: Path) -> Any:
    from ..engines.spark.session import SparkOptions

    return SparkOptions(
        master=settings.spark_master,
        memory=settings.spark_driver_memory,
        scratch=scratch,
        exchange=_exchange(settings),
        log_format=settings.log_format,
        reads=_read_in_place(stores.objects, scratch),
        confinement=settings.engine_confinement,
        page_port=settings.spark_page_port,
        executor_memory=settings.spark_executor_memory,
        cores=settings.spark_cores,
        executor_wait_s=settings.spark_executor_wait_s,
    )


def _transforms(settings: WorkerSettings) -> Any:
    from ..jobs.work.transform_options import TransformOptions
    from ..plan.transform import IterationLimits

    return TransformOptions(
        limits=IterationLimits(
            rows=settings.transform_max_rows, bytes=settings.transform_max_bytes
        ),
        reset_on_diverged=settings.reset_derivatives_on_diverged_input,
        cache_bytes=settings.transform_cache_bytes,
    )


def _queries(settings: WorkerSettings) -> Any:
    from ..jobs.work.context import QueryOptions

    return QueryOptions(
        seconds=settings.query_s,
        size=query_size(settings),
        result_bytes=settings.query_result_bytes,
    )


def _merge_states(settings: WorkerSettings) -> MergeStates:
    from odf_storage.datasets.merge_state.store import MergeStates, states_folder

    return MergeStates(
        states_folder(settings.data),
        max_bytes=settings.merge_state_bytes,
        rehash_s=settings.rehash_s,
    )


def _exchange(settings: WorkerSettings) -> str | None:
    """Return the URL of the bucket, if Spark's executors run on other machines. Without a bucket,
    all executors have to see the same disk."""
    in_bucket = settings.objects_url is not None and settings.objects_url.startswith("s3")
    remote = not settings.spark_master.startswith("local[") and settings.spark_master != "local"
    return settings.objects_url if in_bucket and remote else None


def _read_in_place(objects: ObjectStore, scratch: Path) -> tuple[Path, ...]:
    """Return the folder of the objects, if Spark needs access to it in order to read slices in
    place."""
    from ..engines.spark.visible_files import can_link

    local = objects.local_paths
    return () if local is None or can_link(local.root, scratch) else (local.root,)


def _fetch_rules(settings: WorkerSettings) -> Any:
    from ..fetch.file_lists import FOLDER, LIST_BYTES, FileLists
    from ..fetch.values import FetchRules

    return FetchRules(
        networks=tuple(str(network) for network in settings.fetch_networks),
        roots=settings.fetch_roots,
        buckets=settings.fetch_buckets,
        lists=FileLists(settings.data / FOLDER, LIST_BYTES),
        variables=environment(settings.template_variables),
        containers=container_rules(settings),
        max_bytes=settings.max_fetched_bytes,
        total_s=settings.fetch_s,
    )


@contextmanager
def on_the_spot(settings: WorkerSettings) -> Iterator[tuple[Stores, Callable[[], WorkerContext]]]:
    """Yield the stores of the node, and a function that makes a context to work on them in one
    command.

    Spark starts when it is first needed, and ends with the block.
    """
    from .loop import Worker

    made: list[WorkerContext] = []
    with scratch_folder(settings) as scratch:
        stores = open_stores(StoreSettings.of(settings), repair=False)

        def context() -> WorkerContext:
            made.append(worker_of(settings, stores, scratch, Worker).context)
            return made[-1]

        try:
            yield stores, context
            for each in made:
                each.engines.session.stop()
        finally:
            for each in made:
                each.finish()
            stores.close()
