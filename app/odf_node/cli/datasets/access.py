"""Commands `access` and `webhook`: who may do what with a dataset, and who is told of its blocks.

`odf-node access`: maintainers of a dataset decide who may read or change it.

`odf-node webhook`: addresses that the node notifies of new blocks.

`odf-node sharing`: make profile files for recipients of a node's datasets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import click

from odf_protocol.errors import Conflict
from odf_protocol.instant import Instant
from odf_storage.stores.ports.values import Scope

from ...client.nodes.home import write_file
from ...client.nodes.limits import in_columns, one_line
from ..machine.admin import OWN, parse_expiry
from ..shell.asking import (
    Found,
    ask,
    say,
    say_each,
    say_removed,
)
from ..shell.output import json_option, print_json
from ..shell.tokens import token_option

F = TypeVar("F", bound=Callable[..., Any])
ROLES = ("reader", "editor", "maintainer")


def _dataset(command: F) -> F:
    for decorate in (json_option, token_option, click.argument("url", metavar="DATASET")):
        command = decorate(command)
    return command


@click.group()
def access() -> None:
    """Set who may read or change a dataset: its visibility, and the roles of accounts.

    A reader reads rows. An editor also posts rows. A maintainer also decides about sources, names
    and access. DATASET is a URL or REPOSITORY/NAME.
    """


@access.command()
@_dataset
@click.argument("account")
@click.argument("role", type=click.Choice(ROLES))
def grant(url: str, account: str, role: str, token: str | None, as_json: bool) -> None:
    """Give ACCOUNT a role at DATASET. The new role replaces the present one."""
    given = ask(url, token, "PUT", _path(account), {"role": role})
    say(given, _role_line, as_json=as_json)


@access.command("list")
@_dataset
def list_(url: str, token: str | None, as_json: bool) -> None:
    """Show visibility, owner and roles of DATASET."""
    found = ask(url, token, "GET", "access")
    if as_json:
        print_json(found)
        return
    rows = [[str(found.get("owner")), "owner"]]
    rows += [[str(one.get("accountName")), str(one.get("role"))] for one in found.get("roles", ())]
    click.echo(one_line(str(found.get("visibility"))))
    for line in in_columns(rows):
        click.echo(line)


@access.command()
@_dataset
@click.argument("account")
def revoke(url: str, account: str, token: str | None, as_json: bool) -> None:
    """Remove the role of ACCOUNT at DATASET."""
    ask(url, token, "DELETE", _path(account))
    say_removed(account, as_json=as_json)


@access.command()
@_dataset
def public(url: str, token: str | None, as_json: bool) -> None:
    """Let everybody read DATASET who may use its node."""
    _make(url, token, "public", as_json=as_json)


@access.command()
@_dataset
def private(url: str, token: str | None, as_json: bool) -> None:
    """Let only its owner, accounts with a role and administrators read DATASET."""
    _make(url, token, "private", as_json=as_json)


def _make(url: str, token: str | None, visibility: str, *, as_json: bool) -> None:
    changed = ask(url, token, "PUT", "visibility", {"visibility": visibility})
    say(changed, lambda found: one_line(f"{url} is {found.get('visibility')}"), as_json=as_json)


def _role_line(found: Found) -> str:
    return one_line(f"{found.get('accountName')} is {found.get('role')}")


def _path(account: str) -> str:
    return f"access/{quote(account, safe='')}"


@click.group()
def webhook() -> None:
    """Manage your webhooks at DATASET: signed requests that report new blocks."""


@webhook.command("add")
@click.argument("url", metavar="DATASET")
@click.argument("address", metavar="ADDRESS")
@click.option(
    "--since", metavar="BLOCK", help="Tell what is behind it, or `beginning`; default: the head."
)
@token_option
@json_option
def add(url: str, address: str, *, since: str | None, token: str | None, as_json: bool) -> None:
    """Have the node notify ADDRESS. The secret that signs the requests is shown only once."""
    made = ask(url, token, "POST", "webhooks", {"url": address, "since": since})
    _say_secret(made, as_json=as_json)


@webhook.command("list")
@click.argument("url", metavar="DATASET")
@token_option
@json_option
def listed(url: str, token: str | None, as_json: bool) -> None:
    """List the webhooks with their states."""
    found = ask(url, token, "GET", "webhooks")
    say_each(found, "webhooks", _line, as_json=as_json)


@webhook.command("show")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def show(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Show a webhook and its newest attempts."""
    found = ask(url, token, "GET", f"webhooks/{name}")
    say(found, _line, as_json=as_json)
    if not as_json:
        for attempt in found.get("attempts", []):
            click.echo(_attempt_line(attempt))


@webhook.command("ping")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def ping(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Send an empty delivery, and print the outcome."""
    attempt = ask(url, token, "POST", f"webhooks/{name}/ping")
    say(attempt, _attempt_line, as_json=as_json)


@webhook.command("replay")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@click.option(
    "--since", metavar="BLOCK", help="Or `beginning`; default: go on where deliveries ended."
)
@token_option
@json_option
def replay(url: str, name: str, *, since: str | None, token: str | None, as_json: bool) -> None:
    """Deliver the blocks after a given one again, or resume a paused webhook."""
    query = {} if since is None else {"since": since}
    say(ask(url, token, "POST", f"webhooks/{name}/replay", **query), _line, as_json=as_json)


@webhook.command("rotate")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def rotate(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Sign with a new secret, which is shown only once. For a while the old secret signs, too."""
    made = ask(url, token, "POST", f"webhooks/{name}/secret")
    _say_secret(made, as_json=as_json)


@webhook.command("remove")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def remove(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Remove a webhook; the node delivers nothing more to it."""
    ask(url, token, "DELETE", f"webhooks/{name}")
    say_removed(name, as_json=as_json)


def _say_secret(made: dict[str, Any], *, as_json: bool) -> None:
    """Print a webhook and its secret, which the node does not show again."""
    say(made, _line, as_json=as_json)
    if not as_json:
        click.echo(f"secret  {made['secret']}")


def _line(each: dict[str, Any]) -> str:
    problem = each["problem"] or {}
    columns = (each["id"], f"{each['state']:<6}", each["url"], problem.get("message", ""))
    return "  ".join(columns).rstrip()


def _attempt_line(attempt: dict[str, Any]) -> str:
    answered = attempt["error"] or "taken"
    columns = (attempt["at"], str(attempt["status"] or "-"), answered, attempt["message"])
    return "  ".join(columns)


PROFILE = "delta-sharing/profile"


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
        raise Conflict("ProfileExists", f"{out} exists; remove it, or name another file with --out")
    ends = str(parse_expiry(expires, Instant(time.time_ns())))
    wanted = {"label": label, "scopes": [Scope.READ.value], "expiresAt": ends, "dataset": dataset}
    made = ask(node, token, "POST", OWN, wanted)
    told = ask(node, str(made["token"]), "GET", PROFILE)
    write_file(out, {**told, "expirationTime": ends})
    if as_json:
        print_json({"path": str(out), "token": made["id"], "expiresAt": ends})
    else:
        click.echo(f"{out}: token {made['id']}, until {ends}")
