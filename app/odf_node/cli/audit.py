"""`odf-node audit`: print the audit log on the machine of the node."""

from __future__ import annotations

import json
from pathlib import Path

import click

from odf_protocol.instant import Instant
from odf_storage.stores.ports.audit_values import AuditEntry

from .admin import node_stores, store_options

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
    from ..service.audit.audit import filter_of, shown

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
