"""`odf-node token`: make, list and revoke access tokens, on the machine of the node."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from protocol.errors import BadInput
from protocol.instant import NANOS, Instant
from storage.values import Scope, Token

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MAX_DAYS = 36_500


class UnreadableExpiry(BadInput):
    """An `--expires` that is neither an instant nor a duration."""


def _store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that opens the node's stores."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--database-url", help="The node's database, if not in the data folder."),
        click.option("--data", type=click.Path(path_type=Path), help="The node's data folder."),
    ):
        command = option(command)
    return command


@contextmanager
def _stores(data: Path | None, database_url: str | None) -> Iterator[Any]:
    from storage.config import StoreSettings, open_stores

    from ..settings import load_settings

    settings = load_settings(data=data, database_url=database_url)
    opened = open_stores(
        StoreSettings(data=settings.data, database_url=settings.database_url), repair=False
    )
    try:
        yield opened
    finally:
        opened.close()


@click.group()
def token() -> None:
    """Access tokens of a node; run on the node's machine."""


@token.command()
@click.option("--account", required=True, help="Whose token; the account is made if it is new.")
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
@_store_options
def create(
    account: str,
    scopes: tuple[str, ...],
    expires: str | None,
    label: str,
    admin: bool,
    data: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Print a new token. It is shown this once; the node keeps only its hash."""
    from ..usecases.accounts import create_token, ensure_account

    now = Instant(time.time_ns())
    ends = None if expires is None else parse_expiry(expires, now)
    with _stores(data, database_url) as stores:
        owner = ensure_account(stores.accounts, account, os.urandom, is_admin=admin)
        made = create_token(
            stores.accounts,
            owner,
            os.urandom,
            now,
            scopes=map(Scope, scopes) if scopes else Scope,
            expires_at=ends,
            label=label,
        )
    if not as_json:
        click.echo(str(made))
        return
    shown = {"token": str(made), "id": made.stored_id, "account": owner.name, "accountId": owner.id}
    click.echo(json.dumps({**shown, "expiresAt": str(ends) if ends else None}))


@token.command(name="list")
@click.option("--account", required=True, help="Whose tokens.")
@_store_options
def list_(account: str, data: Path | None, database_url: str | None, as_json: bool) -> None:
    """List an account's tokens, without their secrets."""
    with _stores(data, database_url) as stores:
        tokens = stores.accounts.tokens(_account(stores, account).id)
    if as_json:
        click.echo(json.dumps([_shown(item) for item in tokens]))
        return
    for item in tokens:
        line = _shown(item)
        state = "revoked" if item.revoked_at else f"expires {line['expiresAt'] or 'never'}"
        click.echo(f"{item.id}  {','.join(line['scopes'])}  {state}  {item.label}")


@token.command()
@click.argument("token_id")
@_store_options
def revoke(token_id: str, data: Path | None, database_url: str | None, as_json: bool) -> None:
    """Revoke a token by its id (see `token list`); at once and for good."""
    with _stores(data, database_url) as stores:
        stores.accounts.revoke_token(token_id)
    click.echo(json.dumps({"revoked": token_id}) if as_json else f"revoked {token_id}")


def parse_expiry(text: str, now: Instant) -> Instant:
    """An instant, or a duration from now. Raises `UnreadableExpiry`."""
    number, unit = text[:-1], text[-1:]
    if number.isascii() and number.isdigit() and unit in UNITS and len(number) <= 9:
        seconds = int(number) * UNITS[unit]
        if 0 < seconds <= MAX_DAYS * UNITS["d"]:
            return Instant(now.ns + seconds * NANOS)
    try:
        return Instant.parse(text)
    except BadInput:
        raise UnreadableExpiry(
            f"--expires takes an instant such as 2030-01-01T00:00:00Z, or 30d, 12h; not {text!r}"
        ) from None


def _account(stores: Any, name: str) -> Any:
    from ..usecases.accounts import AccountUnknown

    found = stores.accounts.find_account(name)
    if found is None:
        raise AccountUnknown(name)
    return found


def _shown(item: Token) -> dict[str, Any]:
    return {
        "id": item.id,
        "label": item.label,
        "scopes": sorted(item.scopes),
        "createdAt": str(item.created_at),
        "expiresAt": str(item.expires_at) if item.expires_at else None,
        "revokedAt": str(item.revoked_at) if item.revoked_at else None,
    }
