"""`odf-worker`: settings from the environment and the command line, stores, Spark, the loop."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from protocol.errors import NodeError
from storage.config import StoreSettings, open_stores
from storage.sealing import open_keys
from storage.stores import Stores
from storage.tracing import start_tracing, stop_tracing

from .log import LOGGER, line, set_up
from .serve import engine
from .settings import CONTAINER_ENVIRONMENT, WorkerSettings, environment
from .transform.command import deprecate
from .verify.command import verify

SCRATCH_PREFIX = "odf-worker-"


@click.group(invoke_without_command=True)
@click.option("--data", type=click.Path(path_type=Path), help="Directory of the local stores.")
@click.option("--database-url", help="Database of the node; default SQLite in the directory.")
@click.option("--objects-url", help="Object store of the node; default the directory.")
@click.option("--master", "spark_master", help="Spark master URL; default local[2].")
@click.option("--once", is_flag=True, help="Run the jobs that wait, then end.")
@click.option("--no-warm-up", is_flag=True, help="Be ready sooner, with a slow first job.")
@click.option("--parent-pid", type=int, help="End when this process is gone.")
@click.pass_context
def main(
    context: click.Context, /, *, once: bool, no_warm_up: bool, parent_pid: int | None, **given: Any
) -> None:
    """Run the jobs of a node: ingest what producers post, compute derivatives, on Spark."""
    if context.invoked_subcommand is not None:
        return
    settings = WorkerSettings(**{key: value for key, value in given.items() if value is not None})
    set_up(settings.log_level, settings.log_format)
    try:
        code = _run(settings, once=once, warm=not no_warm_up and not once, parent_pid=parent_pid)
    except NodeError as error:
        raise click.ClickException(error.message) from None
    sys.exit(code)


def _run(settings: WorkerSettings, *, once: bool, warm: bool, parent_pid: int | None) -> int:
    # Spark is imported late: `--help` and wrong options need none.
    from .main import EngineGone, Worker, watch_parent

    began = time.monotonic()
    start_tracing("odf-worker", version("odf-node"))
    scratch = scratch_of(settings)
    stores = open_stores(
        StoreSettings(
            data=settings.data,
            database_url=settings.database_url,
            objects_url=settings.objects_url,
        ),
        repair=False,
    )
    try:
        worker = worker_of(settings, stores, scratch, Worker)
        _stop_on_signals(worker.stop.set)
        if parent_pid is not None:
            watch_parent(parent_pid, worker.stop)
        if warm:
            _warm_up(worker)
        _count(worker, settings.metrics_port)
        LOGGER.info(line("worker ready", worker=worker.name, seconds=time.monotonic() - began))
        worker.work(once=once)
        LOGGER.info(line("worker ends", worker=worker.name))
        worker.bench.session.stop()
    except EngineGone as gone:
        LOGGER.error(line("worker ends", reason=gone))
        return 1
    finally:
        stores.close()
        stop_tracing()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


def worker_of(settings: WorkerSettings, stores: Stores, scratch: Path, make: Any) -> Any:
    from .engine.available import engines
    from .engine.spark import SparkOptions, start_spark
    from .ingest.frame import Limits
    from .ingest.run import Bench
    from .prepare.limits import PrepareLimits
    from .secrets import Secrets
    from .slices import Cut

    session = start_spark(
        SparkOptions(
            master=settings.spark_master,
            memory=settings.spark_driver_memory,
            scratch=scratch,
            exchange=_exchange(settings),
        )
    )
    first, *others = engines(settings, session)
    archives = PrepareLimits(
        max_bytes=settings.max_fetched_bytes,
        max_ratio=settings.max_unpack_ratio,
        max_entries=settings.max_archive_entries,
        commands=frozenset(settings.pipe_commands),
        command_seconds=settings.pipe_s,
    )
    bench = Bench(
        session=session,
        engine=first,
        more_engines=tuple(others),
        objects=stores.objects,
        scratch=scratch,
        limits=Limits(
            columns=settings.max_columns,
            cell_bytes=settings.max_cell_bytes,
            row_bytes=settings.max_row_bytes,
            archives=archives,
        ),
        cut=Cut(
            rows=settings.slice_rows, size=settings.slice_bytes, threads=settings.slice_threads
        ),
        states=_merge_states(settings),
        commit_attempts=settings.commit_attempts,
        fetch=_fetch_rules(settings),
        preparation=archives,
        poll_max_vanish_percent=settings.poll_max_vanish_percent,
        max_fetches=settings.max_fetches,
        transforms=_transforms(settings),
    )
    return make(
        stores=stores,
        bench=bench,
        name=f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}",
        lease=timedelta(seconds=settings.lease_s),
        longest_pause_s=settings.poll_ms / 1000,
        secrets=Secrets(stores, open_keys(settings.secrets_keys, settings.data)).of,
    )


def _transforms(settings: WorkerSettings) -> Any:
    from .plan.transform import IterationLimits
    from .transform.options import TransformOptions

    return TransformOptions(
        limits=IterationLimits(
            rows=settings.transform_max_rows, bytes=settings.transform_max_bytes
        ),
        seconds=settings.transform_s,
        reset_on_diverged=settings.reset_derivatives_on_diverged_input,
        cache_bytes=settings.transform_cache_bytes,
    )


def _merge_states(settings: WorkerSettings) -> Any:
    from storage.merge_state.store import MergeStates, states_folder

    if settings.merge_state_bytes == 0:
        return None
    return MergeStates(states_folder(settings.data), max_bytes=settings.merge_state_bytes)


def _exchange(settings: WorkerSettings) -> str | None:
    """The bucket, if Spark's executors run elsewhere; files are on a disk all of them see."""
    in_bucket = settings.objects_url is not None and settings.objects_url.startswith("s3")
    remote = not settings.spark_master.startswith("local[") and settings.spark_master != "local"
    return settings.objects_url if in_bucket and remote else None


def _fetch_rules(settings: WorkerSettings) -> Any:
    from .fetch.values import FetchRules

    return FetchRules(
        networks=tuple(str(network) for network in settings.fetch_networks),
        roots=settings.fetch_roots,
        variables=environment(settings.template_variables),
        container_runtime=settings.container_runtime,
        container_environment=environment(CONTAINER_ENVIRONMENT),
        container_memory=settings.container_memory,
        max_bytes=settings.max_fetched_bytes,
        total_s=settings.fetch_s,
    )


def _count(worker: Any, port: int) -> None:
    """Have ended jobs counted, for Prometheus."""
    if port:
        from .metrics import WorkerMetrics

        metrics = WorkerMetrics()
        metrics.serve(port)
        worker.on_end = metrics.ended


def _warm_up(worker: Any) -> None:
    from .main import now
    from .warmup import warm_up

    try:
        warm_up(worker.bench, now=now())
    except Exception:  # a slow first job is better than no worker
        LOGGER.exception("warm-up failed")


def _stop_on_signals(stop: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


def scratch_of(settings: WorkerSettings) -> Path:
    """A folder of this process; those of workers that were killed are cleared away."""
    base = settings.scratch or Path(tempfile.gettempdir())
    base.mkdir(parents=True, exist_ok=True)
    for old in base.glob(f"{SCRATCH_PREFIX}*"):
        pid = old.name.removeprefix(SCRATCH_PREFIX)
        if pid.isdigit() and not _is_alive(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    scratch = base / f"{SCRATCH_PREFIX}{os.getpid()}"
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


main.add_command(engine)
main.add_command(verify)
main.add_command(deprecate)

if __name__ == "__main__":
    main()
