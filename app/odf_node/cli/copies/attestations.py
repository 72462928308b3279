"""`odf-node attestations`: who says what of the blocks of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odf_protocol.commitments import did_key
from odf_protocol.errors import BadInput, Damaged
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import Seed
from odf_protocol.multihash import Multihash

from ...client.nodes.http import open_http
from ...client.nodes.limits import one_line
from ...client.nodes.node_api import NodeApi
from ...client.nodes.remotes import Location
from ...client.transfer.receive import ChainReader
from ...client.transfer.sync import opened
from ..shell.asking import dataset_base
from ..shell.files import INPUT
from ..shell.output import (
    DAMAGED,
    DONE,
    MISSING,
    json_option,
    print_json,
)
from ..shell.tokens import any_token, token_at

if TYPE_CHECKING:
    from odf_protocol.trust.attestations import Attestation

WORDS = ("ingestion", "execution", "replay", "endorsement")
MOST_BYTES = 64 * 1024 * 1024
"""Limit of a file of attestations."""


@click.group()
def attestations() -> None:
    """Show, check and add what nodes and people signed of the blocks of a dataset."""


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--block", metavar="BLOCK", help="Only of this block."),
        click.option("--by", metavar="KEY", help="Only by this key, did:key:…"),
        click.option("--claim", type=click.Choice(WORDS), help="Only of this kind."),
    ):
        command = option(command)
    return command


@attestations.command("list")
@click.argument("where", metavar="DATASET")
@_filters
@any_token
@json_option
def list_(where: str, token: str | None, as_json: bool, **wanted: str | None) -> None:
    """List the attestations of DATASET: kind, block, key, time, node."""
    token = token_at(where, token)
    from odf_protocol.trust.attestations import replayers, retired_of

    dataset = _chain(where, token).dataset
    found = list(_found(where, token, dataset))
    said = ((each.claim, each.signer, retired_of(each.said)) for each in found)
    replayed = sorted(map(did_key, replayers(said)))
    shown = [_data(each) for each in found if _is_wanted(each, **wanted)]
    if as_json:
        print_json({"attestations": shown, "replayedBy": replayed})
        return
    for each in shown:
        click.echo(_line(each))
    if replayed:
        keys = "key" if len(replayed) == 1 else "keys"
        click.echo(f"replayed with the same result by {len(replayed)} other {keys}")


@attestations.command()
@click.argument("where", metavar="DATASET")
@_filters
@any_token
@json_option
@click.pass_context
def verify(
    ctx: click.Context, /, where: str, token: str | None, as_json: bool, **wanted: str | None
) -> None:
    """Check that attestations of DATASET are signed, and about the very blocks of its chain.

    With --by, --claim and --block, ask whether there is such a one: ends with exit code 3 if there
    is none. Ends with 6 if one is about other bytes than those of its block. Whose a key is you
    have to know: `odf-node trust list` shows the keys of logs that you have seen.
    """
    good, elsewhere, bad = list[dict[str, Any]](), 0, list[str]()
    token = token_at(where, token)
    its = _chain(where, token)
    for each in _found(where, token, its.dataset):
        if not _is_wanted(each, **wanted):
            continue
        block = its.blocks.get(each.block)
        if block is None:
            elsewhere += 1
            continue
        try:
            each.require(its.dataset, block)
        except BadInput as wrong:
            bad.append(wrong.message)
        else:
            good.append(_data(each))
    if as_json:
        print_json({"good": good, "bad": bad, "elsewhere": elsewhere})
    else:
        for line in (*map(_line, good), *(f"NOT GOOD: {one_line(why)}" for why in bad)):
            click.echo(line)
        click.echo(f"{len(good)} good, {len(bad)} not, {elsewhere} about blocks not in the chain")
    ctx.exit(DAMAGED if bad else DONE if good else MISSING)


@attestations.command()
@click.argument("where", metavar="DATASET")
@click.argument("file", type=INPUT)
@any_token
@json_option
def add(where: str, file: Path, token: str | None, as_json: bool) -> None:
    """Add the attestations in FILE, an envelope a line, to DATASET on a node or in a folder."""
    from odf_protocol.trust.attestations import Attestation

    from ...client.proofs.attestations import checked, file_of, posted

    with file.open("rb") as stream:
        raw = stream.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise BadInput("AttestationsTooLarge", f"{file} has more than {MOST_BYTES} bytes")
    lines = [line for line in raw.split(b"\n") if line.strip()]
    location = Location.parse(where)
    if location.path is not None:
        its = file_of(location.path)
        count = its.add([checked(line, its.dataset) for line in lines])
    else:
        found = [Attestation.parse(line) for line in lines]
        with open_http() as http:
            api = NodeApi(dataset_base(where), token_at(where, token), http=http)
            count = sum(new for new, _ in posted(api, found))
    print_json({"added": count}) if as_json else click.echo(f"{count} added")


@dataclass(frozen=True, slots=True)
class _Chain:
    dataset: DatasetId
    blocks: Mapping[Multihash, bytes]


def _chain(where: str, token: str | None) -> _Chain:
    """Read the blocks of a dataset, wherever it is."""
    with opened(Location.parse(where), token, whole=True) as repository:
        blocks = ChainReader(repository).chain(repository.head())
    seed = blocks[0].event
    if not isinstance(seed, Seed):
        raise Damaged("NoSeed", "the chain does not begin with a Seed")
    return _Chain(seed.dataset_id, {block.hash: block.raw for block in blocks})


def _is_wanted(each: Attestation, *, block: str | None, by: str | None, claim: str | None) -> bool:
    """Return whether it is of this kind, by this key, about this block."""
    shown = (str(each.block), did_key(each.signer), each.claim.word)
    asked = zip((block, by, claim), shown, strict=True)
    return all(wanted in (None, its) for wanted, its in asked)


def _found(where: str, token: str | None, dataset: DatasetId) -> Iterator[Attestation]:
    """Yield what a folder has, or a node."""
    from ...client.proofs.attestations import AttestationFile, pages

    location = Location.parse(where)
    with open_http() as http:
        if location.path is not None:
            found: Iterable[Attestation] = AttestationFile(location.path, dataset).all()
        else:
            api = NodeApi(dataset_base(where), token, http=http)
            found = chain.from_iterable(page for page, _ in pages(api, dataset))
        yield from found


def _data(each: Attestation) -> dict[str, Any]:
    return {
        "hash": str(each.id),
        "claim": each.claim.word,
        "block": str(each.block),
        "signer": did_key(each.signer),
        "at": str(each.at),
        "said": dict(each.said),
    }


def _line(shown: Mapping[str, Any]) -> str:
    node = one_line(str(shown["said"].get("node", "")))
    return f"{shown['claim']} {shown['block']} {shown['signer']} {shown['at']} {node}".rstrip()
