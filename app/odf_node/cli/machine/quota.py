"""`odf-node quota`: what accounts and the whole node may store, on the node's machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from odf_protocol.errors import BadInput

from .node_folder import node_stores, record_command, store_options

PAGE = 500


@click.group()
def quota() -> None:
    """Limit what accounts and the node store; run on the node's machine."""


@quota.command(name="list")
@store_options
def list_(data: Path | None, database_url: str | None, as_json: bool) -> None:
    """Show what the node and each account take, and their quotas."""
    from odf_storage.stores.index.sql_sizes import EACH, NODE

    from ...service.accounts.quotas import shown

    with node_stores(data, database_url) as (stores, _):
        accounts, after = list[dict[str, Any]](), None
        while page := stores.accounts.page(after=after, limit=PAGE):
            accounts += [shown(one.name, stores.quotas.usage(one.name)) for one in page]
            after = page[-1].name.lower()
        node = shown(NODE, stores.quotas.usage(NODE))
        each = stores.quotas.limit(EACH)
    if as_json:
        click.echo(json.dumps({"node": node, "eachAccountBytes": each, "accounts": accounts}))
        return
    for name, one in (("node", node), *((one["accountName"], one) for one in accounts)):
        limit = "no limit" if one["limitBytes"] is None else f"of {one['limitBytes']}"
        uncounted = one["uncountedDatasets"]
        more = f"; {uncounted} datasets are not counted yet: run odf-node gc" if uncounted else ""
        click.echo(f"{name}  {one['usedBytes']} bytes  {limit}{more}")


@quota.command(name="set")
@click.argument("names", nargs=-1, metavar="[ACCOUNT] SIZE")
@click.option("--node", "of_node", is_flag=True, help="The quota of the whole node.")
@click.option("--each-account", is_flag=True, help="Of every account without one of its own.")
@store_options
def set_(
    names: tuple[str, ...],
    of_node: bool,
    each_account: bool,
    data: Path | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Set the quota of ACCOUNT, as 500MB or 20GB; `none` removes it.

    It may be below what is stored: reading, retracting and deleting go on, and nothing is added.
    """
    from odf_storage.stores.index.sql_sizes import EACH, NODE

    from ...service.accounts.accounts import find_account
    from ...service.accounts.quotas import parse_quota

    if len(names) + of_node + each_account != 2 or not names:
        raise BadInput(
            "QuotaOfNobody", "name an account and a size, or --node or --each-account and a size"
        )
    limit = parse_quota(names[-1])
    with node_stores(data, database_url) as (stores, _):
        owner = NODE if of_node else EACH
        if len(names) == 2:
            owner = find_account(stores.accounts, names[0]).id
        stores.quotas.set_limit(owner, limit)
        whose = names[0] if len(names) == 2 else "the node" if of_node else "each account"
        record_command(stores, "set_quota", owner=whose, bytes=limit)
    told = {"owner": whose, "limitBytes": limit}
    said = "no quota" if limit is None else f"a quota of {limit} bytes"
    click.echo(json.dumps(told) if as_json else f"{whose} has {said}")
