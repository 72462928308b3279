"""`odf-worker`: settings from the environment and the command line, stores, Spark, the loop."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""As shells have it for a program that Ctrl-C ended."""

try:  # what is imported takes seconds
    import signal
    import time
    from importlib.metadata import version
    from pathlib import Path
    from typing import Any

    import click

    from protocol.errors import NodeError
    from storage.config import StoreSettings, open_stores
    from storage.tracing import start_tracing, stop_tracing

    from .classes import keep_classes
    from .log import LOGGER, line, set_up
    from .scratch import scratch_folder
    from .serve import engine
    from .settings import WorkerSettings, load_settings
    from .start import worker_of
    from .transform.command import deprecate
    from .verify.command import verify
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Without a command the worker runs until it is told to stop. What is not given comes "
    "from the environment (ODF_NODE_…), see settings.example.env.",
)
@click.version_option(package_name="odf-node", prog_name="odf-worker")
@click.option("--data", type=click.Path(path_type=Path), help="Directory of the local stores.")
@click.option("--database-url", help="Database of the node; default SQLite in the directory.")
@click.option("--objects-url", help="Object store of the node; default the directory.")
@click.option("--master", "spark_master", help="Spark master URL; default local[2].")
@click.option("--once", is_flag=True, help="Run the jobs that wait, then end.")
@click.option(
    "--warm-up/--no-warm-up",
    default=None,
    help="Do small jobs before being ready; without, the first real ones are slow.",
)
@click.option("--parent-pid", type=int, help="End when this process is gone.")
@click.pass_context
def main(context: click.Context, /, *, once: bool, parent_pid: int | None, **given: Any) -> None:
    """Run the jobs of a node: ingest what producers post, compute derivatives, on Spark."""
    if context.invoked_subcommand is not None:
        return
    try:
        settings = load_settings(given)
        set_up(settings.log_level, settings.log_format)
        code = _run(settings, once=once, parent_pid=parent_pid)
    except NodeError as error:
        raise click.ClickException(error.message) from None
    except KeyboardInterrupt:  # before the worker has its own answer to signals
        code = INTERRUPTED
    sys.exit(code)


def _run(settings: WorkerSettings, *, once: bool, parent_pid: int | None) -> int:
    with scratch_folder(settings) as scratch:
        return _run_in(scratch, settings, once=once, parent_pid=parent_pid)


def _run_in(scratch: Path, settings: WorkerSettings, *, once: bool, parent_pid: int | None) -> int:
    # Spark is imported late: `--help` and wrong options need none.
    from .main import EngineGone, Worker, watch_parent

    began = time.monotonic()
    start_tracing("odf-worker", version("odf-node"))
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
        if settings.warm_up and not once:
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
    return 0


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

    worker.bench.session.newSession()  # without a Spark that starts, there is no worker
    try:
        warm_up(worker.bench, now=now())
    except Exception:  # a slow first job is better than no worker
        LOGGER.exception("warm-up failed")


def _stop_on_signals(stop: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


main.add_command(engine)
main.add_command(verify)
main.add_command(deprecate)
main.add_command(keep_classes)

if __name__ == "__main__":
    main()
