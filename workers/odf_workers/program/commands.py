"""Commands of the worker program: its cluster, retired engines, verification, kept classes.

`odf-worker spark-cluster`: a standalone Spark cluster that uses the worker's packages.

`odf-worker deprecate`: retire old versions of an engine for a derivative.

`odf-worker verify`: verify a dataset of a node in this process, repeating its executions.

`odf-worker class-archive`: store Spark's classes as they are in memory, for quicker starts.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from odf_protocol.errors import NodeError, NodeFault
from odf_protocol.identity import DatasetId, DatasetRef
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload, answer_text, to_json
from odf_storage.datasets.node.naming import dataset_ref
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.ports.errors import DatasetNotFound

from ..engines.spark import machine as class_archive
from ..settings import WorkerSettings, load_settings
from .wiring import on_the_spot

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


DIFFERENT = 6


@click.command(
    "deprecate",
    short_help="Let this engine version stand for the older ones of a derivative.",
    epilog="\b\nExamples:\n  odf-worker deprecate kamu/weather-daily",
)
@click.argument("dataset", metavar="DATASET")
@click.option("--data", type=click.Path(path_type=Path), help="Directory of the local stores.")
@click.option("--database-url", help="Database of the node; default SQLite in the directory.")
@click.option("--objects-url", help="Object store of the node; default the directory.")
@click.option("--master", "spark_master", help="Spark master URL; default local[2].")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def deprecate(*, dataset: str, as_json: bool, **given: Any) -> None:
    """Let this engine version stand for older ones in DATASET, a derivative of this node.

    Every execution is made again by the version at hand; if all rows come out the same, that is
    noted. Exit code 6: they do not, or something cannot be made again, and nothing is noted.
    """
    try:
        found = _deprecated(load_settings(given), dataset)
    except NodeError as error:
        raise click.ClickException(error.message) from None
    if as_json:
        click.echo(json.dumps(found.to_data(), indent=2))
    else:
        click.echo(f"{found.same} executions of older versions come out the same")
        for block in found.differing:
            click.echo(f"differs: {block}")
        for block in found.not_verifiable:
            click.echo(f"not verifiable here: {block}")
        for line in found.compatible:
            click.echo(f"noted as compatible: {line}")
    sys.exit(0 if found.ok else DIFFERENT)


def _deprecated(settings: WorkerSettings, name: str) -> Any:
    # Spark is imported late: `--help` and wrong names do not need it.
    from ..jobs.transform.replay import deprecate as make_again

    show = sys.stderr.isatty()
    with on_the_spot(settings) as (stores, context):
        return make_again(
            stores,
            stores.dataset(dataset_ref(name)),
            context(),
            progress=lambda n: (
                click.echo(f"\r{n} executions", nl=False, err=True) if show else None
            ),
        )


DAMAGED = 6


@click.command(
    "verify",
    short_help="Check a dataset of this node, its executions made again.",
    epilog="\b\nExamples:\n  odf-worker verify kamu/weather-daily --recursive",
)
@click.argument("dataset", metavar="DATASET")
@click.option("--data", type=click.Path(path_type=Path), help="Directory of the local stores.")
@click.option("--database-url", help="Database of the node; default SQLite in the directory.")
@click.option("--objects-url", help="Object store of the node; default the directory.")
@click.option("--master", "spark_master", help="Spark master URL; default local[2].")
@click.option("--recursive", is_flag=True, help="Verify the datasets it is made of, too.")
@click.option("--after", metavar="BLOCK", help="Look only at data behind this block.")
@click.option("--upto", metavar="BLOCK", help="Look only at data up to this block.")
@click.option("-v", "--verbose", is_flag=True, help="Print a line for each data block.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def verify(
    *,
    dataset: str,
    recursive: bool,
    after: str | None,
    upto: str | None,
    verbose: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Check every block, rule, file and row of DATASET, an alias or id of this node.

    Executions of a derivative are made again. Exit code 6: something is wrong.
    """
    try:
        answer = _verified(
            load_settings(given), dataset, recursive=recursive, after=after, upto=upto
        )
    except NodeError as error:
        raise click.ClickException(error.message) from None
    if as_json:
        click.echo(json.dumps(to_json(answer), ensure_ascii=False, indent=2))
    else:
        click.echo(answer_text(answer, verbose=verbose))
    sys.exit(0 if answer.ok else DAMAGED)


def _verified(
    settings: WorkerSettings, name: str, *, recursive: bool, after: str | None, upto: str | None
) -> Any:
    # Spark is imported late: `--help` and wrong names do not need it.
    from ..jobs.verify.run import run_verification

    with on_the_spot(settings) as (stores, context):
        found = stores.dataset(dataset_ref(name))
        inputs = inputs_of(stores, found.id) if recursive else []
        payload = VerifyPayload(inputs=tuple(map(str, inputs)), after=after, upto=upto)
        return run_verification(stores, found, payload, context(), now=stores.clock())


def inputs_of(stores: Stores, dataset: DatasetId) -> list[DatasetId]:
    """Return all datasets from which a dataset is derived, inputs before the datasets that use
    them."""
    found: dict[DatasetId, None] = {}
    seen = {dataset}

    def visit(one: DatasetId) -> None:
        try:
            declared = stores.dataset(DatasetRef(id=one)).state().declared_inputs or ()
        except DatasetNotFound:  # reported when the dataset is verified
            return
        for item in declared:
            if item is not None and item not in seen:
                seen.add(item)
                visit(item)
                found[item] = None

    visit(dataset)
    return list(found)


MOST_SECONDS = 300
"""Seconds that a JVM may take to write its classes."""


@click.command(
    "class-archive",
    short_help="Keep Spark's classes ready: it starts in half the time.",
    epilog="\b\nExamples:\n  odf-worker class-archive",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def keep_classes(*, as_json: bool) -> None:
    """Keep Spark's classes as the Java virtual machine has them in memory.

    Once for an installation, and again when Java or Spark were renewed: until then Spark starts
    as it does without. Takes half a minute, and 200 MB beside the installed packages.
    """
    folder = class_archive.FOLDER
    if sys.stderr.isatty():
        click.echo("Spark does a few jobs, then Java writes what it has …", err=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        size = keep(folder)
    except (NodeError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "size": size}, indent=2))
    else:
        click.echo(f"{size / 1e6:.0f} MB of classes are kept in {folder}")


def keep(folder: Path) -> int:
    """Create the files again, and return their size in bytes. Starts and ends the Spark of this
    process.

    Raises:
        ClassesNotKept: this Java cannot store its classes.
        JavaNotFound: no Java is installed.
        OSError: the disk is full, or Spark does not start.
    """
    with ExitStack() as failing:
        making = Path(tempfile.mkdtemp(prefix="of-", dir=folder))
        failing.callback(shutil.rmtree, making, ignore_errors=True)
        try:
            _keep_java(making)
            _keep_spark(making)
        except subprocess.TimeoutExpired:
            raise NodeFault("ClassesNotKept", f"Java did not end within {MOST_SECONDS} s") from None
        try:
            size = class_archive.publish(making)
        except FileNotFoundError as missing:
            name = Path(missing.filename).name
            raise NodeFault("ClassesNotKept", f"Java ended without having written {name}") from None
        failing.pop_all()
        return size


def _keep_java(folder: Path) -> None:
    from ..engines.spark.session import java

    words = [str(java() / "bin" / "java"), *class_archive.dumping(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    if done.returncode != 0:
        raise NodeFault(
            "ClassesNotKept", f"Java keeps no classes: {(done.stdout + done.stderr).strip()}"
        )


def _keep_spark(folder: Path) -> None:
    """Store all classes that a worker's warm-up jobs use."""
    from odf_storage.datasets.merge_state.store import MergeStates
    from odf_storage.stores.objects.memory import MemoryObjectStore

    from ..engines.spark.session import SparkOptions, SparkWhenNeeded
    from ..engines.spark_engine.engine import SparkEngine
    from ..jobs.work.context import Engines, IngestOptions, WorkerContext
    from .engines import warm_up

    with tempfile.TemporaryDirectory(prefix="odf-classes-") as scratch:
        options = SparkOptions(scratch=Path(scratch), record_classes_in=folder)
        session = SparkWhenNeeded(options).start()
        context = WorkerContext(
            engines=Engines(session=session, first=SparkEngine(session)),
            objects=MemoryObjectStore(),
            scratch=Path(scratch),
            ingest=IngestOptions(states=MergeStates(Path(scratch) / "merge-state", max_bytes=0)),
        )
        warm_up(context, now=system_clock())
        machine = session.sparkContext._gateway.proc
        session.stop()
        machine.stdin.close()  # this ends the process
        machine.wait(MOST_SECONDS)
        if machine.returncode != 0:
            raise NodeFault("ClassesNotKept", f"Java ended with code {machine.returncode}")
