"""`odf-worker spark-cluster`: a standalone Spark cluster that uses the worker's packages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from odf_node.protocol.errors import NodeError

DEPLOY = "org.apache.spark.deploy"
PORT = 7077
_MACHINE_OPTIONS = "-Dspark.worker.cleanup.enabled=true"
"""Without this option, folders of ended applications are never removed."""


@click.group(
    "spark-cluster",
    short_help="Run a part of a Spark cluster, for workers that name it as their master.",
)
def spark_cluster() -> None:
    """Run a part of a standalone Spark cluster, until it is told to stop.

    Executors need the packages of the worker, in the same versions and at the same paths, and no
    keys: they run queries of publishers. Variables of the environment that hold keys or settings
    of the node do not reach them. Everybody who reaches the master may run programs on the
    cluster: keep it in a network of its own.
    """


@spark_cluster.command(
    "master",
    epilog="\b\nExamples:\n  odf-worker spark-cluster master --host 10.0.0.5",
)
@click.option("--host", required=True, help="Address that executors and workers reach it at.")
@click.option("--port", default=PORT, show_default=True, help="Port of the master.")
def master(*, host: str, port: int) -> None:
    """Run the master, which knows the machines and gives them to workers."""
    _become(f"{DEPLOY}.master.Master", ["--host", host, "--port", str(port), *_PAGE], {})


@spark_cluster.command(
    "machine",
    epilog="\b\nExamples:\n"
    "  odf-worker spark-cluster machine spark://10.0.0.5:7077 --host 10.0.0.6 --cores 4 \\\n"
    "      --memory 8g",
)
@click.argument("url", metavar="MASTER")
@click.option("--host", required=True, help="Address that others reach its executors at.")
@click.option("--cores", default=1, show_default=True, help="Tasks at a time.")
@click.option("--memory", default="2g", show_default=True, help="Heap of all its executors.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where executors keep rows between tasks, and files that were lent to them.",
)
def machine(*, url: str, host: str, cores: int, memory: str, folder: Path) -> None:
    """Run executors on this machine, for the master at MASTER."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["--host", host, "--cores", str(cores), "--memory", memory, "--work-dir", str(folder)]
    own = {"SPARK_LOCAL_DIRS": str(folder), "TMPDIR": str(folder)}
    _become(f"{DEPLOY}.worker.Worker", [*words, *_PAGE, url], own)


_PAGE = ("--webui-port", "0")


def _become(program: str, words: Sequence[str], more: dict[str, str]) -> None:
    """Replace this process by Spark's, so that Spark receives its signals, and both end
    together."""
    from ..engines.spark.machine import environment_of_cluster, spark_home
    from ..engines.spark.session import java

    try:
        environment = environment_of_cluster(java())
    except NodeError as error:
        raise click.ClickException(str(error)) from None
    run = str(spark_home() / "bin" / "spark-class")
    given = {"SPARK_WORKER_OPTS": _MACHINE_OPTIONS} | environment | more
    os.execve(run, [run, program, *words], given)  # noqa: S606 - no shell
