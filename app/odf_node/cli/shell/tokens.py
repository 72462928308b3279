"""Resolve the address of a command, and choose the token for it.

`client/targets` says how a dataset is named; a command that takes one has `--node` from here. A
command uses the first of these tokens that exists:

1. `--token`
2. the token of the repository
3. `ODF_NODE_TOKEN`, if the address is on the node at `ODF_NODE_URL`, or, without that setting, on
   this machine
4. the token of a login (`odf-node login`)
5. `ODF_NODE_TOKEN`, if the command line names the address as a node (`--node`, a repository)

A token that was stored for an origin is sent to that origin only.

`odf-node login`, `logout` and `whoami`: log in at a node by a page in the browser.
"""

from __future__ import annotations

import functools
import inspect
import time
import webbrowser
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from odf_protocol.errors import Refused

from ...client.nodes.home import (
    HOME,
    TOKEN,
    Login,
    Logins,
    is_home,
)
from ...client.nodes.http import open_http
from ...client.nodes.limits import one_line
from ...client.nodes.node_api import NodeApi
from ...client.nodes.remotes import NamedRepository, Repositories, node_base
from ...client.nodes.targets import TokenAt, named, read_address
from ...client.uses.device_login import await_session, begin_login
from .output import json_option, print_json

F = TypeVar("F", bound=Callable[..., Any])
ON_A_NODE = "url"
ADDRESSES = (ON_A_NODE, "where")
"""Parameters for the address of a dataset: `url` is on a node, `where` may be a folder."""
NODE = "node"
_KEPT = "odf-node.home"


def token_option(command: F) -> F:
    """Add `--token`. The command gets the token for its address; repository names become URLs."""
    decorated: F = _option(command, is_chosen=True)
    return decorated


def token_of_node(command: F) -> F:
    """Add `--token` like `token_option`, for commands whose address is the address of a node."""
    decorated: F = _option(command, is_chosen=True, is_node=True)
    return decorated


def any_token(command: F) -> F:
    """Add `--token` like `token_option`, for commands that call `token_at` themselves."""
    decorated: F = _option(command, is_chosen=False)
    return decorated


def token_at(address: str, token: str | None, *, is_named: bool = False) -> str | None:
    """Return the token for an address, in the order above.

    `is_named` means that the command line names the address as a node.
    """
    return _chosen(address, token, Repositories(), is_named=is_named)


def tokens_of(token: str | None, repositories: Repositories) -> TokenAt:
    """Return a function like `token_at`, for callers that resolve addresses themselves."""

    def at(address: str, by: NamedRepository | None) -> str | None:
        return _chosen(address, token, repositories, by=by, is_named=by is not None)

    return at


def _chosen(
    address: str,
    token: str | None,
    repositories: Repositories,
    *,
    by: NamedRepository | None = None,
    is_named: bool,
) -> str | None:
    context = click.get_current_context()
    if context.get_parameter_source("token") is ParameterSource.COMMANDLINE:
        return token
    if (own := repositories.token_of_repository(address, by=by)) is not None:
        return own
    if token is not None and is_home(address, context.meta[_KEPT]):
        return token
    return repositories.token_of_login(address) or (token if is_named else None)


def _in_full(
    given: dict[str, Any], token: str | None, *, node: str | None, is_node: bool
) -> tuple[dict[str, Any], str | None]:
    """Return the arguments with the first address resolved, and the token for that address.

    `node` is that of `--node` if the command takes a dataset; `is_node`: it takes a node instead.
    """
    names = (NODE,) if given.get(NODE) is not None else ADDRESSES
    name = next((one for one in names if given.get(one) is not None), None)
    if name is None:
        return given, None
    text, repositories = str(given[name]), Repositories()
    tokens = tokens_of(token, repositories)
    found = None if node is not None else named(text, repositories)
    if found is None and (name == NODE or is_node):
        return given, _chosen(text, token, repositories, is_named=True)
    if found is not None and not found[1]:  # a node
        return {**given, name: found[0].base}, tokens(found[0].base, found[0])
    address = read_address(
        text, repositories, node=node, is_on_node=name == ON_A_NODE, tokens=tokens
    )
    is_whole = "://" in text or address.location.path is not None
    return {**given, name: text if is_whole else str(address.location)}, address.token


def _option(command: Any, *, is_chosen: bool, is_node: bool = False) -> Any:
    takes = inspect.signature(command).parameters
    adds_node = not is_node and NODE not in takes and any(name in takes for name in ADDRESSES)

    @functools.wraps(command)
    def with_token(
        *args: Any, token: str | None, home: str | None, at_node: str | None = None, **given: Any
    ) -> Any:
        click.get_current_context().meta[_KEPT] = home
        full, chosen = _in_full(given, token, node=at_node, is_node=is_node)
        return command(*args, token=chosen if is_chosen else token, **full)

    if adds_node:
        with_token = click.option(
            "--node", "at_node", metavar="URL", help=f"The node of the dataset; default: ${HOME}."
        )(with_token)
    shown = click.option(
        "--token",
        envvar=TOKEN,
        metavar="TOKEN",
        help=f"Access token; default: that of a login, or ${TOKEN}, for the node at ${HOME}.",
    )
    known = click.option("--home", envvar=HOME, hidden=True)
    return shown(known(with_token))


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
        raise Refused("NotLoggedIn", f"there is no login at {left[0]}", node=left[0])
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
        raise Refused(
            "NotLoggedIn", f"nobody is logged in at {base}; odf-node login {node}", node=base
        )
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
        raise Refused(
            "NotLoggedIn",
            "nobody is logged in anywhere; odf-node login NODE, or odf-node whoami NODE to ask "
            "whom a token is for",
        )
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
