"""`odf-node describe`: set description, keywords, license and README of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from odf_protocol.codec.manifests import MAX_TEXT_BYTES, to_yaml

from ..client.http import open_http
from ..client.node_api import NodeApi
from .blocks import read_file
from .ingest import dataset_base
from .neighbours import suggesting
from .output import json_option, print_json
from .tokens import token_option

README = "README.md"
LICENSE_PAGE = "https://spdx.org/licenses/{}.html"
KEPT = "attachments,info,license"


@click.command()
@click.argument("url", metavar="DATASET")
@click.option("--description", metavar="TEXT", help="One sentence about the dataset.")
@click.option(
    "--keyword", "keywords", multiple=True, metavar="WORD", help="May be repeated; replaces all."
)
@click.option("--license", "license_", metavar="ID", help="SPDX id, such as CC-BY-4.0.")
@click.option("--license-name", metavar="NAME", help="With --license; default: the id.")
@click.option("--license-url", metavar="URL", help="With --license; default: its page at SPDX.")
@click.option(
    "--readme", metavar="FILE", help="Text in Markdown for the page of the dataset; `-` is stdin."
)
@click.option("--dry-run", is_flag=True, help="Show the events, and append nothing.")
@token_option
@json_option
def describe(
    url: str,
    *,
    description: str | None,
    keywords: tuple[str, ...],
    license_: str | None,
    license_name: str | None,
    license_url: str | None,
    readme: str | None,
    dry_run: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Set description, keywords, license and README of DATASET. What you do not give stays.

    Each becomes an event of the chain, so earlier texts stay in the history.
    """
    if (license_name or license_url) and license_ is None:
        raise click.UsageError("--license-name and --license-url are for --license")
    if not (description is not None or keywords or license_ or readme):
        raise click.UsageError("give --description, --keyword, --license or --readme")
    text = None if readme is None else _text_of(readme)
    base = dataset_base(url)
    with open_http() as http, suggesting(base, token, http):
        api = NodeApi(base, token, http=http)
        known = api.ask("GET", "metadata", include=KEPT).get("output", {})
        events: list[dict[str, Any]] = []
        if description is not None or keywords:
            given = {"description": description, "keywords": list(keywords) or None}
            info = known.get("info", {}) | {key: one for key, one in given.items() if one}
            events.append({"kind": "SetInfo", **info})
        if license_ is not None:
            events.append(_license(license_, license_name, license_url))
        if text is not None:
            events.append(_with_readme(known.get("attachments", {}), text))
        for event in events:  # all are checked before the first one is appended
            api.append(msgspec.json.encode(event), dry_run=True)
        done = [api.append(msgspec.json.encode(one)) for one in events if not dry_run]
    if as_json:
        print_json(
            {"events": events, "dryRun": dry_run, "head": done[-1]["head"] if done else None}
        )
    elif dry_run:
        click.echo("---\n".join(to_yaml(event) for event in events), nl=False)
    else:
        kinds = ", ".join(str(event["kind"]) for event in events)
        click.echo(f"appended {kinds}; the head is {done[-1].get('head')}")


def _text_of(file: str) -> str:
    """Return the text of a file. Raises `click.UsageError`: it is no UTF-8."""
    try:
        return read_file(file, MAX_TEXT_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{Path(file).name} is no text in UTF-8") from None


def _license(name: str, full: str | None, url: str | None) -> dict[str, Any]:
    return {
        "kind": "SetLicense",
        "shortName": name,
        "name": full or name,
        "spdxId": name,
        "websiteUrl": url or LICENSE_PAGE.format(name),
    }


def _with_readme(known: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the event with all attachments, where the README has this text."""
    items = known.get("attachments", {}).get("items", [])
    others = [one for one in items if str(one.get("path")).lower() != README.lower()]
    readme = {"path": README, "content": text}
    return {
        "kind": "SetAttachments",
        "attachments": {"kind": "Embedded", "items": [readme, *others]},
    }
