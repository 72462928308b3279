"""The life of a worker process: settings, scratch folder, stores, Spark, the loop, and its end."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.runtime.descriptors import JAVA_NEEDS, raise_limit
from odf_storage.runtime.environment import InvalidSetting
from odf_storage.runtime.private_files import keep_private
from odf_storage.runtime.tracing import start_tracing, stop_tracing

from ..confine import SETTING as CONFINEMENT_SETTING
from ..confine import Mode, close_own_memory
from ..confine import told as confinement_lacks
from ..runtime.log import LOGGER, line, set_up
from ..settings import WorkerSettings, load_settings, warn_of_old_names
from .scratch import scratch_folder
from .wiring import worker_of


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
    from .parent import watch_parent

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
        try:
            if settings.warm_up and not once:
                _warm_up(worker)
            _count(worker, settings)
            LOGGER.info(line("worker ready", worker=worker.name, seconds=time.monotonic() - began))
            worker.work(once=once)
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
        raise InvalidSetting(lacking, setting=CONFINEMENT_SETTING)
    LOGGER.warning(line("engines are not wholly confined", message=lacking))


def _count(worker: Any, settings: WorkerSettings) -> None:
    """Count ended jobs and runs of stages for Prometheus."""
    if settings.metrics_port:
        from .metrics import WorkerMetrics

        metrics = WorkerMetrics()
        metrics.confinement(settings.engine_confinement)
        metrics.serve(settings.metrics_port)
        worker.on_end, worker.on_stages = metrics.ended, metrics.stages_ran


def _warm_up(worker: Any) -> None:
    from .handlers import now
    from .warmup import warm_up

    worker.context.engines.session.newSession()  # if Spark cannot start, the worker cannot either
    try:
        warm_up(worker.context, now=now())
    except Exception:  # a slow first job is better than no worker
        LOGGER.exception("warm-up failed")


def _stop_on_signals(stop: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())
