"""`odf-node index`, `fsck`, `gc`, `db`, `head-log`: maintain a node's stores, on its machine.

Audit entries of commands that run on the machine of the node.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context
from typing import Any

import click

from odf_protocol.errors import BadInput, Conflict, Unavailable
from odf_storage.datasets.node.naming import dataset_ref
from odf_storage.runtime.clock import parse_duration

from ...client.nodes.limits import one_line
from ..shell.output import DAMAGED, print_json
from .node_folder import (
    all_store_options,
    any_folder,
    expect_objects,
    opened_stores,
    record_command,
)

BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
LEAST_GRACE = timedelta(hours=1)
"""Minimum of `--grace`: longer than a push or ingest takes from its last check of an object to its
commit."""
BUCKET_THREADS = 16
MAX_PROCESSES = 4
MAX_LINE = 1000
SHOW_EVERY = 100


# --- index ----------------------------------------------------------------------------------


@click.group()
def index() -> None:
    """Rebuild or check the index of a node: the facts about its objects in its database."""


@index.command()
@click.option("--check", is_flag=True, help="Change nothing; compare with the index that is.")
@click.option(
    "--readers",
    type=click.IntRange(0, 256),
    help="Processes, or for a bucket threads, that read ahead; 0 reads as it goes.",
)
@all_store_options
def rebuild(check: bool, readers: int | None, as_json: bool, **where: Any) -> None:
    """Rebuild the index from the objects, in a database without datasets.

    The command restores datasets, heads, blocks and inputs. It cannot restore accounts, tokens,
    grants and jobs, which only the database has. Ends with exit code 6 when a dataset is not whole,
    or with --check when something differs.
    """
    with (
        opened_stores(where, expected=expect_objects) as (stores, _),
        _progress(as_json) as show,
        _readers(stores.objects, readers) as pool,
    ):
        options: dict[str, Any] = {
            "pool": pool,
            "progress": lambda dataset, blocks: show(f"{blocks} blocks", dataset),
        }
        report, lines = (_compare if check else _rebuild)(stores, options)
    print_json(report.to_data()) if as_json else _print(lines)
    click.get_current_context().exit(0 if report.ok else DAMAGED)


@contextmanager
def _readers(objects: Any, count: int | None) -> Iterator[Executor | None]:
    """Yield the executor that reads ahead, or None for a count of 0.

    The default is a process for each processor but one (at most `MAX_PROCESSES`), or
    `BUCKET_THREADS` threads for a bucket.
    """
    local = objects.local_paths is not None
    if count is None:
        count = min(MAX_PROCESSES, (os.cpu_count() or 1) - 1) if local else BUCKET_THREADS
    if count == 0:
        yield None
        return
    fresh = get_context("spawn")  # the children inherit no connections or locks of this process
    with ProcessPoolExecutor(count, fresh) if local else ThreadPoolExecutor(count) as pool:
        yield pool


def _rebuild(stores: Any, options: dict[str, Any]) -> tuple[Any, list[str]]:
    from odf_storage.datasets.upkeep.rebuild import rebuild_index

    report = rebuild_index(stores.objects, stores.engine, **options)
    lines = [f"not indexed: {line}" for line in report.problems]
    lines += [f"note: {line}" for line in report.notes]
    return report, [*lines, f"indexed {report.datasets} dataset(s), {report.blocks} block(s)"]


def _compare(stores: Any, options: dict[str, Any]) -> tuple[Any, list[str]]:
    from odf_storage.datasets.upkeep.compare import compare_index

    report = compare_index(stores.objects, stores.engine, **options)
    lines = [f"not whole: {line}" for line in report.rebuilt.problems]
    lines += [f"differs: {line}" for line in report.differences]
    verdict = "equal" if report.ok else f"NOT EQUAL, {report.difference_count} difference(s)"
    blocks = f"{report.rebuilt.blocks} block(s), {report.former_blocks} of former heads besides"
    return report, [*lines, f"{verdict}: {report.rebuilt.datasets} dataset(s), {blocks}"]


# --- fsck -----------------------------------------------------------------------------------


@click.command()
@click.argument("only", metavar="[DATASET]...", nargs=-1)
@click.option("--quick", is_flag=True, help="Presence and sizes only; read no objects.")
@click.option(
    "--scrub",
    metavar="RATE",
    help="Read at most RATE (50M: bytes a second) and take damaged objects out of sight.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Write again what the index knows (heads, aliases, blocks), heal other objects from "
    "copies, and have those of derivatives and mirrors made or fetched again.",
)
@all_store_options
def fsck(
    only: tuple[str, ...],
    quick: bool,
    scrub: str | None,
    repair: bool,
    as_json: bool,
    **where: Any,
) -> None:
    """Check that every object of every DATASET (or all) exists and is whole.

    Finds missing, damaged and orphaned objects, heads that point to nothing, and files of heads and
    aliases that differ from the index. You may run it beside a running node. Ends with exit code 6
    when something is wrong; orphans are only noted. Use `verify` to check rows.
    """
    from odf_storage.datasets.upkeep.compare import CompareThrottle
    from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores

    options = FsckOptions(rehash=not quick, repair=repair)
    if scrub is not None:
        rate = parse_rate(scrub)
        options = replace(options, rehash=True, throttle=CompareThrottle(rate), quarantine=True)
    with opened_stores(where) as (stores, _), _progress(as_json) as show:
        chosen = [stores.registry.get(dataset_ref(name)) for name in only] or None
        report = check_stores(
            stores,
            options,
            only=chosen,
            progress=lambda dataset, objects, size: show(
                f"{objects} objects, {size >> 20} MiB", dataset
            ),
        )
        print_json(report.to_data()) if as_json else _print(_fsck_lines(report))
        _note(stores, "fsck", datasets=report.datasets, problems=report.problem_count)
    click.get_current_context().exit(0 if report.ok else DAMAGED)


def _note(stores: Any, action: str, **facts: Any) -> None:
    """Record the command in the audit log.

    If the log cannot be written, only warn, because the report of the command is still valid.
    """
    from odf_storage.stores.objects.layout import StorageFull, StorageReadOnly

    try:
        record_command(stores, action, **facts)
    except (StorageFull, StorageReadOnly, Unavailable) as trouble:
        click.echo(f"warning: the audit log has no entry of this: {trouble.message}", err=True)


def _fsck_lines(report: Any) -> list[str]:
    lines = [_finding(item) for item in report.problems]
    lines += ["note: " + _finding(item) for item in report.notes]
    verdict = "clean" if report.ok else f"NOT CLEAN, {report.problem_count} problem(s)"
    checked = f"{report.datasets} dataset(s), {report.blocks} block(s), {report.objects} object(s)"
    return [*lines, f"{verdict}: {checked}, {report.size} bytes read, {report.note_count} note(s)"]


def _finding(item: Any) -> str:
    number = "" if item.sequence_number is None else f"#{item.sequence_number} "
    parts = " ".join(part for part in (item.block, item.path) if part)
    done = "" if item.action is None else f" [{item.action}]"
    return f"{item.reason}: {item.dataset} {number}{parts}: {item.message}{done}"


# --- gc -------------------------------------------------------------------------------------


@click.command()
@click.option("--dry-run", is_flag=True, help="Remove nothing; say what would go.")
@click.option(
    "--grace",
    default="24h",
    show_default=True,
    metavar="TIME",
    help="Leave what is younger alone: 24h, 90m, 2d; one hour at least.",
)
@all_store_options
def gc(dry_run: bool, grace: str, as_json: bool, **where: Any) -> None:
    """Remove objects that no chain names: orphans, old chains, abandoned uploads and first pushes.

    You may run it beside a running node. It keeps all objects that heads reach, or reached within
    the grace time, and objects that waiting or running jobs name.
    """
    from odf_storage.datasets.upkeep.gc import collect_garbage, sweep_merge_states

    from ...service.settings import load_settings

    least = parse_duration(grace)
    if least < LEAST_GRACE:
        raise BadInput(
            "GraceTooShort", "the grace time is one hour at least, so that it covers every commit"
        )
    with opened_stores(where) as (stores, _), _progress(as_json) as show:
        report = collect_garbage(
            stores,
            grace=least,
            dry_run=dry_run,
            progress=lambda dataset, objects: show(f"{objects} objects", dataset),
        )
        report.merge_states = sweep_merge_states(
            stores, load_settings(**where).data, dry_run=dry_run
        )
        print_json(report.to_data()) if as_json else _print(_gc_lines(report))
        if not dry_run:
            removed = sum(one.count for one in report.removed.values())
            _note(stores, "gc", removed=removed)


def _gc_lines(report: Any) -> list[str]:
    verb = "would remove" if report.dry_run else "removed"
    lines = [f"left alone: {line}" for line in report.left_alone]
    for reason, removed_count in sorted(report.removed.items()):
        lines.append(f"{verb} {removed_count.count} x {reason}, {removed_count.size} bytes")
    lines += [
        f"{verb} dataset {alias}: its first push never ended" for alias in report.datasets_forgotten
    ]
    total = sum(removed_count.count for removed_count in report.removed.values())
    besides = (
        f"{report.unfinished_writes} unfinished write(s), {report.blocks_forgotten} index row(s), "
        f"merge states of {report.merge_states} dataset(s)"
    )
    checked = f"{report.objects} object(s) of {report.datasets} dataset(s)"
    return [
        *lines,
        f"{verb} {total} object(s), {besides}",
        f"looked at {checked}; {report.young} of the rest are garbage within the grace time",
    ]


# --- db -------------------------------------------------------------------------------------


@click.group()
def db() -> None:
    """Maintain the database of a node."""


@db.command()
@all_store_options
def migrate(as_json: bool, **where: Any) -> None:
    """Migrate the schema, as `serve` does when it starts. Several processes may migrate at once."""
    with opened_stores(where, expected=any_folder, migrate=True):
        pass
    print_json({"migrated": True}) if as_json else click.echo("the database is up to date")


# --- head-log -------------------------------------------------------------------------------


@click.group("head-log")
def head_log() -> None:
    """Show and resume the log of heads of a node, on its machine."""


@head_log.command()
@all_store_options
def show(as_json: bool, **where: Any) -> None:
    """Print the newest checkpoint, and whether the database continues what was signed."""
    from ...service.trust.log import lost_checkpoint

    with opened_stores(where) as (stores, _):
        state, lost = stores.head_log.state(), lost_checkpoint(stores)
    checkpoint = "" if state is None else state.checkpoint
    if as_json:
        print_json(
            {"checkpoint": checkpoint or None, "lostSize": None if lost is None else lost.size}
        )
        return
    click.echo(checkpoint.rstrip("\n") or "nothing was signed yet")
    if lost is not None:
        click.echo(
            f"the node signed a log of {lost.size} leaves, which this database does not continue; "
            "nothing is signed until you run: odf-node head-log resume --accept-gap"
        )


@head_log.command()
@click.option(
    "--accept-gap", is_flag=True, required=True, help="The lost end of the log stays lost."
)
@all_store_options
def resume(accept_gap: bool, as_json: bool, **where: Any) -> None:  # noqa: ARG001 - required
    """Let a node sign again after a backup of its database was restored.

    The log gets a leaf that tells of the gap. Clients that saw a lost checkpoint will say `rolled
    back`, and they are right: heads that the node had signed are gone.
    """
    from odf_protocol.trust.notes import encoded

    from ...service.trust.log import lost_checkpoint

    with opened_stores(where) as (stores, _):
        lost = lost_checkpoint(stores)
        if lost is None:
            raise Conflict("NoGap", "the database continues what was signed; nothing is to be done")
        stores.head_log.accept_gap(lost.size, lost.root)
        record_command(stores, "log.resume", size=lost.size, root=encoded(lost.root))
    said = f"the gap up to {lost.size} leaves is accepted; a running node signs at its next move"
    print_json({"acceptedSize": lost.size}) if as_json else click.echo(said)


# --- parsing and printing -------------------------------------------------------------------


def parse_rate(text: str) -> int:
    """Parse a rate such as `50M` as bytes a second. Raise `UnreadableRate`."""
    unit = text[-1:].upper()
    number = text[:-1] if unit in BYTES else text
    if not (number.isascii() and number.isdigit() and len(number) <= 12 and int(number)):
        raise BadInput(
            "UnreadableRate",
            f"a rate is written as 50M or 800K (bytes a second); not {text[:50]!r}",
        )
    return int(number) * BYTES.get(unit, 1)


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(one_line(line, MAX_LINE))


@contextmanager
def _progress(as_json: bool) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that updates a line on stderr, or does nothing if stderr is no terminal."""
    if as_json or not sys.stderr.isatty():
        yield lambda _amount, _dataset: None
        return
    from rich.console import Console

    calls = 0
    with Console(stderr=True).status("looking ...") as status:

        def show(amount: str, dataset: str) -> None:
            nonlocal calls
            calls += 1
            if calls % SHOW_EVERY == 1:
                status.update(f"{amount}  {one_line(dataset, 100)}")

        yield show
