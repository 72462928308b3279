"""`odf-worker class-archive`: store Spark's classes as they are in memory, for quicker starts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from odf_protocol.errors import NodeError, NodeFault

from ..engines.spark import class_archive

MOST_SECONDS = 300
"""Seconds that a JVM may take to write its classes."""


class ClassesNotKept(NodeFault):
    """The installed Java cannot store its classes."""


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
            raise ClassesNotKept(f"Java did not end within {MOST_SECONDS} s") from None
        try:
            size = class_archive.publish(making)
        except FileNotFoundError as missing:
            name = Path(missing.filename).name
            raise ClassesNotKept(f"Java ended without having written {name}") from None
        failing.pop_all()
        return size


def _keep_java(folder: Path) -> None:
    from ..engines.spark.session import java

    words = [str(java() / "bin" / "java"), *class_archive.dumping(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    if done.returncode != 0:
        raise ClassesNotKept(f"Java keeps no classes: {(done.stdout + done.stderr).strip()}")


def _keep_spark(folder: Path) -> None:
    """Store all classes that a worker's warm-up jobs use."""
    from odf_storage.datasets.merge_state.store import MergeStates
    from odf_storage.stores.objects.memory import MemoryObjectStore

    from ..engines.spark.session import SparkOptions, SparkWhenNeeded
    from ..engines.spark_engine.engine import SparkEngine
    from ..jobs.work.context import Engines, IngestOptions, WorkerContext
    from .handlers import now
    from .warmup import warm_up

    with tempfile.TemporaryDirectory(prefix="odf-classes-") as scratch:
        options = SparkOptions(scratch=Path(scratch), record_classes_in=folder)
        session = SparkWhenNeeded(options).start()
        context = WorkerContext(
            engines=Engines(session=session, first=SparkEngine(session)),
            objects=MemoryObjectStore(),
            scratch=Path(scratch),
            ingest=IngestOptions(states=MergeStates(Path(scratch) / "merge-state", max_bytes=0)),
        )
        warm_up(context, now=now())
        machine = session.sparkContext._gateway.proc
        session.stop()
        machine.stdin.close()  # this ends the process
        machine.wait(MOST_SECONDS)
        if machine.returncode != 0:
            raise ClassesNotKept(f"Java ended with code {machine.returncode}")
