"""`odf-node token`: all access tokens on the machine of a node, or your own through its API.

`odf-node audit`: print the audit log on the machine of the node.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.node.naming import SINGLE_OWNER, dataset_ref
from odf_storage.stores.ports.accounts import AuditEntry
from odf_storage.stores.ports.values import Reach, Scope

from ...client.nodes.limits import one_line
from ..shell.asking import ask
from ..shell.tokens import token_option
from .node_folder import node_stores, record_command, store_options

OWN = "accounts/me/tokens"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MAX_DAYS = 36_500


@click.group()
def token() -> None:
    """Create, list and revoke access tokens: all of a node on its machine, your own with --node."""


def _node_option(command: Callable[..., Any]) -> Callable[..., Any]:
    shown = click.option("--node", metavar="URL", help="Ask this node for your own, logged in.")
    return shown(token_option(command))


def _tell_of_new_account(stores: Any, account: str) -> None:
    """Print a note if a token makes its account: without it a mistyped name would be an account
    that nobody looks for. The owner of a node with one tenant is always made."""
    if account.lower() != SINGLE_OWNER and stores.accounts.find_account(account) is None:
        click.echo(f"note: there was no account {account[:100]}; this makes one", err=True)


def _needed(account: str | None) -> str:
    if account is None:
        raise click.UsageError("name --account, or --node for your own tokens")
    return account


@token.command()
@click.option("--account", help="Whose token; the account is made if it is new.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What it allows (repeatable); all by default. Writing and creating include reading.",
)
@click.option("--expires", help="When it ends: an RFC 3339 instant, or 30d, 12h, 15m, 60s.")
@click.option("--label", default="", help="What it is for.")
@click.option("--admin", is_flag=True, help="Make the account an administrator.")
@click.option("--dataset", help="Only for this dataset: ACCOUNT/NAME, or NAME of a single tenant.")
@click.option("--account-scope", is_flag=True, help="Only for the account's own datasets.")
@_node_option
@store_options
def create(
    account: str | None,
    scopes: tuple[str, ...],
    expires: str | None,
    label: str,
    admin: bool,
    dataset: str | None,
    account_scope: bool,
    node: str | None,
    token: str | None,
    data: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Create a token and print it. It is shown only now; the node keeps only its hash."""
    from ...service.accounts.accounts import create_token, ensure_account

    if dataset is not None and account_scope:
        raise click.UsageError("--dataset and --account-scope are two different reaches")
    now = Instant(time.time_ns())
    ends = None if expires is None else parse_expiry(expires, now)
    if node is not None:
        asked = {
            "label": label,
            "scopes": list(scopes) or None,
            "expiresAt": str(ends) if ends else None,
            "dataset": dataset,
            "ownDatasetsOnly": account_scope,
        }
        _refuse_others(account, admin=admin, data=data, database_url=database_url)
        made = ask(node, token, "POST", OWN, asked)
        click.echo(json.dumps(made) if as_json else str(made.get("token")))
        return
    account = _needed(account)
    with node_stores(data, database_url, may_be_new=True) as (stores, settings):
        only = None if dataset is None else _dataset(stores, settings, dataset)
        _tell_of_new_account(stores, account)
        owner = ensure_account(stores.accounts, account, os.urandom, is_admin=admin)
        created = create_token(
            stores.accounts,
            owner,
            os.urandom,
            now,
            scopes=map(Scope, scopes) if scopes else Scope,
            expires_at=ends,
            label=label,
            reach=_reach(only, account_scope=account_scope),
            dataset=only,
        )
        record_command(stores, "create_token", account=owner.name, token=created.stored_id)
    if not as_json:
        click.echo(str(created))
        return
    shown = {
        "token": str(created),
        "id": created.stored_id,
        "account": owner.name,
        "accountId": owner.id,
    }
    click.echo(json.dumps({**shown, "expiresAt": str(ends) if ends else None}))


@token.command(name="list")
@click.option("--account", help="Whose tokens.")
@_node_option
@store_options
def list_(
    account: str | None,
    node: str | None,
    token: str | None,
    data: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """List an account's tokens, without their secrets."""
    if node is not None:
        _refuse_others(account, data=data, database_url=database_url)
        shown = ask(node, token, "GET", OWN)["tokens"]
    else:
        shown = _tokens_here(_needed(account), data, database_url)
    if as_json:
        click.echo(json.dumps(shown))
        return
    for line in shown:
        state = "revoked" if line["revokedAt"] else f"expires {line['expiresAt'] or 'never'}"
        reach = line["datasetId"] or line["reach"]
        cells = (line["id"], ",".join(line["scopes"]), reach, state, line["label"])
        click.echo("  ".join(one_line(str(cell)) for cell in cells))


def _tokens_here(account: str, data: Path | None, database_url: str | None) -> list[Any]:
    from ...service.accounts.accounts import find_account, token_data

    with node_stores(data, database_url) as (stores, _):
        owner = find_account(stores.accounts, account)
        return [token_data(one) for one in stores.accounts.tokens(owner.id)]


@token.command()
@click.argument("token_id")
@_node_option
@store_options
def revoke(
    token_id: str,
    node: str | None,
    token: str | None,
    data: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Revoke a token by its id (see `token list`), at once and for ever."""
    if node is not None:
        _refuse_others(None, data=data, database_url=database_url)
        ask(node, token, "DELETE", f"{OWN}/{quote(token_id, safe='')}")
        click.echo(json.dumps({"revoked": token_id}) if as_json else f"revoked {token_id}")
        return
    with node_stores(data, database_url) as (stores, _):
        stores.accounts.revoke_token(token_id)
        record_command(stores, "revoke_token", token=token_id)
    click.echo(json.dumps({"revoked": token_id}) if as_json else f"revoked {token_id}")


def _refuse_others(account: str | None, **more: Any) -> None:
    """Refuse options that work only with the node's stores, that is, without --node."""
    if account is not None or any(more.values()):
        raise click.UsageError(
            "--node is about your own tokens: without --account, --admin, --data, --database-url"
        )


def parse_expiry(text: str, now: Instant) -> Instant:
    """Parse an instant, or a duration that begins at `now`. Raise `UnreadableExpiry`."""
    number, unit = text[:-1], text[-1:]
    if number.isascii() and number.isdigit() and unit in UNITS and len(number) <= 9:
        seconds = int(number) * UNITS[unit]
        if 0 < seconds <= MAX_DAYS * UNITS["d"]:
            return Instant(now.ns + seconds * NANOS)
    try:
        return Instant.parse(text)
    except BadInput:
        raise BadInput(
            "UnreadableExpiry",
            f"--expires takes an instant such as 2030-01-01T00:00:00Z, or 30d, 12h; not {text!r}",
        ) from None


def _dataset(stores: Any, settings: Any, text: str) -> DatasetId:
    """Return the id of the dataset that a user named. Raise `MalformedName`, `DatasetNotFound`.

    Raises:
        click.UsageError: the name has no account, and the node has several tenants.
    """
    from ...service.setting_groups.words import Tenancy

    alias = DatasetRef.parse(text).alias
    if alias is not None and alias.account is None and settings.tenancy is Tenancy.MULTI:
        raise click.UsageError("--dataset of a multi-tenant node is ACCOUNT/NAME")
    found: DatasetId = stores.registry.get(dataset_ref(text)).id
    return found


def _reach(dataset: DatasetId | None, *, account_scope: bool) -> Reach:
    if dataset is not None:
        return Reach.DATASET
    return Reach.ACCOUNT if account_scope else Reach.NODE


PAGE = 500


@click.command()
@click.option("--actor", help="Only entries of this account.")
@click.option("--action", help="Only this action, such as POST /datasets, or push.")
@click.option("--dataset", help="Only entries on the dataset of this id (did:odf:…).")
@click.option("--since", help="Only entries from this RFC 3339 instant on.")
@click.option("--until", help="Only entries before this RFC 3339 instant.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
@store_options
def audit(
    data: Path | None, database_url: str | None, as_json: bool, limit: int, **wanted: str | None
) -> None:
    """Show who did what, newest first. With --json, print one object a line."""
    from ...service.accounts.audit import filter_of, shown

    which = filter_of(wanted)
    with node_stores(data, database_url) as (stores, _):
        before = None
        while limit > 0 and (
            audit_entries := stores.audit.page(which, before=before, limit=min(limit, PAGE))
        ):
            for audit_entry in audit_entries:
                click.echo(json.dumps(shown(audit_entry)) if as_json else _line(audit_entry))
            before, limit = audit_entries[-1].number, limit - len(audit_entries)


def _line(of: AuditEntry) -> str:
    return f"{_short(of.at)}  {of.actor:16}  {of.outcome:>4}  {of.action}  {of.subject}"


def _short(at: Instant) -> str:
    return str(at)[:19] + "Z"
