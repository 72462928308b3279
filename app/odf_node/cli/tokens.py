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
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ..client.environment import HOME, TOKEN
from ..client.home import is_home
from ..client.remotes import Repositories, Repository
from ..client.targets import TokenAt, named, read_address

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

    def at(address: str, *, by: Repository | None = None) -> str | None:
        return _chosen(address, token, repositories, by=by, is_named=by is not None)

    return at


def _chosen(
    address: str,
    token: str | None,
    repositories: Repositories,
    *,
    by: Repository | None = None,
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
        return {**given, name: found[0].base}, tokens(found[0].base, by=found[0])
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
