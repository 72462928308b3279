"""`odf-node account`: accounts of a node and their passwords, on its machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odf_protocol.errors import BadInput
from odf_storage.datasets.node.naming import SINGLE_OWNER
from odf_storage.stores.ports.values import Account

from .node_folder import node_stores, record_command, store_options

if TYPE_CHECKING:
    from ...service.membership.membership import Membership

PAGE = 500


@click.group()
def account() -> None:
    """Create, change, disable, delete accounts of a node; run on the node's machine."""


@account.command()
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read a password from standard input.")
@click.option("--admin", is_flag=True, help="Make it an administrator.")
@store_options
def create(
    name: str,
    password_stdin: bool,
    admin: bool,
    data: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Create an account. An account without a password can use tokens only."""
    from ...service.accounts.accounts import create_account
    from ...service.auth.passwords import check_new

    password = check_new(_from_stdin()) if password_stdin else None
    with node_stores(data, database_url, may_be_new=True) as (stores, settings):
        created = create_account(stores.accounts, name, os.urandom, is_admin=admin)
        if password is not None:
            _set(stores, settings, created, password)
        record_command(stores, "create_account", account=created.name, admin=admin)
    shown = {"accountName": created.name, "accountId": created.id, "isAdmin": created.is_admin}
    click.echo(json.dumps(shown) if as_json else f"{created.name}  {created.id}")


@account.command(name="list")
@store_options
def list_(data: Path | None, database_url: str | None, as_json: bool) -> None:
    """List all accounts by name."""
    shown: list[dict[str, Any]] = []
    with node_stores(data, database_url) as (stores, _):
        after = None
        while page := stores.accounts.page(after=after, limit=PAGE):
            shown += [_shown(stores, item) for item in page]
            after = page[-1].name.lower()
    if as_json:
        click.echo(json.dumps(shown))
        return
    for item in shown:
        marks = [word for word, its in _FIELDS.items() if item[its]]
        click.echo(f"{item['accountName']}  {item['accountId']}  {','.join(marks) or '-'}")


_FIELDS = {"admin": "isAdmin", "password": "hasPassword", "disabled": "disabledAt"}


@account.command()
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read it from standard input, unasked.")
@store_options
def password(
    name: str, password_stdin: bool, data: Path | None, database_url: str | None, as_json: bool
) -> None:
    """Set an account's password; its sessions end. Tokens stay as they are."""
    from ...service.accounts.accounts import ensure_account, find_account
    from ...service.auth.passwords import check_new
    from ...service.setting_groups.words import Tenancy

    chosen = check_new(_from_stdin() if password_stdin else _asked())
    with node_stores(data, database_url) as (stores, settings):
        if settings.tenancy is Tenancy.SINGLE and name.lower() == SINGLE_OWNER:
            ensure_account(stores.accounts, SINGLE_OWNER, os.urandom, is_admin=True)
        found = find_account(stores.accounts, name)
        _set(stores, settings, found, chosen)
        record_command(stores, "set_password", account=found.name)
    click.echo(json.dumps({"accountName": found.name}) if as_json else f"{found.name} has it")


@account.command()
@click.argument("name")
@store_options
def disable(name: str, data: Path | None, database_url: str | None, as_json: bool) -> None:
    """Disable an account: its tokens and sessions are refused at once, and its streams end.

    Its datasets, schedules and derivatives stay as they are.
    """
    _switch(name, data, database_url, as_json=as_json, is_disabled=True)


@account.command()
@click.argument("name")
@store_options
def enable(name: str, data: Path | None, database_url: str | None, as_json: bool) -> None:
    """Enable an account again. Its tokens and sessions that hold are taken as before."""
    _switch(name, data, database_url, as_json=as_json, is_disabled=False)


def _switch(
    name: str,
    data: Path | None,
    database_url: str | None,
    *,
    as_json: bool,
    is_disabled: bool,
) -> None:
    from ...service.accounts.accounts import find_account

    with node_stores(data, database_url) as (stores, _):
        found = find_account(stores.accounts, name)
        at = stores.clock() if is_disabled else None
        stores.accounts.set_disabled(found.id, at)
        record_command(
            stores, "enable_account" if at is None else "disable_account", account=found.name
        )
    shown = {"accountName": found.name, "disabledAt": None if at is None else str(at)}
    said = f"{found.name} is {'enabled' if at is None else 'disabled'}"
    click.echo(json.dumps(shown) if as_json else said)


@account.command()
@click.argument("name")
@store_options
def promote(name: str, data: Path | None, database_url: str | None, as_json: bool) -> None:
    """Make an account an administrator."""
    _set_admin(name, data, database_url, as_json=as_json, is_admin=True)


@account.command()
@click.argument("name")
@store_options
def demote(name: str, data: Path | None, database_url: str | None, as_json: bool) -> None:
    """Make an administrator a user again."""
    _set_admin(name, data, database_url, as_json=as_json, is_admin=False)


def _set_admin(
    name: str, data: Path | None, database_url: str | None, *, as_json: bool, is_admin: bool
) -> None:
    from ...service.accounts.accounts import find_account

    with node_stores(data, database_url) as (stores, _):
        changed = _membership(stores).set_admin(
            find_account(stores.accounts, name), is_admin=is_admin
        )
        record_command(stores, "set_admin", account=changed.name, admin=is_admin)
    shown = {"accountName": changed.name, "isAdmin": is_admin}
    said = f"{changed.name} is {'an administrator' if is_admin else 'a user'}"
    click.echo(json.dumps(shown) if as_json else said)


@account.command()
@click.argument("name")
@click.argument("new")
@store_options
def rename(name: str, new: str, data: Path | None, database_url: str | None, as_json: bool) -> None:
    """Rename an account and the addresses of its datasets.

    Earlier addresses of the datasets say where they are now; tokens and sessions stay as they are.
    """
    from ...service.accounts.accounts import find_account

    with node_stores(data, database_url) as (stores, _):
        changed = _membership(stores).rename(find_account(stores.accounts, name), new)
        record_command(stores, "rename_account", account=name, name=changed.name)
    shown = {"accountName": changed.name, "accountId": changed.id}
    click.echo(json.dumps(shown) if as_json else f"{name} is {changed.name} now")


@account.command()
@click.argument("name")
@click.option(
    "--datasets",
    type=click.Choice(["keep", "transfer", "remove"]),
    required=True,
    help="What becomes of its datasets; kept ones stay with a disabled account.",
)
@click.option("--to", help="The account that gets them.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before datasets are removed.")
@store_options
def delete(
    name: str,
    datasets: str,
    to: str | None,
    dry_run: bool,
    yes: bool,
    data: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Delete an account: its password, tokens, sessions, roles, webhooks and secrets.

    Ends with an error, and changes nothing, if its datasets cannot go where they should.
    """
    from ...service.accounts.accounts import find_account
    from ...service.membership.membership import FateOfDatasets

    with node_stores(data, database_url) as (stores, _):
        its = _membership(stores)
        leaving = its.plan(find_account(stores.accounts, name), FateOfDatasets(datasets), to)
        removes = leaving.fate is FateOfDatasets.REMOVE and bool(leaving.datasets)
        if removes and not (dry_run or yes or leaving.hindrances):
            what = f"{len(leaving.datasets)} dataset(s) of {name} with all their data"
            click.confirm(f"This will remove {what}. Go on?", abort=True, err=True)
        if not dry_run:
            its.delete(leaving)
            record_command(stores, "delete_account", account=name, datasets=datasets, to=to)
    told = leaving.to_data()
    if as_json:
        click.echo(json.dumps(told))
        return
    would = "would be deleted" if dry_run else "is deleted"
    click.echo(f"{told['accountName']} {would}; {told['count']} dataset(s): {datasets}")
    hindered = [f"hindered: {one}" for one in told["hindrances"]]
    stops = "would stand still" if dry_run else "stands still"
    left = [f"{stops}: {one}" for one in told["leftBehind"]]
    for line in [*told["names"], *hindered, *left]:
        click.echo(f"  {line}")


@account.command()
@click.argument("name")
@click.option("--subject", required=True, help="The person's `sub` at the provider.")
@click.option("--issuer", help="The provider; by default that of ODF_OIDC_ISSUER.")
@store_options
def link(
    name: str,
    subject: str,
    issuer: str | None,
    data: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Give an account to a person who logs in by an identity provider."""
    from ...service.accounts.accounts import find_account
    from ...service.oidc.provider import OidcSettings
    from ...service.settings import load_settings_of

    its = issuer or load_settings_of(OidcSettings).issuer
    if its is None:
        raise BadInput("IssuerNeeded", "name the provider by --issuer, or set ODF_OIDC_ISSUER")
    with node_stores(data, database_url) as (stores, _):
        found = find_account(stores.accounts, name)
        stores.provider_accounts.link(its, subject, found.id)
        record_command(stores, "link_account", account=found.name, subject=subject)
    shown = {"accountName": found.name, "issuer": its, "subject": subject}
    click.echo(json.dumps(shown) if as_json else f"{subject} at {its} logs in as {found.name}")


def _membership(stores: Any) -> Membership:
    from ...service.auth.dataset_access import EntryMemory
    from ...service.membership.membership import Membership

    return Membership(stores, EntryMemory(stores.registry), stores.clock)


def _set(stores: Any, settings: Any, owner: Account, chosen: str) -> None:
    from ...service.accounts.accounts import set_password
    from ...service.auth.passwords import Cost

    now, cost = stores.clock(), Cost(settings.password_work)
    set_password(stores.accounts, owner, chosen, os.urandom, now, cost)


def _shown(stores: Any, item: Account) -> dict[str, Any]:
    return {
        "accountName": item.name,
        "accountId": item.id,
        "isAdmin": item.is_admin,
        "disabledAt": str(item.disabled_at) if item.disabled_at else None,
        "hasPassword": stores.accounts.find_password(item.id) is not None,
    }


def _from_stdin() -> str:
    """Return the first line of standard input, without its line end.

    Raises:
        NoPassword: the line is empty.
    """
    line = sys.stdin.readline(2048).rstrip("\r\n")
    if not line:
        raise BadInput("NoPassword", "standard input held no password")
    return line


def _asked() -> str:
    asked: str = click.prompt("New password", hide_input=True, confirmation_prompt=True)
    return asked
