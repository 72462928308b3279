"""`odf-node variable`: variables and secrets that templates of sources read.

A node never returns the value of a secret.
"""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import Any

import click

from ..shell.asking import ask, say_each, say_removed
from ..shell.output import json_option, print_json
from ..shell.tokens import token_option


@click.group()
def variable() -> None:
    """Manage variables and secrets of DATASET, or with --account of your account.

    With --account, URL is the URL of the node.
    """


account_option = click.option("--account", is_flag=True, help="Of one's own account.")


@variable.command("set")
@click.argument("url", metavar="URL")
@click.argument("name", metavar="NAME")
@click.option("--plain", is_flag=True, help="No secret: may be shown.")
@click.option("--value", help="Default: asked for, or read from a pipe, so that no shell keeps it.")
@account_option
@token_option
@json_option
def set_(
    url: str,
    name: str,
    *,
    plain: bool,
    value: str | None,
    account: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Set a secret, or with --plain a variable; a template reads it as `${{ env.NAME }}`."""
    if value is None:
        asked = sys.stdin.isatty()
        value = getpass("value: ") if asked else sys.stdin.read().removesuffix("\n")
    ask(url, token, "PUT", _path(account, name), {"value": value, "secret": not plain})
    if as_json:
        print_json({"name": name, "secret": not plain})


@variable.command("list")
@click.argument("url", metavar="URL")
@account_option
@token_option
@json_option
def listed(url: str, *, account: bool, token: str | None, as_json: bool) -> None:
    """List the names, and the values of variables that are not secret."""
    found = ask(url, token, "GET", _path(account))
    say_each(found, "variables", _line, as_json=as_json)


@variable.command("remove")
@click.argument("url", metavar="URL")
@click.argument("name", metavar="NAME")
@account_option
@token_option
@json_option
def remove(url: str, name: str, *, account: bool, token: str | None, as_json: bool) -> None:
    """Remove a variable or secret."""
    ask(url, token, "DELETE", _path(account, name))
    say_removed(name, as_json=as_json)


@variable.command("rotate")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder.")
@click.option("--database-url", help="Database instead of SQLite in the data folder.")
@json_option
def rotate(as_json: bool, **given: Any) -> None:
    """Seal all secrets of the node with the first of ODF_STORE_SECRETS_KEYS.

    These are variables, keys of the node and of datasets, tokens of mirrors, secrets of webhooks.
    The administrator runs it with the settings of the node, before an older key is removed.
    """
    from ...service.definitions.variables import reseal
    from ...service.settings import load_settings
    from ...service.wiring import open_node

    node = open_node(load_settings(**given))
    try:
        count = reseal(node.stores, node.secret_keys)
    finally:
        node.stores.close()
    if as_json:
        print_json({"resealed": count, "key": node.secret_keys.newest})
    else:
        click.echo(f"{count} secret(s) sealed with key {node.secret_keys.newest}")


def _path(account: bool, name: str | None = None) -> str:
    folder = "accounts/me/variables" if account else "variables"
    return folder if name is None else f"{folder}/{name}"


def _line(each: dict[str, Any]) -> str:
    return f"{each['name']}  {'(secret)' if each['secret'] else each['value']}"
