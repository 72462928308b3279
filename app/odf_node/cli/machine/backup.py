"""`odf-node backup` and `restore`: a whole node, kept elsewhere and brought back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odf_protocol.errors import NotFound
from odf_protocol.identity import DatasetId

from ...client.nodes.limits import one_line
from ..shell.files import INPUT
from ..shell.output import (
    DAMAGED,
    json_option,
    print_json,
    stepwise,
)
from .node_folder import all_store_options, opened_stores, record_command
from .upkeep import MAX_LINE

if TYPE_CHECKING:
    from odf_storage.datasets.backup.check import CheckReport
    from odf_storage.datasets.backup.manifest import BackupManifest
    from odf_storage.datasets.backup.place import Place

KEY_HELP = "File with the key that seals the backups: 32 random bytes in base64."


class ByTarget(click.Group):
    """A group whose first word, if it is no command, is the target of `make`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = ["make", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["make", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ByTarget, subcommand_metavar="TARGET | COMMAND [ARGS]...")
def backup() -> None:
    """Back up a whole node to TARGET, a folder or bucket of backups of this node alone.

    `backup TARGET` is short for `backup make TARGET`.
    """


def _place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    key = click.option("--key", "key_file", type=INPUT, help=KEY_HELP)
    return key(command)


_NUMBER = click.option("--number", type=click.IntRange(1), help="This one; by default the newest.")


def _place(target: str, key_file: Path | None) -> Place:
    from odf_storage.datasets.backup.place import open_place, read_key

    return open_place(target, None if key_file is None else read_key(key_file))


@backup.command()
@click.argument("target")
@click.option("--keep", type=click.IntRange(1), help="Remove all but so many of the newest.")
@_place_options
@all_store_options
def make(target: str, keep: int | None, key_file: Path | None, as_json: bool, **where: Any) -> None:
    """Back up accounts, settings of datasets, chains and objects, while the node works.

    A next backup reads and writes what is new. Interrupt it at any time: a backup counts once it is
    complete, and the next one uses what is there. Ends with exit code 6 if the node itself has lost
    objects, which are listed; the rest is in the backup.
    """
    from odf_storage.datasets.backup.make import back_up
    from odf_storage.datasets.backup.place import refuse_own
    from odf_storage.runtime.extras import app_version

    from ...service.settings import load_settings

    place = _place(target, key_file)
    with opened_stores(where) as (stores, data), stepwise(quiet=as_json) as step:
        objects_url = where.get("objects_url") or load_settings().objects_url
        refuse_own(target, [*stores.folders(), data], objects_url)
        report = back_up(
            stores,
            replace(place, clock=stores.clock),
            version=app_version(),
            data=data,
            keep=keep,
            progress=step or _unwatched,
        )
        record_command(stores, "backup", number=report.number, missing=len(report.missing))
    if as_json:
        print_json(report.to_data())
    else:
        _print([f"missing in the node: {each}" for each in report.missing])
        click.echo(
            f"backup {report.number}: {report.datasets} dataset(s), {report.changed} of them "
            f"changed, {report.blocks} block(s) and {report.objects} object(s) new, "
            f"{report.bytes_written} bytes written"
        )
        if report.removed:
            click.echo(f"removed {len(report.removed)} older backup(s)")
    click.get_current_context().exit(DAMAGED if report.missing else 0)


def _unwatched(_step: str, _done: int, _total: int) -> None: ...


@backup.command(name="list")
@click.argument("target")
@_place_options
@json_option
def list_(target: str, key_file: Path | None, as_json: bool) -> None:
    """List the complete backups of a place, oldest first."""
    from odf_storage.datasets.backup.manifest import listed, load

    place = _place(target, key_file)
    _about(place)
    shown = []
    for one in listed(place):
        manifest = load(place, one)
        shown.append(
            {
                "number": manifest.number,
                "at": manifest.at,
                "datasets": sum(held.head is not None for held in manifest.held),
                "missing": len(manifest.missing),
                "version": manifest.version,
            }
        )
    if as_json:
        print_json({"backups": shown})
        return
    for each in shown:
        lost = f", {each['missing']} object(s) missing" if each["missing"] else ""
        click.echo(f"{each['number']}  {each['at']}  {each['datasets']} dataset(s){lost}")


def _about(place: Place) -> None:
    if place.about() is None:
        raise NotFound("NoBackup", "there is no backup here")


@backup.command()
@click.argument("target")
@_NUMBER
@click.option("--quick", is_flag=True, help="Presence and sizes of objects only; read none.")
@_place_options
@all_store_options
def check(
    target: str,
    number: int | None,
    quick: bool,
    key_file: Path | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Check that a backup is whole, and say what a restore of it would lose. Changes nothing.

    What would be lost is said if the node is there. Ends with exit code 6 when the backup is
    damaged, or lacks what the node itself had lost.
    """
    from odf_storage.datasets.backup.check import check as checked
    from odf_storage.datasets.backup.manifest import chosen

    place = _place(target, key_file)
    manifest = chosen(place, number)
    with stepwise(quiet=as_json) as step:
        report = checked(place, manifest, reads=not quick, progress=step or _unwatched)
    report.lost = _lost(manifest, where)
    if as_json:
        print_json(report.to_data())
    else:
        _print(_check_lines(report))
    click.get_current_context().exit(0 if report.ok else DAMAGED)


def _lost(manifest: BackupManifest, where: dict[str, Any]) -> list[str]:
    from odf_storage.datasets.backup.check import lost_since
    from odf_storage.datasets.backup.make import node_of

    try:
        with opened_stores(where) as (stores, _):
            same = node_of(stores) == manifest.node
            return lost_since(stores, manifest) if same else ["all: the node here is another"]
    except NotFound:  # NoNodeHere: it burnt
        return []


def _check_lines(report: CheckReport) -> list[str]:
    lines = [f"damaged: {each}" for each in report.damages]
    lines += [f"missing since before the backup: {each}" for each in report.missing]
    lines += [f"a restore would lose: {each}" for each in report.lost]
    verdict = "whole" if report.ok else "NOT WHOLE"
    if report.damaged_datasets:
        without = " ".join(f"--without {each}" for each in report.damaged_datasets[:3])
        lines.append(f"an older backup may be whole; or restore with {without}")
    lines.append(
        f"{verdict}: backup {report.number} of {report.at}, {report.datasets} dataset(s), "
        f"{report.blocks} block(s), {report.objects} object(s), {report.bytes_read} bytes read"
    )
    return lines


@click.command()
@click.argument("source")
@_NUMBER
@click.option("--without", multiple=True, help="Leave out this dataset (did:odf:…; repeatable).")
@_place_options
@all_store_options
def restore(
    source: str,
    number: int | None,
    without: tuple[str, ...],
    key_file: Path | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Restore a backup to an empty folder, and an empty database and bucket if they are named.

    The kinds of database and store may be other ones than those of the backup. No node starts there
    before the end. If it breaks off, the same command goes on.
    """
    from odf_storage.datasets.backup import restore as restoring
    from odf_storage.datasets.backup.manifest import chosen
    from odf_storage.datasets.node.open_stores import StoreSettings

    from ...service.settings import load_settings

    left_out = [DatasetId.parse(each) for each in without]
    place = _place(source, key_file)
    manifest = chosen(place, number)
    settings = load_settings(**where)
    with stepwise(quiet=as_json) as step:
        report = restoring.restore(
            place,
            manifest,
            StoreSettings.of(settings),
            without=left_out,
            progress=step or _unwatched,
        )
    with opened_stores(where) as (stores, _):
        record_command(stores, "restore", number=report.number, at=report.at)
    if as_json:
        print_json(report.to_data())
        return
    if report.sealed_secrets and not (report.has_keys or settings.secrets_keys):
        click.echo(
            f"note: {report.sealed_secrets} secret(s) need the keys of the node, which this backup "
            "has not: set ODF_STORE_SECRETS_KEYS, or put secret.key into the data folder",
            err=True,
        )
    click.echo(
        f"restored backup {report.number} of {report.at}: {report.datasets} dataset(s), "
        f"{report.blocks} block(s), {report.objects} object(s), {report.rows} row(s) of tables"
    )


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(one_line(line, MAX_LINE))
