"""`odf-node access`: maintainers of a dataset decide who may read or change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

import click

from ..client.text import in_columns, one_line
from .dataset_requests import Found, ask, say, say_removed
from .output import json_option, print_json
from .tokens import token_option

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
