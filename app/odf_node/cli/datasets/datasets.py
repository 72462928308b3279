"""`odf-node dataset`: create, list, show, change and delete datasets of a node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from odf_protocol.codec.manifests import MAX_TEXT_BYTES, load_snapshots, to_yaml

from ...client.nodes.home import HOME
from ...client.nodes.http import open_http
from ...client.nodes.limits import (
    age_text,
    in_columns,
    one_line,
    size_text,
    spark_text,
)
from ...client.nodes.node_api import NodeApi
from ...client.nodes.remotes import node_base
from ...client.transfer.sync import create_all
from ..shell.asking import dataset_base
from ..shell.files import read_file
from ..shell.neighbours import suggesting
from ..shell.output import json_option, print_json
from ..shell.tokens import token_option
from .publish import init
from .trial import trial_text, try_all

DRAWN = 40
"""Number of newest slices whose rows `show` draws."""
F = TypeVar("F", bound=Callable[..., Any])


_node_option = click.option(
    "--node", metavar="URL", required=True, envvar=HOME, help=f"Default: ${HOME}."
)


def _named(function: F) -> F:
    """Add the argument for a dataset, `--node`, `--token` and `--json`."""
    for decorate in (json_option, token_option, click.argument("url", metavar="DATASET")):
        function = decorate(function)
    return function


@click.group()
def dataset() -> None:
    """Create, list, show, change and delete datasets of a node."""


dataset.add_command(init)


@dataset.command()
@click.argument("manifests", metavar="MANIFEST...", nargs=-1, required=True)
@_node_option
@click.option(
    "--visibility",
    type=click.Choice(["private", "public"]),
    default="private",
    show_default=True,
    help="Who may read the datasets.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be created, and create nothing.")
@click.option("--sample", metavar="FILE", help="With --dry-run: rows that a root is tried on.")
@click.option("--sample-of", metavar="NAME", help="Which root the sample is for, if several are.")
@token_option
@json_option
def create(
    manifests: tuple[str, ...],
    node: str,
    visibility: str,
    dry_run: bool,
    sample: str | None,
    sample_of: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Create the datasets that DatasetSnapshot MANIFESTs describe (YAML or JSON; `-` is stdin).

    You may give several manifests in any order, also as documents of one file. The command creates
    inputs first. If the node refuses a dataset, the command deletes those it created before. The
    node checks the query of a derivative before it creates the dataset.

    A dry run tries all of them: roots on the rows of --sample, derivatives on the first rows of
    their inputs. It prints the columns and some rows, or the error.
    """
    if not dry_run and (sample or sample_of):
        raise click.UsageError("--sample and --sample-of are for --dry-run")
    texts = [read_file(one, MAX_TEXT_BYTES) for one in manifests]
    snapshots = [each for text in texts for each in load_snapshots(text)]
    with open_http() as http:
        api = NodeApi(node_base(node), token, http=http)
        if dry_run:
            found = try_all(api, snapshots, sample, sample_of)
            if as_json:
                print_json({"dryRun": True, "datasets": found})
            else:
                click.echo(trial_text(found))
            return

        def made(text: bytes) -> dict[str, Any]:
            return api.create_dataset(text, visibility=visibility)

        def gone(one: dict[str, Any]) -> None:
            NodeApi(dataset_base(str(one["url"])), token, http=http).ask("DELETE", "")

        alone = len(snapshots) == 1 and len(texts) == 1
        created = [made(texts[0])] if alone else create_all(snapshots, made, gone)
    if as_json:
        print_json(created[0] if alone else created)
    for one in () if as_json else created:
        click.echo(f"created {one.get('alias')} at {one.get('url')}\n{one.get('id')}")
        print_findings(one)


@dataset.command("list")
@_node_option
@click.option(
    "--search",
    metavar="WORDS",
    help="Only those with all words in name, description, keywords, columns or license.",
)
@click.option(
    "--kind", type=click.Choice(["root", "derivative"]), help="Only datasets of this kind."
)
@click.option("--account", metavar="NAME", help="Only datasets of this account.")
@click.option(
    "--visibility", type=click.Choice(["public", "private"]), help="Only public or private ones."
)
@click.option("--keyword", metavar="TEXT", help="Only datasets with this keyword.")
@click.option("--license", metavar="NAME", help="Only datasets with this short name of a license.")
@click.option("--since", metavar="TIME", help="Only datasets that changed since a day or instant.")
@click.option(
    "--sort",
    type=click.Choice(["name", "updated", "rows", "bytes", "relevance"]),
    help="Order of the list; default: name, and of a search what fits it best.",
)
@click.option(
    "--order",
    type=click.Choice(["asc", "desc"]),
    help="Direction; names begin with a, all else with the most or best.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also show the id of each dataset.")
@token_option
@json_option
def list_(node: str, verbose: bool, token: str | None, as_json: bool, **wanted: str | None) -> None:
    """List the datasets that your account may see: rows, size, age of the last block."""
    with open_http() as http:
        api = NodeApi(node_base(node), token, http=http)
        found = list(api.datasets(details=True, **wanted))
    if as_json:
        print_json(found)
        return
    now = datetime.now(UTC)
    for line in in_columns([_listed(entry, now, verbose=verbose) for entry in found], right=(1, 2)):
        click.echo(line)


def print_findings(answer: dict[str, Any]) -> None:
    """Print the warnings about a definition that the node accepted: its columns and its queries."""
    for text in answer.get("warnings") or ():
        click.echo(f"warning: {one_line(str(text), 1000)}")
    sources = answer.get("sources") or {}
    of_sources = {f"the query of source {name}": found for name, found in sources.items()}
    for what, found in {"the transform": answer.get("transform"), **of_sources}.items():
        if found is None:
            continue
        if found.get("outcome") == "unknown":
            click.echo(f"warning: {what} was not tried: {one_line(str(found.get('reason')))}")
        for text in found.get("warnings") or ():
            click.echo(f"warning: {one_line(text, 1000)}")


def _listed(entry: dict[str, Any], now: datetime, *, verbose: bool) -> list[str]:
    cells = [
        str(entry.get("alias")),
        f"{entry['records']:,}" if "records" in entry else "",
        size_text(int(entry["dataSize"])) if "dataSize" in entry else "",
        age_text(str(entry.get("updatedAt", "")), now),
        str(entry.get("kind")),
        str(entry.get("visibility")),
    ]
    return [*cells, str(entry.get("id"))] if verbose else cells


@dataset.command()
@_named
def show(url: str, token: str | None, as_json: bool) -> None:
    """Show the current state of a dataset: head, sizes, sources, schema, and a drawing of the rows
    of its newest slices."""
    base = dataset_base(url)
    with open_http() as http, suggesting(base, token, http):
        api = NodeApi(base, token, http=http)
        shown = api.dataset()
        files = [] if as_json else next(api.file_pages(shown.get("head")), {}).get("files", [])
    if as_json:
        print_json(shown)
        return
    click.echo(to_yaml(shown), nl=False)
    if rows := [int(each["records"]) for each in files[:DRAWN][::-1]]:
        click.echo(
            f"# {spark_text(rows)} rows of the newest {len(rows)} slice(s), {max(rows):,} at most"
        )


@dataset.command()
@_named
def dependencies(url: str, token: str | None, as_json: bool) -> None:
    """Show the inputs of a dataset, and the datasets that are computed from it."""
    base = dataset_base(url)
    with open_http() as http, suggesting(base, token, http):
        found = NodeApi(base, token, http=http).dependencies()
    if as_json:
        print_json(found)
        return
    for way, sign in (("upstream", "<-"), ("downstream", "->")):
        for item in found.get(way, ()):
            step = "  " * (int(item.get("depth", 1)) - 1)
            click.echo(one_line(f"{step}{sign} {item.get('alias')}  {item.get('id')}"))


@dataset.command()
@_named
@click.argument("manifest", metavar="MANIFEST")
@click.option("--expected-head", metavar="HASH", help="Refuse if the head is another one.")
@click.option("--dry-run", is_flag=True, help="Show what would be appended, and append nothing.")
def append(
    url: str,
    manifest: str,
    expected_head: str | None,
    dry_run: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Append the event in MANIFEST (YAML or JSON; `-` is stdin), with or without the envelope
    MetadataEvent. `odf-node describe` writes those about texts for you.

    The event is SetInfo, SetLicense, SetAttachments, SetTransform, a source and the like. Events
    with data are not accepted.
    """
    text = read_file(manifest, MAX_TEXT_BYTES)
    with open_http() as http:
        answer = NodeApi(dataset_base(url), token, http=http).append(
            text, expected_head=expected_head, dry_run=dry_run
        )
    if as_json:
        print_json(answer)
    elif dry_run:
        click.echo(to_yaml(answer), nl=False)
    else:
        said = "appended" if answer.get("changed", True) else "nothing changed"
        click.echo(f"{said}; the head of {answer.get('blocks')} blocks is {answer.get('head')}")
        print_findings(answer)


@dataset.command()
@_named
@click.argument("name", metavar="NEW-NAME")
def rename(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Rename a dataset; its id and its blocks stay as they are."""
    _change(url, token, "name", name, as_json=as_json)


@dataset.command()
@_named
@click.argument("visibility", type=click.Choice(["private", "public"]))
def visibility(url: str, visibility: str, token: str | None, as_json: bool) -> None:
    """Set who may read a dataset: everybody, or only its owner, accounts with a role and
    administrators.

    A single-tenant node gives all its datasets to its one account.
    """
    _change(url, token, "visibility", visibility, as_json=as_json)


@dataset.command()
@_named
@click.option("--expected-head", metavar="HASH", help="Refuse if the head is another one.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(
    url: str,
    expected_head: str | None,
    yes: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Delete a dataset from its node; copies elsewhere stay.

    The node refuses while one of its derivatives reads the dataset.
    """
    if not yes:
        click.confirm(f"This will delete {url} with all its data. Go on?", abort=True, err=True)
    with open_http() as http:
        NodeApi(dataset_base(url), token, http=http).ask("DELETE", "", expectedHead=expected_head)
    if as_json:
        print_json({"deleted": url})
    else:
        click.echo(f"deleted {url}")


def _change(url: str, token: str | None, field: str, value: str, *, as_json: bool) -> None:
    with open_http() as http:
        answer = NodeApi(dataset_base(url), token, http=http).ask("PUT", field, {field: value})
    if as_json:
        print_json(answer)
    else:
        shown = answer.get("alias", answer.get(field))
        click.echo(one_line(f"{url} is {shown} now"))
