"""`odf-node login`, `logout` and `whoami`: log in at a node by a page in the browser."""

from __future__ import annotations

import time
import webbrowser
from typing import Any

import click

from odf_protocol.errors import Refused

from ..client.device_login import await_session, begin_login
from ..client.environment import HOME
from ..client.http import open_http
from ..client.logins import Login, Logins
from ..client.node_api import NodeApi
from ..client.remotes import Repositories
from ..client.targets import named
from ..client.text import one_line
from ..client.urls import node_base
from .output import json_option, print_json
from .tokens import token_of_node


class NotLoggedIn(Refused):
    """This person has no valid login at the node, or at any node."""


@click.command()
@click.argument("node", metavar="[NODE]", envvar=HOME)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser of this machine.")
@json_option
def login(node: str, opens: bool, as_json: bool) -> None:
    """Log in at NODE, a URL or the name of a repository.

    Prints the address of a page and a code; type the code and your password there to log in this
    command line. The token is stored in a file that only you can read, and is sent to this node
    only.
    """
    base = _base_of(node)
    with open_http() as http:
        api = NodeApi(base, http=http)
        waiting = begin_login(api)
        click.echo(f"To log in, open this page in a browser:\n\n  {waiting.address}\n", err=True)
        if waiting.code:
            click.echo(f"and type the code {waiting.code}\n", err=True)
        click.echo(f"Waiting up to {_duration(waiting.expires_in_s)} …", err=True)
        if opens and not webbrowser.open(waiting.address):
            click.echo("no browser could be opened", err=True)
        session = await_session(api, waiting)
        account = _account(NodeApi(base, session.token, http=http))["accountName"]
    kept = Logins().keep(base, session.token, account, session.expires_in_s)
    if as_json:
        print_json(_shown(base, kept))
    else:
        click.echo(f"logged in at {base} as {account} until {kept.expires_at}")


@click.command()
@click.argument("node", metavar="[NODE]", required=False)
@click.option("--all", "everywhere", is_flag=True, help="At all nodes.")
@json_option
def logout(node: str | None, everywhere: bool, as_json: bool) -> None:
    """Forget the login at NODE.

    The command does not inform the node: a session ends when it expires, or when the password of
    its account changes.
    """
    if (node is None) != everywhere:
        raise click.UsageError("name a node, or --all")
    logins = Logins()
    left = list(logins.all()) if node is None else [_base_of(node)]
    forgotten = [base for base in left if logins.forget(base)]
    if node is not None and not forgotten:
        raise NotLoggedIn(f"there is no login at {left[0]}", node=left[0])
    if as_json:
        print_json({"forgotten": forgotten})
    for base in () if as_json else forgotten:
        click.echo(f"logged out at {base}")


@click.command()
@click.argument("node", metavar="[NODE]", required=False)
@token_of_node
@json_option
def whoami(node: str | None, token: str | None, as_json: bool) -> None:
    """Show the account that commands use at NODE, as NODE reports it; without it, list your logins.

    Ends with exit code 4 when you are not logged in.
    """
    if node is None:
        _show_logins(as_json=as_json)
        return
    base = _base_of(node)
    if token is None:
        raise NotLoggedIn(f"nobody is logged in at {base}; odf-node login {node}", node=base)
    with open_http() as http:
        found = _account(NodeApi(base, token, http=http))
    if as_json:
        print_json({"node": base, **found})
    else:
        click.echo(f"{one_line(found['accountName'])} at {base}")


def _show_logins(*, as_json: bool) -> None:
    logins = Logins()
    valid = {base: one for base, one in logins.all().items() if not one.is_over(time.time())}
    if not valid:
        raise NotLoggedIn("nobody is logged in anywhere; odf-node login NODE")
    if as_json:
        print_json([_shown(base, one) for base, one in valid.items()])
        return
    for base, one in valid.items():
        click.echo(f"{one_line(one.account)} at {base} until {one.expires_at}")


def _base_of(node: str) -> str:
    """Return the URL of a node, given as a URL or as the name of a repository."""
    found = named(node, Repositories())
    if found is None:
        return node_base(node)
    repository, path = found
    if path:
        raise click.UsageError(f"{node} is a dataset; name the node alone")
    return repository.base


def _account(api: NodeApi) -> dict[str, str]:
    me: dict[str, Any] = api.look("accounts/me")
    return {"accountName": one_line(str(me.get("accountName"))), "accountId": str(me.get("id"))}


def _shown(base: str, one: Login) -> dict[str, str]:
    return {"node": base, "accountName": one.account, "expiresAt": one.expires_at}


def _duration(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"
