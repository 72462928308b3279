"""Build a worker from its settings: its engines and its context.

The scratch folder of a worker: its own while it lives; after a kill, others remove it.

The life of a worker process: settings, scratch folder, stores, Spark, the loop, and its end.

The parent process of a worker: the worker ends when its parent is gone.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odf_protocol.errors import BadInput
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import system_clock
from odf_storage.runtime.logs import start_tracing, stop_tracing
from odf_storage.runtime.private_files import keep_private
from odf_storage.runtime.processes import (
    JAVA_NEEDS,
    close_own_memory,
    is_dead,
    own_folder,
    raise_limit,
    remove_dead,
)
from odf_storage.stores.ports import ObjectStore
from odf_storage.stores.registers.accounts.sealing import open_keys

from ..confine import SETTING as CONFINEMENT_SETTING
from ..confine import Mode
from ..confine import told as confinement_lacks
from ..engines.remote.runtimes import ContainerRules, remove_left_behind
from ..runtime.command import LOGGER, line, set_up
from ..settings import (
    WorkerSettings,
    container_rules,
    environment,
    load_settings,
    warn_of_old_names,
)
from .engines import query_size

if TYPE_CHECKING:
    from odf_storage.datasets.merge_state.store import MergeStates

    from ..jobs.work.context import IngestOptions, PollOptions, WorkerContext
    from ..runtime.command import PrepareLimits
    from ..slices.schema import Limits


PREFIX = "odf-worker-"


@contextmanager
def scratch_folder(settings: WorkerSettings, prefix: str = PREFIX) -> Iterator[Path]:
    """Create a folder for this process, after removing the folders of killed ones beside it."""
    base = (settings.scratch or Path(tempfile.gettempdir())).absolute()
    clear(base, container_rules(settings), prefix)
    with own_folder(base, prefix) as scratch:
        yield scratch


def clear(base: Path, rules: ContainerRules, prefix: str = PREFIX) -> None:
    """Remove containers and folders of processes that are gone."""

    def is_left(folder: Path) -> bool:
        inside = folder.is_relative_to(base) and folder != base
        return inside and is_dead(base / folder.relative_to(base).parts[0])

    remove_left_behind(rules, is_left)
    remove_dead(base, prefix)


def worker_of(settings: WorkerSettings, stores: Stores, scratch: Path, make: Any) -> Any:
    from ..engines.spark.session import SparkWhenNeeded
    from ..jobs.sources.poll import Secrets
    from ..jobs.work.budget import STUCK_LEASES, bounded
    from ..jobs.work.context import Engines, WorkerContext
    from ..runtime.command import PrepareLimits
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
    from ..jobs.work.context import IngestOptions, StatesAhead
    from ..slices.costs import SliceCut

    return IngestOptions(
        limits=_limits(settings, archives),
        watermark_ahead_s=settings.watermark_ahead_s,
        micro_batch_bytes=settings.micro_batch_bytes,
        cut=SliceCut(rows=settings.slice_rows, size=settings.slice_bytes),
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
    from ..slices.schema import Limits

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
    from ..jobs.work.context import TransformOptions
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
    from ..engines.spark.jvm import can_link

    local = objects.local_paths
    return () if local is None or can_link(local.root, scratch) else (local.root,)


def _fetch_rules(settings: WorkerSettings) -> Any:
    from ..fetch.taken import FOLDER, LIST_BYTES, FileLists
    from ..fetch.values import FetchRules

    return FetchRules(
        networks=tuple(str(network) for network in settings.fetch_networks),
        roots=settings.fetch_roots,
        buckets=settings.fetch_buckets,
        lists=FileLists(settings.data / FOLDER, LIST_BYTES),
        variables=environment(settings.template_variables),
        containers=container_rules(settings),
        mark_key=open_keys(settings.secrets_keys, settings.data).mark_key(),
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


def run(given: Mapping[str, Any], *, once: bool, parent_pid: int | None) -> int:
    """Work until stopped, or with `once` until no job is waiting; return the exit code.

    Raises:
        NodeError: settings are wrong, stores cannot be opened, or Java is missing.
    """
    settings = load_settings(given)
    set_up(settings.log_level, settings.log_format)
    warn_of_old_names()
    if few := raise_limit(JAVA_NEEDS):
        LOGGER.warning(few)
    check_confinement(settings.engine_confinement)
    if settings.private_files:
        keep_private(settings.data)
    with scratch_folder(settings) as scratch:
        return _run_in(scratch, settings, once=once, parent_pid=parent_pid)


def _run_in(scratch: Path, settings: WorkerSettings, *, once: bool, parent_pid: int | None) -> int:
    # Spark is imported late, because wrong settings can be reported without it.
    from .loop import EngineGone, Worker

    began = time.monotonic()
    start_tracing("odf-worker", version("odf-node"))
    with ExitStack() as ending:
        ending.callback(stop_tracing)
        stores = open_stores(StoreSettings.of(settings), repair=False)
        ending.callback(stores.close)
        worker = worker_of(settings, stores, scratch, Worker)
        ending.callback(worker.context.finish)
        ending.callback(worker.end)
        _stop_on_signals(worker.stop.set)
        if parent_pid is not None:
            watch_parent(parent_pid, worker.stop)
        warm_up = WarmUp(worker)
        try:
            if settings.warm_up and not once:
                warm_up.start(ending)
            _count(worker, settings)
            LOGGER.info(line("worker ready", worker=worker.name, seconds=time.monotonic() - began))
            worker.work(once=once)
            warm_up.check()
        except EngineGone as gone:
            LOGGER.error(line("worker ends", reason=gone))
            return 1
        LOGGER.info(line("worker ends", worker=worker.name))
        worker.context.engines.session.stop()
    return 0


def check_confinement(mode: Mode) -> None:
    """Log what untrusted code in engines could access here, and protect our memory from it.

    Raises:
        InvalidSetting: a setting requires a protection that this kernel does not offer.
    """
    close_own_memory()
    if (lacking := confinement_lacks(mode)) is None:
        return
    if mode == "require":
        raise BadInput("InvalidSetting", lacking, setting=CONFINEMENT_SETTING)
    LOGGER.warning(line("engines are not wholly confined", message=lacking))


def _count(worker: Any, settings: WorkerSettings) -> None:
    """Count ended jobs and runs of stages for Prometheus."""
    if settings.metrics_port:
        from .metrics import WorkerMetrics

        metrics = WorkerMetrics()
        metrics.confinement(settings.engine_confinement)
        metrics.serve(settings.metrics_port)
        worker.on_end, worker.on_stages = metrics.ended, metrics.stages_ran


class WarmUp:
    """The warm-up of a worker: Spark starts and does small jobs.

    It runs beside the worker's first jobs: those that need no Spark are done meanwhile, the others
    wait for its end. A worker whose Spark is a cluster takes no job before, because others may
    reach the cluster.
    """

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._session = worker.context.engines.session
        self._is_alone = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warm-up", daemon=True)
        self._trouble: Exception | None = None

    def start(self, ending: ExitStack) -> None:
        """Begin; `ending` waits for the end."""
        self._thread.start()
        ending.callback(self._thread.join)
        if self._worker.renew_spark is None:
            self._thread.join()
            self.check()
        self._is_alone.wait()

    def check(self) -> None:
        """Raise `EngineGone` if Spark cannot start: then the worker cannot either."""
        from .loop import EngineGone

        if self._trouble is not None:
            raise EngineGone(str(self._trouble)) from self._trouble

    def _run(self) -> None:
        began = time.monotonic()
        try:
            with self._session.alone():
                self._is_alone.set()
                self._session.start()
                self._work()
        except Exception as error:
            self._trouble = error
            self._worker.stop.set()  # after the job that it has
        else:
            LOGGER.info(line("Spark is warm", seconds=time.monotonic() - began))

    def _work(self) -> None:
        from .engines import warm_up

        try:
            warm_up(self._worker.context, now=system_clock(), is_over=self._worker.stop.is_set)
        except Exception:  # a slow first job is better than no worker
            LOGGER.exception("warm-up failed")


def _stop_on_signals(stop: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


PARENT_CHECK_S = 1.0


def watch_parent(parent: int, stop: threading.Event) -> None:
    """Set `stop` once the process `parent` has ended."""

    def watch() -> None:
        while not stop.wait(PARENT_CHECK_S):
            try:
                os.kill(parent, 0)
            except ProcessLookupError:
                LOGGER.warning(line("parent is gone", parent=parent))
                stop.set()
            except PermissionError:
                continue

    threading.Thread(target=watch, name="parent", daemon=True).start()
