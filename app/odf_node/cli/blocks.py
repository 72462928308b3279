"""`odf-node inspect`, `encode` and `hash`: block files and hashes of files, without a dataset."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from odf_protocol.codec.blocks import decode_block, encode_block
from odf_protocol.codec.manifests import (
    MAX_TEXT_BYTES,
    block_from_manifest,
    block_manifest,
    load_documents,
    to_yaml,
)
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.multihash import Multihash

from ..client.folder import chunks_of
from ..client.limits import LIMITS, TooMuch
from .output import json_option, print_json

STDIN = "-"


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


def read_file(name: str, limit: int) -> bytes:
    """Return the content of a file. Raise `TooMuch` if it has more than `limit` bytes."""
    with opened_file(name) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise TooMuch(f"the size of {name}", limit)
    return content


@contextmanager
def opened_file(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading; `-` is standard input.

    Raises:
        click.UsageError: the file cannot be opened.
    """
    if name == STDIN:
        yield sys.stdin.buffer
        return
    try:
        stream = Path(name).open("rb")  # noqa: SIM115
    except OSError as error:
        raise click.UsageError(f"cannot open {name}: {error.strerror}") from None
    with stream:
        yield stream


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
