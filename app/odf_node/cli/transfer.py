"""`odf-node pull` and `odf-node push`: copy datasets between folders, nodes and buckets."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_storage.stores.ports.values import Visibility

from ..client import sync
from ..client.folder import FolderRepository
from ..client.http import Overloaded, Unreachable
from ..client.mirror import mirror_at
from ..client.receive import Outcome
from ..client.remotes import Repositories, note_remotes, remotes_of
from ..client.targets import read_address, write_address
from ..client.text import one_line
from ..client.urls import Location, Transfer
from ..client.walk import ChainReader
from .output import json_option, print_json
from .progress_bars import progress_bars
from .tokens import any_token, token_at, tokens_of


class NothingToFollow(BadInput):
    """A pull names no source, and its folder was not pulled before."""


_alias_option = click.option(
    "--no-alias", is_flag=True, help="Do not note in the folder where this went, or came from."
)
_visibility_option = click.option(
    "--visibility",
    type=click.Choice(["private", "public"]),
    default="private",
    show_default=True,
    help="Who may read a dataset that this creates on a node.",
)


@click.command()
@click.argument("source", metavar="[SOURCE]")
@click.argument("target", metavar="DIR", required=False)
@click.option("--force", is_flag=True, help="Replace what is ahead or has diverged.")
@click.option("--mirror", is_flag=True, help="Keep DIR in step until interrupted; see above.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Pause between two pulls of a mirror.",
)
@click.option(
    "--source-token", metavar="TOKEN", help="With --mirror on a node: token it shows to SOURCE."
)
@_visibility_option
@_alias_option
@any_token
@json_option
def pull(
    source: str,
    target: str | None,
    force: bool,
    mirror: bool,
    every: float,
    source_token: str | None,
    visibility: str,
    no_alias: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Copy a dataset, or what is new in it, into the folder DIR.

    SOURCE is odf+http(s)://… (smart protocol), http(s)://… (simple protocol), s3://…, another
    folder, or REPOSITORY/[ACCOUNT/]NAME (see `odf-node repo`). You may omit it for a folder that
    was pulled before. The command checks every block and object against its hash before anything
    becomes visible. A pull does not fetch again the objects of an interrupted pull.

    With --mirror the command pulls again and again, and prints each update. If it cannot reach the
    source, it tries again. With --mirror and odf+http(s)://… in place of DIR, the node there
    mirrors SOURCE, now and at every refresh.
    """
    if target is None:
        source, target = _followed(source), source
    repositories = Repositories()
    address = read_address(source, repositories, tokens=tokens_of(token, repositories))
    into = Location.parse(target)
    if mirror and into.transfer is Transfer.SMART:
        receipt = mirror_at(  # a repository's token must not be sent to the mirroring node
            into,
            address.location,
            token=token_at(str(into), token),
            source_token=source_token,
            force=force,
            visibility=visibility,
        )
        heads = {"oldHead": receipt.pop("prevHead"), "newHead": receipt.pop("head")}
        _print_data({**receipt, **heads}, as_json=as_json)
        return

    def once() -> Outcome:
        with progress_bars(quiet=as_json) as progress:
            return sync.pull(
                address.location,
                into,
                token=address.token,
                force=force,
                progress=progress,
            )

    for outcome in _mirrored(once, every) if mirror else (once(),):
        if not no_alias and into.path is not None:
            note_remotes(into.path, pull=address.location)
        _print_data(outcome_data(outcome), as_json=as_json)


def _followed(folder: str) -> str:
    """Return the address that a folder was pulled from. Raise `NothingToFollow` without one."""
    noted = remotes_of(Path(folder)).pull
    if noted is None:
        raise NothingToFollow(
            f"{folder} was not pulled before: name what to pull, and the folder to pull it into"
        )
    return noted


def _mirrored(once: Callable[[], Outcome], every: float) -> Iterator[Outcome]:
    """Pull again and again, and yield the first outcome and each update.

    Retry when the source cannot be reached or is overloaded; raise all other errors.
    """
    first = True
    with _interruptions() as signals:
        while not signals:
            try:
                outcome = once()
                if first or outcome.outcome == "updated":
                    yield outcome
                first = False
            except (Unreachable, Overloaded) as broken:
                click.echo(f"odf-node: {one_line(broken.message)}; trying again", err=True)
            time.sleep(every)
    raise KeyboardInterrupt


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Yield a list to which each Ctrl-C is added; it also raises KeyboardInterrupt.

    Python drops an exception that is raised while it cleans up an object, so an endless loop has to
    check the list.
    """
    signals: list[int] = []

    def note(number: int, _: Any) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGINT, before)


@click.command()
@click.argument("source", metavar="DIR")
@click.argument("target", metavar="[TARGET]", required=False)
@_visibility_option
@click.option("--no-create", is_flag=True, help="Fail if the dataset is not there yet.")
@click.option("--force", is_flag=True, help="Replace the node's history if it has diverged.")
@_alias_option
@any_token
@json_option
def push(
    source: str,
    target: str | None,
    visibility: str,
    no_create: bool,
    force: bool,
    no_alias: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Publish the dataset in the folder DIR, or what is new in it, at TARGET.

    TARGET is odf+http(s)://…, s3://…, a folder, REPOSITORY or REPOSITORY/[ACCOUNT/]NAME (see
    `odf-node repo`). By default it is the address that the folder was pushed to before, else the
    only repository. The command creates a dataset that does not exist yet.
    """
    folder = Path(source)
    repositories = Repositories()
    tokens = tokens_of(token, repositories)
    address = write_address(
        target, folder, lambda: _dataset_in(folder), repositories, tokens=tokens
    )
    with progress_bars(quiet=as_json) as progress:
        outcome = sync.push(
            Location.parse(source),
            address.location,
            token=address.token,
            force=force,
            visibility=Visibility(visibility.capitalize()),
            create=not no_create,
            progress=progress,
        )
    if not no_alias:
        note_remotes(folder, push=address.location)
    _print_data({**outcome_data(outcome), "target": str(address.location)}, as_json=as_json)


def _dataset_in(folder: Path) -> DatasetId:
    repository = FolderRepository(folder)
    return ChainReader(repository).dataset(repository.head())


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as JSON-compatible data."""
    return {
        "outcome": outcome.outcome,
        "oldHead": str(outcome.old_head) if outcome.old_head else None,
        "newHead": str(outcome.new_head),
        "blocks": outcome.blocks,
        "objects": outcome.objects,
        "linkedObjects": outcome.linked,
        "bytes": outcome.bytes,
    }


def _print_data(data: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(data)
    elif data["outcome"] == "up-to-date":
        click.echo(f"up to date at {data['newHead']}")
    else:
        click.echo(
            f"updated to {data['newHead']}: {data['blocks']} block(s), "
            f"{data['objects']} object(s), {data['bytes']} bytes"
        )
