"""`odf-node publish` and `dataset init`: propose a dataset for a file, and publish it.

Helpers of commands that publish files: read a file, add options, show a proposal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from odf_protocol.codec.manifests import manifest, to_data

from ...client.nodes.home import HOME
from ...client.nodes.http import open_http
from ...client.nodes.limits import in_columns, one_line
from ...client.nodes.node_api import NodeApi
from ...client.nodes.remotes import Location, node_base
from ...client.uses.new_dataset import kept_if_filled, new_dataset, node_and_alias
from ...proposal.options import (
    NONE,
    OPTIONS,
    Kind,
    Option,
    chosen,
)
from ...proposal.proposal import Proposal, propose
from ...proposal.sample import (
    MEDIA_TYPES,
    SAMPLE_BYTES,
    SampleFormat,
    sample_of_file,
)
from ...proposal.wire import to_manifest
from ..shell.asking import receipt_text
from ..shell.files import INPUT
from ..shell.output import json_option, print_json, stepwise
from ..shell.tokens import token_option
from .ingest import post_file

F = TypeVar("F", bound=Callable[..., Any])
SHOWN_CHARS = 40
SHOWN_VALUES = 3
_FORMATS = {form.name.lower(): form for form in SampleFormat}


def choice_options(command: F) -> F:
    """Add the options by which a person changes a proposal."""
    look = click.option(
        "--look",
        "mib",
        type=click.IntRange(1, 64),
        default=SAMPLE_BYTES >> 20,
        show_default=True,
        metavar="MIB",
        help="How much of FILE is looked at.",
    )
    form = click.option("--format", "form", type=click.Choice(sorted(_FORMATS)))
    for option in (*reversed([each for one in OPTIONS for each in _OPTIONS[one.kind](one)]), form):
        command = option(command)
    return look(command)


def looked_at(
    file: Path, name: str | None, *, mib: int, form: str | None, **given: Any
) -> Proposal:
    """Return the proposal for a file. Raises the same errors as `sample_of_file` and `propose`.

    Raises:
        click.UsageError: the options contradict each other.
    """
    for option in OPTIONS:
        if option.kind in (Kind.COLUMN, Kind.COLUMNS) and given.pop(f"no_{option.name}"):
            if given[option.name]:
                raise click.UsageError(
                    f"a column and none of them do not go together: {option.flag}"
                )
            given[option.name] = NONE if option.kind is Kind.COLUMN else ()
        elif option.kind is not Kind.COLUMN and given[option.name] == ():
            given[option.name] = None
    choices = chosen(given, name=name)
    return propose(sample_of_file(file, most=mib << 20, form=_FORMATS.get(form or "")), choices)


def _one(option: Option, **more: Any) -> Any:
    return click.option(option.flag, option.name, help=option.about, **more)


def _column(option: Option, **more: Any) -> list[Any]:
    flag = option.flag.removeprefix("--")
    no = click.option(f"--no-{flag}", f"no_{option.name}", is_flag=True, help=option.without)
    return [_one(option, metavar="COLUMN", **more), no]


_OPTIONS: dict[Kind, Callable[[Option], list[Any]]] = {
    Kind.TEXT: lambda option: [_one(option, metavar="TEXT")],
    Kind.COUNT: lambda option: [_one(option, type=click.IntRange(0), metavar="N")],
    Kind.YES_NO: lambda option: [
        click.option(
            f"{option.flag}/--no-{option.flag[2:]}", option.name, default=None, help=option.about
        )
    ],
    Kind.CHOICE: lambda option: [_one(option, type=click.Choice(option.values))],
    Kind.WORDS: lambda option: [_one(option, multiple=True, metavar="WORD")],
    Kind.TYPES: lambda option: [_one(option, multiple=True, metavar="COLUMN=TYPE")],
    Kind.COLUMN: _column,
    Kind.COLUMNS: lambda option: _column(option, multiple=True),
}


def proposal_data(proposal: Proposal) -> dict[str, Any]:
    """Return the proposal as JSON-compatible data: the manifest, and facts about the sample."""
    return {
        "name": proposal.name,
        "format": proposal.format.value,
        "rowsLookedAt": proposal.looked_at,
        "isWhole": proposal.is_whole,
        "key": list(proposal.key),
        "eventTime": proposal.event_time,
        "columns": [
            {
                "name": one.name,
                "type": to_data(one.type),
                "note": one.note or None,
                "firstValues": [value if value is None else str(value) for value in one.values],
            }
            for one in proposal.columns
        ],
        "notes": list(proposal.notes),
        "questions": list(proposal.questions),
        "manifest": manifest("DatasetSnapshot", proposal.snapshot()),
    }


def proposal_text(proposal: Proposal, file: Path) -> str:
    """Return the proposal as text: columns with the first values, key, event time, remarks."""
    rows = "all rows" if proposal.is_whole else f"the first {proposal.looked_at:,} rows"
    seen = f"{rows} looked at" if proposal.looked_at else "no row looked at"
    lines = [f"{file.name}: {proposal.format}, {len(proposal.columns)} columns, {seen}", ""]
    shown = [
        [f"  {one.name}", one.kind, *(_cell(value) for value in one.values[:SHOWN_VALUES])]
        for one in proposal.columns
    ]
    width = max(map(len, shown), default=0)
    lines += _kept(shown, width)
    merge = str(type(proposal.merge).__struct_config__.tag)
    key = ", ".join(proposal.key) or "none"
    lines += ["", f"key: {key} ({merge})", f"event time: {proposal.event_time or 'of the post'}"]
    lines += [f"note: {note}" for note in proposal.notes]
    lines += [f"QUESTION: {question}" for question in proposal.questions]
    return "\n".join(
        [lines[0], *(line if line.startswith("  ") else one_line(line, 500) for line in lines[1:])]
    )


def _kept(rows: list[list[str]], width: int) -> list[str]:
    padded = [[*row, *[""] * (width - len(row))] for row in rows]
    return [f"  {line}" for line in in_columns(padded)]


def _cell(value: Any) -> str:
    return "" if value is None else one_line(str(value), SHOWN_CHARS)


_FILE = click.argument("file", metavar="FILE", type=INPUT)


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

    FILE is csv, tsv, json, ndjson, geojson, parquet, a workbook (xlsx, xlsm, xlsb, xls, ods) or a
    zipped shapefile, or one of these as .gz, .bz2, .zst or .zip. The command reads the beginning of
    FILE to make the proposal. The node reads the whole FILE. If a row does not fit, the node
    refuses FILE and names the line of the row, and the command deletes the new dataset.
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
        notes = list(dict.fromkeys((*proposal.notes, *made.warnings)))
        print_json({"url": made.url, "alias": made.alias, "notes": notes, "receipt": receipt})
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
