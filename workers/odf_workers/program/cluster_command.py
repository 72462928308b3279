"""`odf-worker spark-cluster`: a standalone Spark cluster that uses the worker's packages."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from odf_protocol.errors import NodeError

DEPLOY = "org.apache.spark.deploy"
PORT = 7077
_MACHINE_OPTIONS = "-Dspark.worker.cleanup.enabled=true"
"""Without this option, folders of ended applications are never removed."""


_MASTER_OPTIONS = "-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={folder}"
"""With these options, a master that starts again knows its machines and their applications."""


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
    epilog="\b\nExamples:\n"
    "  odf-worker spark-cluster master --host 10.0.0.5 --folder /var/lib/odf-spark-master",
)
@click.option("--host", required=True, help="Address that executors and workers reach it at.")
@click.option("--port", default=PORT, show_default=True, help="Port of the master.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where it keeps what it knows, so that workers go on when it starts again. Without a "
    "folder they have to be started again as well.",
)
def master(*, host: str, port: int, folder: Path | None) -> None:
    """Run the master, which knows the machines and gives them to workers."""
    options = {}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        kept = _MASTER_OPTIONS.format(folder=shlex.quote(str(folder.resolve())))
        options = {"SPARK_MASTER_OPTS": kept}
    words = ["--host", host, "--port", str(port), *_PAGE]
    _become(f"{DEPLOY}.master.Master", words, options, {})


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
    options = {"SPARK_WORKER_OPTS": _MACHINE_OPTIONS}
    _become(f"{DEPLOY}.worker.Worker", [*words, *_PAGE, url], options, own)


_PAGE = ("--webui-port", "0")


def _become(
    program: str, words: Sequence[str], options: dict[str, str], more: dict[str, str]
) -> None:
    """Replace this process by Spark's, so that Spark receives its signals, and both end together.
    Options of Java that the environment has come after `options`, and take precedence."""
    from ..engines.spark.machine import environment_of_cluster, spark_home
    from ..engines.spark.session import java

    try:
        environment = environment_of_cluster(java())
    except NodeError as error:
        raise click.ClickException(str(error)) from None
    run = str(spark_home() / "bin" / "spark-class")
    joined = {name: f"{ours} {environment.get(name, '')}" for name, ours in options.items()}
    given = environment | joined | more
    os.execve(run, [run, program, *words], given)  # noqa: S606 - no shell
