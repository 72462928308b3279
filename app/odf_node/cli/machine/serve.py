"""`odf-node serve`: open the stores, run the service on a socket, keep workers running."""

from __future__ import annotations

import logging
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import click

from odf_protocol.errors import NodeFault
from odf_storage.runtime.clock import without_garbage_collection
from odf_storage.runtime.logs import set_up, start_tracing, stop_tracing
from odf_storage.runtime.private_files import keep_private
from odf_storage.runtime.processes import JAVA_NEEDS, hide_pandas, raise_limit

from ...service.setting_groups.words import AnonymousReads, Tenancy
from ...service.settings import Settings, load_settings, warn_of_old_names

EVERYTHING_IS_READ = (
    "everybody who reaches this node reads all datasets, private ones, too "
    "(ODF_NODE_ANONYMOUS_READS=all)"
)
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@click.command()
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks one.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder.")
@click.option(
    "--tenancy", type=click.Choice([t.value for t in Tenancy]), help="Whether paths name accounts."
)
@click.option("--workers", type=click.IntRange(0, 64), help="Worker processes; 0 starts none.")
@click.option("--database-url", help="Database instead of SQLite in the data folder.")
@click.option("--objects-url", help="Object store instead of the data folder.")
@click.option("--public-url", help="Address clients reach this node at.")
def serve(**given: Any) -> None:
    """Run a node until a signal stops it.

    Environment variables can set all options and more; see settings.example.env.
    """
    run(load_settings(**given))


def run(settings: Settings, *, queries_alone: bool = False) -> None:
    """Serve until SIGTERM or SIGINT arrives, then stop the workers and close the stores.

    With `queries_alone`, serve queries only, beside another service.

    Raises:
        AddressInUse: the server could not listen on the address.
    """
    with without_garbage_collection():  # what is loaded stays
        from ...service.applications.queries_alone import build_query_app, check_is_beside
        from ...service.main import build_app
        from ...service.processes.server import NodeServer, server_config
        from ...service.processes.supervisor import supervisors
        from ...service.processes.watchdog import Watchdog
        from ...service.wiring import open_node

    if queries_alone:
        check_is_beside(settings)
    build, hello = (build_query_app, welcome_of_queries) if queries_alone else (build_app, welcome)
    _prepare(settings)
    node = open_node(settings)
    hide_pandas()
    workers = supervisors(settings, node.stores.jobs, node.worker_health)
    server = NodeServer(server_config(build(node), settings))

    watchdog = Watchdog(node.counters, ends_after_s=settings.stall_ends_s)

    def listening(port: int) -> None:
        watchdog.start()
        for each in workers:
            each.start()
        if not queries_alone:
            node.readers.start()
        node.queries.start()
        node.flight.start()
        click.echo(hello(settings, port, node.flight.port))

    server.on_listening = listening
    server.on_stopping = node.head_watch.end
    for number in SIGNALS:  # uvicorn raises them again once it has stopped
        signal.signal(number, lambda *_: None)
    try:
        server.run()
    except SystemExit:
        pass
    finally:
        watchdog.stop()
        for each in workers:
            each.stop()
        node.queries.nursery.stop()
        node.stores.close()
        stop_tracing()
    if not server.started:
        raise NodeFault(
            "AddressInUse",
            f"cannot listen on {settings.host}:{settings.port}; choose another --port",
            host=settings.host,
            port=settings.port,
        )


def _prepare(settings: Settings) -> None:
    """Set up the process: its log, limits, traces, and who reads its files."""
    from odf_storage.runtime.extras import app_version

    set_up(settings.log_level, settings.log_format)
    warn_of_old_names()
    if few := raise_limit(descriptors_of(settings)):
        logging.getLogger("odf.node").warning(few)
    start_tracing("odf-node", app_version())
    if settings.private_files:
        keep_private(settings.data)


def descriptors_of(settings: Settings) -> int:
    """Return how many files and connections the limits of a service allow at a time, about."""
    clients = settings.events_listeners + settings.max_transfers + 2 * settings.max_bodies
    return clients + 4 * settings.readers + JAVA_NEEDS


def welcome(settings: Settings, port: int, flight_port: int | None = None) -> str:
    """Return the text that shows an administrator the next steps."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    url = settings.public_url or f"http://{host}:{port}/"
    single = settings.tenancy is Tenancy.SINGLE
    account, dataset = ("kamu", "weather") if single else ("NAME", "NAME/weather")
    workers = (
        "no worker: ingest waits" if settings.workers == 0 else f"{settings.workers} worker(s)"
    )
    odf_node = _command()
    token = f"{odf_node} token create --account {account} --data {settings.data}"
    bearer = '-H "Authorization: Bearer $ODF_NODE_TOKEN"'
    shows_all = settings.anonymous_reads is AnonymousReads.ALL
    visibility = "" if shows_all else " --visibility public"
    csv = "-H 'Content-Type: text/csv' --data-binary @-"
    lines = [
        f"ODF Node serves {url} ({settings.tenancy}-tenant, {workers})",
        f"  data        {settings.data.resolve()}",
        f"  API         {url}docs",
        f"  a token     export ODF_NODE_TOKEN=$({token}) ODF_NODE_URL={url}",
        f"  a dataset   {odf_node} dataset create examples/weather/weather.yaml --node {url}"
        + visibility,
        "  rows        zcat examples/weather/weather.csv.gz | \\",
        f"              curl {bearer} {csv} {url}{dataset}/ingest",
        f"  read        curl {url}{dataset}/tail",
    ]
    if flight_port is not None:
        lines.append(f"  Flight SQL  grpc://{host}:{flight_port}")
    if shows_all:
        lines.insert(1, f"  {EVERYTHING_IS_READ}")
    return "\n".join(lines)


def welcome_of_queries(settings: Settings, port: int, flight_port: int | None = None) -> str:
    """Return the text that shows where the process answers queries."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    lines = [f"ODF Node answers queries at http://{host}:{port}/query"]
    if flight_port is not None:
        lines.append(f"  Flight SQL  grpc://{host}:{flight_port}")
    return "\n".join(lines)


def _command() -> str:
    """Return the command that runs this program: its name if it is on PATH, else its path."""
    if shutil.which("odf-node"):
        return "odf-node"
    path = Path(sys.executable).parent / "odf-node"
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
