"""Map names of tables to datasets: share = account, schema = view, table = name of the dataset.

Names of tables have no dots, and ODF names have no underscores, so each replaces the other.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from odf_protocol.errors import BadInput, NotFound, Refused
from odf_protocol.identity import DatasetAlias, MalformedName, Name
from odf_storage.datasets.node.naming import SINGLE_OWNER
from odf_storage.datasets.read.rows import Projection
from odf_storage.stores.ports.values import AccountId, DatasetEntry

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..datasets.listing import list_datasets

VIEWS = {
    "default": Projection.FACTS,
    "changelog": Projection.CHANGELOG,
    "state": Projection.STATE,
}
"""Schemas of every share: live rows, all rows with their operations, the last row of each key."""
BEHIND_ALIASES = "0"
"""The character that sorts right after the slash: with it a position is after all datasets of an
account."""
Page = tuple[list[dict[str, Any]], str | None]
"""Items of a page, and the token of the next page."""


def token_missing() -> Refused:
    """The request has no token, which shared tables require."""
    return Refused(
        "TokenMissing",
        "send the bearer token of a profile; the token of any account reads public datasets",
    )


class NotShared(NotFound):
    """The share, schema or table does not exist, or the caller may not read it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"no {what} has this name, or none that you may read")


class TableRenamed(NotShared):
    """The table has another name now, and the caller may read it."""

    def __init__(self, entry: DatasetEntry) -> None:
        self.share, self.table = (
            _shared_name(str(name)) for name in (entry.alias.account, entry.alias.name)
        )
        NotFound.__init__(
            self,
            f"the table was renamed to {self.table}, in the share {self.share}",
            share=self.share,
            name=self.table,
        )


def malformed_page_token() -> BadInput:
    """The page token is not one that this list has returned."""
    return BadInput(
        "MalformedPageToken", "pageToken is none that a page of this list gave; leave it out"
    )


@dataclass(frozen=True, slots=True)
class SharedTable:
    """A view of a dataset as a table, for an account; None: for everybody."""

    entry: DatasetEntry
    view: Projection
    account: AccountId | None


@dataclass(frozen=True)
class Shares:
    """Lists the tables that callers may read."""

    access: DatasetAccess

    def table(self, actor: Actor, share: str, schema: str, table: str) -> SharedTable:
        """Return a table by its names. Raises `NotShared`, `TableRenamed`."""
        view = VIEWS.get(schema.lower())
        account, name = _odf_name(share), _odf_name(table)
        if view is None or account is None or name is None:
            raise NotShared("table")
        alias = DatasetAlias(name, account)
        entry = self.access.entries.find(alias)
        if entry is not None and self.access.may_read(actor, entry):
            caller = None if actor.account is None else actor.account.id
            return SharedTable(entry, view, caller)
        former = self.access.former(actor, alias)
        raise NotShared("table") if former is None else TableRenamed(former)

    def shares(self, actor: Actor, *, token: str | None, limit: int) -> Page:
        """List accounts with a dataset that the caller may read."""
        after = _read(token)
        items: list[dict[str, Any]] = []
        while len(items) < limit:
            found, after = list_datasets(self.access, actor, account=None, after=after, limit=1)
            if found:
                account = str(found[0].alias.account)
                items.append({"name": _shared_name(account)})
                after = account.lower() + BEHIND_ALIASES
            elif after is None:
                return items, None
        return items, _written(after)

    def share(self, actor: Actor, share: str) -> dict[str, Any]:
        """Return a share as JSON. Raises `NotShared`."""
        return {"name": _shared_name(str(self._account(actor, share)))}

    def schemas(self, actor: Actor, share: str) -> list[dict[str, Any]]:
        """List the schemas of a share. Raises `NotShared`."""
        name = _shared_name(str(self._account(actor, share)))
        return [{"name": schema, "share": name} for schema in VIEWS]

    def tables(
        self, actor: Actor, share: str, schema: str, *, token: str | None, limit: int
    ) -> Page:
        """List the tables of one schema. Raises `NotShared`, `MalformedPageToken`."""
        account = self._account(actor, share)
        if schema.lower() not in VIEWS:
            raise NotShared("schema")
        return self._tables(actor, account, schema.lower(), _read(token), limit)

    def all_tables(self, actor: Actor, share: str, *, token: str | None, limit: int) -> Page:
        """List the tables of all schemas in turn. Raises `NotShared`, `MalformedPageToken`."""
        account = self._account(actor, share)
        schema, _, after = (_read(token) or next(iter(VIEWS))).partition("/")
        if schema not in VIEWS:
            raise malformed_page_token()
        items: list[dict[str, Any]] = []
        for each in list(VIEWS)[list(VIEWS).index(schema) :]:
            if len(items) == limit:
                return items, _written(each)
            left = limit - len(items)
            found, more = self._tables(actor, account, each, after or None, left)
            items, after = items + found, ""
            if more is not None:
                return items, _written(f"{each}/{_read(more)}")
        return items, None

    def _account(self, actor: Actor, share: str) -> Name:
        """Return the account if it has a dataset that the caller may read. Raises `NotShared`."""
        name = _odf_name(share)
        if name is not None:
            after = None
            while True:
                found, after = list_datasets(
                    self.access, actor, account=str(name), after=after, limit=1
                )
                if found and found[0].alias.account is not None:
                    return found[0].alias.account
                if after is None:
                    break
        raise NotShared("share")

    def _tables(
        self, actor: Actor, account: Name, schema: str, after: str | None, limit: int
    ) -> Page:
        found, more = list_datasets(
            self.access, actor, account=str(account), after=after, limit=limit
        )
        share = _shared_name(str(account))
        items = [
            {"name": _shared_name(str(entry.alias.name)), "schema": schema, "share": share}
            for entry in found
        ]
        return items, None if more is None else _written(more)


def table_name(alias: str) -> str:
    """Return the full table name of a dataset's live rows; a single-tenant alias has no account."""
    account, _, name = alias.rpartition("/")
    words = (account or SINGLE_OWNER, "default", name)
    return ".".join(_shared_name(word) for word in words)


def _shared_name(name: str) -> str:
    return name.replace(".", "_")


def _odf_name(name: str) -> Name | None:
    try:
        return Name(name.replace("_", "."))
    except MalformedName:
        return None


def _written(after: str | None) -> str | None:
    if after is None:
        return None
    return base64.urlsafe_b64encode(after.encode()).decode().rstrip("=")


def _read(token: str | None) -> str | None:
    """Decode a page token. Raises `MalformedPageToken`."""
    if not token:
        return None
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        return raw.decode()
    except (binascii.Error, ValueError):
        raise malformed_page_token() from None
