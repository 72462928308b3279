"""`odf-node publish` and `dataset init`: propose a dataset for a file, and publish it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..client.environment import HOME
from ..client.http import open_http
from ..client.new_dataset import kept_if_filled, new_dataset, node_and_alias
from ..client.node_api import NodeApi
from ..client.text import one_line
from ..client.urls import Location, node_base
from ..proposal.manifest import to_manifest
from ..proposal.sample import MEDIA_TYPES
from .ingest import post_file, receipt_text
from .output import json_option, print_json
from .progress_bars import stepwise
from .proposals import choice_options, looked_at, proposal_data, proposal_text
from .tokens import token_option

_FILE = click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))


def _placed(command: Callable[..., None]) -> Callable[..., None]:
    """Let NAME be a URL, which says the node, too."""

    @functools.wraps(command)
    def placed(*, name: str | None, node: str | None, **given: Any) -> None:
        if name is not None and "://" in name:
            node, name = node_and_alias(Location.parse(name).base)
        if node is None:
            raise click.UsageError(f"name the node by --node or ${HOME}, or give a URL as NAME")
        command(name=name, node=node, **given)

    return placed


@click.command()
@_FILE
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--node", metavar="URL", envvar=HOME, help=f"Default: ${HOME}.")
@click.option("--visibility", type=click.Choice(["private", "public"]), default="private")
@click.option("--yes", is_flag=True, help="Do not ask; a question that is open is an error.")
@click.option("--dry-run", is_flag=True, help="Show the proposal, and make nothing.")
@choice_options
@_placed
@token_option
@json_option
def publish(
    file: Path,
    name: str | None,
    *,
    node: str,
    visibility: str,
    yes: bool,
    dry_run: bool,
    token: str | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Publish FILE as a new dataset: propose columns, key and event time, ask, then post.

    NAME is [account/]name, or the URL that the dataset is to have.

    FILE is csv, tsv, json, ndjson, geojson, parquet or a zipped shapefile, or one of these as .gz,
    .bz2, .zst or .zip. The command reads the beginning of FILE to make the proposal. The node reads
    the whole FILE. If a row does not fit, the node refuses FILE and names the line of the row, and
    the command deletes the new dataset.
    """
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json asks nothing: add --yes or --dry-run")
    proposal = looked_at(file, name, **chosen)
    if not as_json:
        click.echo(proposal_text(proposal, file), err=not dry_run)
    if yes:
        proposal.check_decided()
    base = node_base(node)
    with open_http() as http:
        api = NodeApi(base, token, http=http)
        text = to_manifest(proposal, file.name).encode()
        if dry_run:
            checked = api.create_dataset(text, visibility=visibility, dry_run=True)
            if as_json:
                print_json({**proposal_data(proposal), "dryRun": True, "alias": checked["alias"]})
            return
        if not yes:
            click.confirm(f"\nPublish this as {proposal.name} at {base}?", abort=True, err=True)
        made = new_dataset(http, base, token, text, proposal.snapshot(), visibility=visibility)
        api = NodeApi(made.base, token, http=http)
        with kept_if_filled(made, api), stepwise(quiet=as_json) as step:
            receipt = post_file(
                api,
                str(file),
                step,
                quiet=as_json,
                media_type=MEDIA_TYPES[proposal.format],
                expected_head=made.head,
                on_bad_rows=proposal.on_bad_rows if proposal.on_bad_rows != "fail" else None,
            )
    if as_json:
        print_json({"url": made.url, "alias": made.alias, "receipt": receipt})
        return
    click.echo(receipt_text(receipt))
    click.echo(f"\n{one_line(made.url, 1000)}\n\n{_loading(made.url)}")


@click.command()
@_FILE
@click.argument("name", metavar="[NAME]", required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: standard output.")
@choice_options
@json_option
def init(
    file: Path, name: str | None, output: Path | None, *, as_json: bool, **chosen: Any
) -> None:
    """Write the manifest of a dataset for FILE, as `odf-node publish` would make it.

    Pass the manifest to `dataset create`. Its comments describe FILE and list open questions.
    """
    proposal = looked_at(file, name, **chosen)
    text = to_manifest(proposal, file.name)
    if as_json:
        print_json(proposal_data(proposal))
    if output is None and not as_json:
        click.echo(text, nl=False)
    if output is None:
        return
    with output.open("x", encoding="utf-8") as out:
        out.write(text)
    click.echo(f"wrote {output}", err=True)


def _loading(url: str) -> str:
    """Return the text that shows how programs read the dataset, and how to post more rows."""
    plain = one_line(url, 1000)
    return f"""\
load it:
  python -c "import odf_node; print(odf_node.open('{plain}').pandas())"
  odf-node read {plain}
post more rows:
  odf-node ingest FILE {plain}"""
