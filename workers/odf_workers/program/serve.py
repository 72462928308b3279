"""`odf-worker engine`: serve one of our engines as a separate process, for any coordinator."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odf_protocol.errors import NodeError

from ..runtime.command import LOGGER, line, set_up
from ..settings import WorkerSettings, load_settings, warn_of_old_names
from .wiring import check_confinement, scratch_folder

if TYPE_CHECKING:
    from ..engines.spark.session import SparkWhenNeeded

PREFIX = "odf-engine-"
STOP_SECONDS = 5.0
LOOK_S = 1.0
"""Seconds between two checks that Spark is still running."""


@click.command(
    "engine",
    epilog="\b\nExamples:\n  odf-worker engine --engine spark --port 5544 --folder /data",
)
@click.option("--engine", "name", default="spark", show_default=True, help="spark or datafusion.")
@click.option("--port", default=5544, show_default=True, help="Port; 0 takes any free one.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen at; there is no login.",
)
@click.option("--at-once", default=1, show_default=True, help="Queries that run at once.")
@click.option(
    "--folder",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Only files below are read and written; repeatable. Default: any a request names.",
)
@click.option("--master", "spark_master", help="Spark master URL; default local[2].")
def engine(
    *, name: str, port: int, host: str, at_once: int, folders: tuple[Path, ...], **given: Any
) -> None:
    """Serve an engine over gRPC (engine protocol of ODF)."""
    try:
        settings = load_settings(given)
    except NodeError as error:
        raise click.ClickException(error.message) from None
    set_up(settings.log_level, settings.log_format)
    warn_of_old_names()
    try:
        check_confinement(settings.engine_confinement)
    except NodeError as error:
        raise click.ClickException(error.message) from None
    try:
        with scratch_folder(settings, PREFIX) as scratch:
            _serve(settings, name.lower(), f"{host}:{port}", at_once, folders, scratch)
    except (NodeError, OSError) as error:
        raise click.ClickException(str(error)) from None


def _serve(
    settings: WorkerSettings,
    name: str,
    address: str,
    at_once: int,
    folders: tuple[Path, ...],
    scratch: Path,
) -> None:
    from ..engines.port.port import Prepared
    from ..engines.remote.server import serve
    from .engines import IN_PROCESS

    if name not in IN_PROCESS:
        raise click.BadParameter(f"there is no engine {name!r}; one of {', '.join(IN_PROCESS)}")
    session = None
    if name == "spark":
        from ..engines.spark.session import SparkOptions, SparkWhenNeeded

        session = SparkWhenNeeded(
            SparkOptions(
                master=settings.spark_master,
                memory=settings.spark_driver_memory,
                scratch=scratch,
                log_format=settings.log_format,
                folders=folders or (Path("/"),),  # any folder that a request names
                confinement=settings.engine_confinement,
            )
        )
        session.start()
    made = IN_PROCESS[name](settings, session)
    if made is None:
        raise click.ClickException(f"the engine {name} is not installed")
    if isinstance(made, Prepared):
        made.prepare()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server, port = serve(made, address, at_once=at_once, roots=folders)
    LOGGER.info(line("engine ready", engine=name, version=made.version, port=port))
    while not stop.wait(LOOK_S):
        if session is not None:
            _renew_if_gone(session)
    server.stop(STOP_SECONDS).wait()
    LOGGER.info(line("engine ends", engine=name))
    if session is not None:
        session.stop()


def _renew_if_gone(session: SparkWhenNeeded) -> None:
    """Restart Spark if it is gone. A query that exceeds Spark's memory ends Spark: its caller
    receives an engine failure, the next query uses the new Spark. Raises `ConnectionError`."""
    from ..engines.spark import jvm

    if (reason := jvm.how_it_ended(0)) is not None:
        LOGGER.error(line("Spark is gone", reason=reason))
        session.renew()
