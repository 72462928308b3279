"""`odf-worker`: the command line. It imports the code of a command only when the command runs."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""Exit code that shells use for a program ended by Ctrl-C."""

try:  # importing takes a moment
    from importlib import import_module
    from pathlib import Path
    from typing import Any

    import click

    from odf_protocol.errors import NodeError
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)

COMMANDS = {
    "engine": (
        "odf_workers.program.serve:engine",
        "Serve an engine over gRPC (engine protocol of ODF).",
    ),
    "verify": (
        "odf_workers.program.commands:verify",
        "Check a dataset of this node, its executions made again.",
    ),
    "deprecate": (
        "odf_workers.program.commands:deprecate",
        "Let this engine version stand for the older ones of a derivative.",
    ),
    "spark-cluster": (
        "odf_workers.program.commands:spark_cluster",
        "Run a part of a Spark cluster, for workers that name it as their master.",
    ),
    "class-archive": (
        "odf_workers.program.commands:keep_classes",
        "Keep Spark's classes ready: it starts in half the time.",
    ),
}
"""Module and function of each command, and its text in `--help`."""


class _LazyGroup(click.Group):
    """Imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Without a command the worker runs until it is told to stop. What is not given comes "
    "from the environment (ODF_WORKER_…, ODF_STORE_…), see settings.example.env.",
)
@click.version_option(package_name="odf-node", prog_name="odf-worker")
@click.option("--data", type=click.Path(path_type=Path), help="Directory of the local stores.")
@click.option("--database-url", help="Database of the node; default SQLite in the directory.")
@click.option("--objects-url", help="Object store of the node; default the directory.")
@click.option("--master", "spark_master", help="Spark master URL; default local[2].")
@click.option(
    "--jobs",
    type=click.Choice(["all", "queries", "others"]),
    help="Jobs to take: queries of readers on Spark, all others, or all.",
)
@click.option("--idle-s", type=float, help="End after so many seconds without a job; 0 never.")
@click.option("--once", is_flag=True, help="Run the jobs that wait, then end.")
@click.option(
    "--warm-up/--no-warm-up",
    default=None,
    help="Start Spark and do small jobs beside the first ones; without, the first ones that "
    "need Spark are slow.",
)
@click.option("--parent-pid", type=int, help="End when this process is gone.")
@click.pass_context
def main(context: click.Context, /, *, once: bool, parent_pid: int | None, **given: Any) -> None:
    """Run the jobs of a node: ingest what producers post, compute derivatives, on Spark."""
    if context.invoked_subcommand is not None:
        return
    from odf_storage.runtime.extras import extra_missing
    from odf_storage.stores.objects.layout import DatabaseUnavailable

    try:
        from .program.wiring import run

        code = run(given, once=once, parent_pid=parent_pid)
    except DatabaseUnavailable as error:
        raise click.ClickException(error.for_operator) from None
    except NodeError as error:
        raise click.ClickException(error.message) from None
    except ModuleNotFoundError as error:
        if (missing := extra_missing(error)) is None:
            raise
        raise click.ClickException(missing.message) from None
    except KeyboardInterrupt:  # before the worker handles signals itself
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
