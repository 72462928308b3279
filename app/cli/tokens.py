"""Which node a token is sent to: that of the environment to its own node, and to no other.

`ODF_NODE_TOKEN` belongs to the node at `ODF_NODE_URL`, without that to nodes on this machine. It
goes there, and to a node that the command line names as such (`--node`, a repository); `--token`
goes wherever the command does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ..client.environment import HOME, TOKEN
from ..client.home import is_home

F = TypeVar("F", bound=Callable[..., Any])

ADDRESSES = ("url", "where")
"""What commands call the address of their dataset."""
NODE = "node"
_KEPT = "odf-node.home"


def token_option(command: F) -> F:
    """`--token`, or the environment's if the command's address is on its node."""
    decorated: F = _option(command, _of_address)
    return decorated


def token_of_node(command: F) -> F:
    """As `token_option`, where the address is that of a node."""
    decorated: F = _option(command, _of_node)
    return decorated


def any_token(command: F) -> F:
    """As `token_option`, for commands that ask `token_at` themselves."""
    decorated: F = _option(command, lambda token, _: token)
    return decorated


def token_at(address: str, token: str | None, *, is_named: bool = False) -> str | None:
    """The token for an address: the environment's only for its own node, or one that is named."""
    context = click.get_current_context()
    if is_named or context.get_parameter_source("token") is not ParameterSource.ENVIRONMENT:
        return token
    return token if is_home(address, context.meta[_KEPT]) else None


def _of_address(token: str | None, given: dict[str, Any]) -> str | None:
    is_named = given.get(NODE) is not None
    address = next((given[name] for name in ADDRESSES if name in given), "")
    return token_at(str(address), token, is_named=is_named)


def _of_node(token: str | None, _: dict[str, Any]) -> str | None:
    return token


def _option(command: Any, meant: Callable[[str | None, dict[str, Any]], str | None]) -> Any:
    @functools.wraps(command)
    def with_token(*args: Any, token: str | None, home: str | None, **given: Any) -> Any:
        click.get_current_context().meta[_KEPT] = home
        return command(*args, token=meant(token, given), **given)

    shown = click.option(
        "--token",
        envvar=TOKEN,
        metavar="TOKEN",
        help=f"Access token; default: ${TOKEN}, for the node at ${HOME}.",
    )
    known = click.option("--home", envvar=HOME, hidden=True)
    return shown(known(with_token))
