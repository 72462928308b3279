"""Which node a command means, and which token it is sent.

A node or dataset may be named by a repository (`odf-node repo`): `work`, `work/name`. Of several
tokens the first is taken that there is: `--token`; the repository's; `ODF_NODE_TOKEN` for its own
node, that at `ODF_NODE_URL`, without that those on this machine; that of a login
(`odf-node login`); `ODF_NODE_TOKEN` for a node that the command line names as such (`--node`, a
repository). What is kept for an origin goes to that origin only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ..client.environment import HOME, TOKEN
from ..client.home import is_home
from ..client.remotes import Repositories, Repository
from ..client.targets import TokenAt, address_at, named

F = TypeVar("F", bound=Callable[..., Any])
ON_A_NODE = "url"
ADDRESSES = (ON_A_NODE, "where")
"""What commands call the address of their dataset: on a node, or anywhere."""
NODE = "node"
_KEPT = "odf-node.home"


def token_option(command: F) -> F:
    """`--token`, or the one for the command's address; that may begin with a repository's name."""
    decorated: F = _option(command, is_chosen=True)
    return decorated


def token_of_node(command: F) -> F:
    """As `token_option`, where the address is that of a node."""
    decorated: F = _option(command, is_chosen=True, is_node=True)
    return decorated


def any_token(command: F) -> F:
    """As `token_option`, for commands that ask `token_at` themselves."""
    decorated: F = _option(command, is_chosen=False)
    return decorated


def token_at(address: str, token: str | None, *, is_named: bool = False) -> str | None:
    """The token for an address, by the order above; `is_named`: the command line says it is a
    node's."""
    return _chosen(address, token, Repositories(), is_named=is_named)


def tokens_of(token: str | None, repositories: Repositories) -> TokenAt:
    """`token_at` for those that find the address themselves."""

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
    given: dict[str, Any], token: str | None, *, is_node: bool
) -> tuple[dict[str, Any], str | None]:
    """The addresses that were given, names of repositories replaced by where these are; and the
    token for the first of them."""
    names = (NODE,) if given.get(NODE) is not None else ADDRESSES
    name = next((one for one in names if given.get(one) is not None), None)
    if name is None:
        return given, None
    text, repositories = str(given[name]), Repositories()
    tokens = tokens_of(token, repositories)
    found = named(text, repositories)
    if found is None:
        return given, _chosen(text, token, repositories, is_named=is_node or name == NODE)
    repository, path = found
    if not path:
        return {**given, name: repository.base}, tokens(repository.base, by=repository)
    address = address_at(repository, path, tokens, is_node=name == ON_A_NODE)
    return {**given, name: str(address.location)}, address.token


def _option(command: Any, *, is_chosen: bool, is_node: bool = False) -> Any:
    @functools.wraps(command)
    def with_token(*args: Any, token: str | None, home: str | None, **given: Any) -> Any:
        click.get_current_context().meta[_KEPT] = home
        full, chosen = _in_full(given, token, is_node=is_node)
        return command(*args, token=chosen if is_chosen else token, **full)

    shown = click.option(
        "--token",
        envvar=TOKEN,
        metavar="TOKEN",
        help=f"Access token; default: that of a login, or ${TOKEN}, for the node at ${HOME}.",
    )
    known = click.option("--home", envvar=HOME, hidden=True)
    return shown(known(with_token))
