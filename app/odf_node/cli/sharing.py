"""`odf-node sharing`: make profile files for recipients of a node's datasets."""

from __future__ import annotations

import time
from pathlib import Path

import click

from odf_protocol.errors import Conflict
from odf_protocol.instant import Instant
from odf_storage.stores.ports.values import Scope

from ..client.personal_files import write_file
from .admin import OWN, parse_expiry
from .dataset_requests import ask
from .output import json_option, print_json
from .tokens import token_option

PROFILE = "delta-sharing/profile"


class ProfileExists(Conflict):
    """A file of that name exists; it may contain a token that somebody uses."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists; remove it, or name another file with --out")


@click.group()
def sharing() -> None:
    """Make files that let others read datasets of a node by Delta Sharing."""


@sharing.command()
@click.argument("node", metavar="NODE")
@click.option("--expires", default="90d", show_default=True, help="When it ends, as of a token.")
@click.option("--label", default="Delta Sharing", show_default=True, help="Whom it is for.")
@click.option("--dataset", help="Only for this dataset: ACCOUNT/NAME, or NAME of a single tenant.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("config.share"),
    show_default=True,
    help="The file.",
)
@token_option
@json_option
def profile(
    node: str,
    expires: str,
    label: str,
    dataset: str | None,
    out: Path,
    token: str | None,
    as_json: bool,
) -> None:
    """Create a token of your account that reads, and write it to a profile file, which only you can
    read.

    NODE is a URL or the name of a repository at which you are logged in. `token list` shows the
    token, `token revoke` revokes it.
    """
    if out.exists():
        raise ProfileExists(out)
    ends = str(parse_expiry(expires, Instant(time.time_ns())))
    wanted = {"label": label, "scopes": [Scope.READ.value], "expiresAt": ends, "dataset": dataset}
    made = ask(node, token, "POST", OWN, wanted)
    told = ask(node, str(made["token"]), "GET", PROFILE)
    write_file(out, {**told, "expirationTime": ends})
    if as_json:
        print_json({"path": str(out), "token": made["id"], "expiresAt": ends})
    else:
        click.echo(f"{out}: token {made['id']}, until {ends}")
