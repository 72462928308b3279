"""`odf-node pull` and `odf-node push`: copy datasets between folders, nodes and buckets.

`odf-node repo`: short names for nodes that exchange datasets with this machine.

`odf-node inspect`, `encode` and `hash`: block files and hashes of files, without a dataset.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odf_protocol.codec.blocks import decode_block, encode_block
from odf_protocol.codec.manifests import (
    MAX_TEXT_BYTES,
    block_from_manifest,
    block_manifest,
    load_documents,
    to_yaml,
)
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import Visibility

from ...client.nodes.http import Overloaded, Unreachable
from ...client.nodes.limits import LIMITS, one_line
from ...client.nodes.remotes import (
    Location,
    Repositories,
    Transfer,
    note_remotes,
    remotes_of,
)
from ...client.nodes.targets import Address, read_address, write_address
from ...client.proofs.attestations import give
from ...client.transfer import sync
from ...client.transfer.folder import FolderRepository, chunks_of
from ...client.transfer.receive import ChainReader, Outcome
from ...client.transfer.sync import mirror_at
from ..shell.files import opened_file, read_file
from ..shell.output import json_option, print_json, progress_bars
from ..shell.tokens import any_token, token_at, tokens_of
from .trust import trust_options

if TYPE_CHECKING:
    from ...client.proofs.trust import HeadFinding

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
@trust_options
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
    **wanted: Any,
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
        found = _logged(address, into, outcome, **wanted)
        _print_pulled(outcome, found, as_json=as_json)


def _print_pulled(outcome: Outcome, found: HeadFinding | None, *, as_json: bool) -> None:
    """Print what was pulled, and what the log of its node says. Raise `LogContradicted`."""
    logged = {} if found is None else {"log": found.to_data()}
    _print_data({**outcome_data(outcome), **logged}, as_json=as_json)
    if found is None:
        return
    if not as_json:
        click.echo(found.text)
    found.require()


def _logged(source: Address, into: Location, outcome: Outcome, **wanted: Any) -> HeadFinding | None:
    """Take attestations of a folder that was pulled, and check its head as `verify` does."""
    if into.path is None:
        return None
    from ...client.proofs.trust import after_pull

    return after_pull(source.location, into.path, outcome.new_head, source.token, **wanted)


def _followed(folder: str) -> str:
    """Return the address that a folder was pulled from. Raise `NothingToFollow` without one."""
    noted = remotes_of(Path(folder)).pull
    if noted is None:
        raise BadInput(
            "NothingToFollow",
            f"{folder} was not pulled before: name what to pull, and the folder to pull it into",
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
    if address.location.base:
        give(folder, address.location, address.token)
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


@click.group()
def repo() -> None:
    """Name nodes as repositories.

    The names and their tokens are stored in a file that only you can read. A token is sent only to
    the node that it belongs to.
    """


@repo.command()
@click.argument("name")
@click.argument("url", metavar="URL")
@click.option("--token", help="Access token for this node.")
@json_option
def add(name: str, url: str, token: str | None, as_json: bool) -> None:
    """Add the repository NAME for the node at URL (odf+http(s)://… or http(s)://…).

    Pulls from odf+… use the smart protocol, pulls from other URLs the simple one.
    """
    repository = Repositories().add(name, url, token)
    if as_json:
        print_json({"name": name, "url": repository.url, "hasToken": repository.token is not None})
    else:
        click.echo(f"{name}: {repository.url}")


@repo.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the repositories."""
    known = Repositories().all()
    if as_json:
        print_json(
            [
                {"name": name, "url": one.url, "hasToken": one.token is not None}
                for name, one in known.items()
            ]
        )
        return
    for name, one in known.items():
        click.echo(f"{name}\t{one.url}{'  (token)' if one.token else ''}")


@repo.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove a repository and its token."""
    Repositories().remove(name)
    if as_json:
        print_json({"removed": name})


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@json_option
def inspect(files: tuple[str, ...], as_json: bool) -> None:
    """Show block files as manifests; `-` reads standard input.

    With --json, one file gives one object {hash, size, manifest}, and several files give a list.
    """
    blocks = [decode_block(read_file(name, LIMITS.block_bytes)) for name in files]
    if as_json:
        shown = [block_data(block) for block in blocks]
        print_json(shown if len(shown) > 1 else shown[0])
    else:
        click.echo("---\n".join(to_yaml(block_manifest(block)) for block in blocks), nl=False)


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--version",
    type=click.Choice(["2", "3"]),
    help="Write this version of the format instead of the one in the manifest.",
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file per document into DIR, named by block hash.",
)
@json_option
def encode(file: str, version: str | None, output: Path | None, as_json: bool) -> None:
    """Turn the manifest of a block (YAML or JSON) into its bytes on standard output.

    A FILE with several documents needs -o, or --json, which prints the bytes in base16.
    """
    documents = load_documents(read_file(file, MAX_TEXT_BYTES))
    if len(documents) != 1 and output is None and not as_json:
        raise click.UsageError(f"{len(documents)} documents in {file}; write them with -o DIR")
    blocks = []
    for document in documents:
        block, written = block_from_manifest(document)
        blocks.append(encode_block(block, {"2": 2, "3": 3, None: written}[version]))
    if output is not None:
        _write_blocks(blocks, output, as_json=as_json)
    elif as_json:
        shown = [{**_identity(b), "version": b.version, "bytes": b.raw.hex()} for b in blocks]
        print_json(shown[0] if len(shown) == 1 else shown)
    elif sys.stdout.isatty():
        raise click.UsageError("the bytes of a block are not for a terminal; redirect, or use -o")
    else:
        sys.stdout.buffer.write(blocks[0].raw)


@click.command("hash")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--logical", is_flag=True, help="Hash the rows of a Parquet or Arrow IPC file.")
@json_option
def hash_(files: tuple[str, ...], logical: bool, as_json: bool) -> None:
    """Print the physical multihash (SHA3-256 of the bytes) of any file; `-` is standard input.

    With --logical the command hashes the rows (arrow0-sha3-256), independent of the file's layout.
    Several files give a line each, hash first; with --json they give a list.
    """
    kind = "logical" if logical else "physical"
    hashed = [(name, str(_digest(name, logical=logical))) for name in files]
    if as_json:
        shown = [{"file": name, "kind": kind, "hash": digest} for name, digest in hashed]
        print_json(shown if len(shown) > 1 else shown[0])
    elif len(hashed) == 1:
        click.echo(hashed[0][1])
    else:
        for name, digest in hashed:
            click.echo(f"{digest}  {name}")


def _digest(name: str, *, logical: bool) -> Multihash:
    with opened_file(name) as stream:
        if logical:
            from .tables import logical_hash_of_stream

            return logical_hash_of_stream(stream)
        return Multihash.of_chunks(chunks_of(stream))


def block_data(block: HashedBlock) -> dict[str, Any]:
    """Return a block as JSON-compatible data."""
    return {**_identity(block), "manifest": block_manifest(block)}


def _identity(block: HashedBlock) -> dict[str, Any]:
    return {"hash": str(block.hash), "size": len(block.raw)}


def _write_blocks(blocks: list[HashedBlock], folder: Path, *, as_json: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for block in blocks:
        path = folder / str(block.hash)
        path.write_bytes(block.raw)
        written.append({**_identity(block), "file": str(path)})
    if as_json:
        print_json(written)
    else:
        for line in written:
            click.echo(line["file"])
