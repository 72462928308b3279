"""Lists of the datasets that an actor may read, with search, filters, order and pages.

Cursors of lists of datasets: texts that clients send to get the next page.

Access to a dataset: its roles and its visibility, which maintainers set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant, MalformedInstant, day_or_instant
from odf_protocol.metadata.events import DatasetKind
from odf_storage.datasets.node.overviews import MAX_NUMBER
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import AccountNotFound
from odf_storage.stores.ports.overviews import (
    After,
    ListedOverview,
    ListOrder,
    SortBy,
    WantedOverviews,
)
from odf_storage.stores.ports.values import Account, AccountId, DatasetEntry, Role, Visibility
from odf_storage.stores.registers.accounts.access import RoleStore
from odf_storage.stores.registers.accounts.accounts import AccountStore, Identities
from odf_storage.stores.registers.datasets.overviews import OverviewStore, words_of

from ..accounts.accounts import find_account
from ..auth.access import Action, ActionForbidden
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess, EntryMemory, RoleMemory, readable

_BEHIND_VALUE = "~"


def malformed_cursor() -> BadInput:
    """The parameter `after` is not a `next` of a page of this list."""
    return BadInput(
        "MalformedCursor", "after is none that a page of this list gave as next; leave it out"
    )


def _value(listed: ListedOverview, by: SortBy) -> int | Instant | None:
    overview = listed.overview
    match by:
        case SortBy.NAME:
            return None
        case SortBy.UPDATED:
            return listed.entry.created_at if overview is None else overview.updated_at
        case SortBy.ROWS:
            return 0 if overview is None else overview.records
        case SortBy.BYTES:
            return 0 if overview is None else overview.data_size
        case SortBy.RELEVANCE:
            return listed.fit


def cursor_behind(last: ListedOverview, by: SortBy) -> str:
    """Return the cursor of the page that begins after this dataset."""
    value = _value(last, by)
    alias = last.entry.alias.folded
    return alias if value is None else f"{value}{_BEHIND_VALUE}{alias}"


def read_cursor(after: str, by: SortBy) -> After:
    """Parse a cursor. Raises `MalformedCursor`."""
    if by is SortBy.NAME:
        return After(after)
    text, _, alias = after.partition(_BEHIND_VALUE)
    try:
        value = Instant.parse(text) if by is SortBy.UPDATED else int(text)
    except (MalformedInstant, ValueError):
        raise malformed_cursor() from None
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        raise malformed_cursor()
    return After(alias, value)


def parse_visibility(text: str) -> Visibility:
    """Parse a visibility, in any case. Raises `UnknownVisibility`."""
    try:
        return Visibility(text.capitalize())
    except ValueError:
        raise BadInput(
            "UnknownVisibility", f"visibility is public or private, not {text[:50]!r}"
        ) from None


def parse_role(text: str) -> Role:
    """Parse a role, in any case. Raises `UnknownRole`."""
    try:
        return Role(text.capitalize())
    except ValueError:
        known = ", ".join(Role)
        raise BadInput("UnknownRole", f"a role is one of {known}, not {text[:50]!r}") from None


@dataclass(frozen=True)
class DatasetRoles:
    """The stored roles of accounts at datasets, and the cache of this process."""

    accounts: AccountStore
    roles: RoleStore
    remembered: RoleMemory


def access_of(roles: DatasetRoles, entry: DatasetEntry) -> dict[str, Any]:
    """Return visibility, owner, and all roles, ordered by the name of the account."""
    given = roles.roles.of_dataset(entry.id)
    shown = [_shown(roles.accounts, account, role) for account, role in given.items()]
    return {
        "visibility": entry.visibility.value,
        "owner": str(entry.alias.account),
        "roles": sorted(shown, key=lambda item: str(item["accountName"]).lower()),
    }


def role_of(
    roles: DatasetRoles, access: DatasetAccess, actor: Actor, entry: DatasetEntry, name: str
) -> dict[str, Any]:
    """Return the role of one account. An actor may read its own role; maintainers may read all.

    Raises:
        ActionForbidden, AccountUnknown.
    """
    own = actor.account is not None and actor.account.name.lower() == name.lower()
    if not own and Action.MAINTAIN not in access.grants(actor, entry):
        raise ActionForbidden
    account = find_account(roles.accounts, name)
    return _entry(account, roles.roles.of_dataset(entry.id).get(account.id))


def give_role(roles: DatasetRoles, entry: DatasetEntry, name: str, role: Role) -> dict[str, Any]:
    """Give the account this role, in place of any earlier one.

    Raises:
        AccountUnknown, OwnerNeedsNoRole.
    """
    account = find_account(roles.accounts, name)
    if entry.alias.account is not None and account.name.lower() == entry.alias.account.folded:
        raise BadInput(
            "OwnerNeedsNoRole", f"{account.name} owns the dataset and may do everything with it"
        )
    roles.roles.put(entry.id, account.id, role)
    roles.remembered.forget(account.id)
    return _entry(account, role)


def take_role(roles: DatasetRoles, entry: DatasetEntry, name: str) -> None:
    """Remove the role of the account. Raises `AccountUnknown`."""
    account = find_account(roles.accounts, name)
    roles.roles.remove(entry.id, account.id)
    roles.remembered.forget(account.id)


def change_visibility(
    stores: Stores, entries: EntryMemory, entry: DatasetEntry, visibility: Visibility
) -> DatasetEntry:
    """Make the dataset readable for everybody, or only for actors with a right to it."""
    stores.set_visibility(entry.id, visibility)
    entries.forget(entry.alias)
    return replace(entry, visibility=visibility)


def _shown(accounts: Identities, account: AccountId, role: Role) -> dict[str, Any]:
    try:
        return _entry(accounts.account(account), role)
    except AccountNotFound:  # deleted in between
        return {"accountName": "", "accountId": account, "role": role.value}


def _entry(account: Account, role: Role | None) -> dict[str, Any]:
    return {
        "accountName": account.name,
        "accountId": account.id,
        "role": role.value if role is not None else None,
    }


MAX_SEARCH_CHARS = 200
MAX_SEARCH_WORDS = 10
"""Limit of words in a search, because each word needs its own lookup."""
_IN_NO_WORD = " "
"""A word that no dataset has."""
_Word = TypeVar("_Word", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRequest:
    """The parameters of a list as clients write them. An empty one has no effect."""

    search: str | None = None
    kind: str | None = None
    account: str | None = None
    visibility: str | None = None
    keyword: str | None = None
    license: str | None = None
    since: str | None = None
    sort: str | None = None
    order: str | None = None


@dataclass(frozen=True)
class ListingQuestion:
    """A query to the index."""

    wanted: WantedOverviews
    order: ListOrder
    overviews: OverviewStore

    @cached_property
    def total(self) -> int:
        """Number of datasets on all pages; counted once."""
        return self.overviews.count(self.wanted)


def question(access: DatasetAccess, actor: Actor, asked: ListingRequest) -> ListingQuestion:
    """Check the parameters of a list, and return the query to the index. It forgives slips of the
    typist if there is nothing with the words as they were typed.

    Raises:
        SearchTooLong, UnknownKind, UnknownVisibility, UnknownOrder, MalformedInstant.
    """
    words = _words(asked.search or "")
    default = SortBy.RELEVANCE if words else SortBy.NAME
    by = _one_of(SortBy, asked.sort or default, partial(BadInput, "UnknownOrder"), "sort")
    usual = "asc" if by is SortBy.NAME else "desc"
    order = (asked.order or usual).lower()
    if order not in ("asc", "desc"):
        raise BadInput("UnknownOrder", f"order is asc or desc, not {order[:50]!r}")
    kind = (
        _one_of(DatasetKind, asked.kind.capitalize(), partial(BadInput, "UnknownKind"), "kind")
        if asked.kind
        else None
    )
    wanted = WantedOverviews(
        readable=readable(actor, access.reads),
        words=words,
        kind=kind,
        account=asked.account or None,
        visibility=parse_visibility(asked.visibility) if asked.visibility else None,
        keyword=asked.keyword or None,
        license=asked.license or None,
        since=day_or_instant(asked.since) if asked.since else None,
    )
    found = ListingQuestion(wanted, ListOrder(by, order == "desc"), access.overviews)
    if wanted.words and not found.total:
        return replace(found, wanted=replace(wanted, forgives=True))
    return found


def page_of(
    access: DatasetAccess, asked: ListingQuestion, *, after: str | None, limit: int
) -> tuple[Sequence[ListedOverview], str | None]:
    """Return a page, and the cursor of the next one (None at the end). Raises
    `MalformedCursor`."""
    order = asked.order
    behind = None if after is None else read_cursor(after, order.by)
    found = access.overviews.page(asked.wanted, order, after=behind, limit=limit + 1)
    page = found[:limit]
    return page, cursor_behind(page[-1], order.by) if len(found) > limit else None


def list_datasets(
    access: DatasetAccess, actor: Actor, *, account: str | None, after: str | None, limit: int
) -> tuple[list[DatasetEntry], str | None]:
    """Return a page of datasets that the actor may read, ordered by alias, and the cursor of the
    next page (None at the end)."""
    asked = question(access, actor, ListingRequest(account=account))
    page, more = page_of(access, asked, after=after, limit=limit)
    return [listed.entry for listed in page], more


def _words(search: str) -> tuple[str, ...]:
    """Return the words of a search. A search of punctuation only gets a word that no dataset has,
    so that it finds nothing."""
    if len(search) > MAX_SEARCH_CHARS:
        raise BadInput(
            "SearchTooLong",
            f"a search has {MAX_SEARCH_CHARS} characters at most, this one {len(search)}",
        )
    words = words_of(search)
    if len(words) > MAX_SEARCH_WORDS:
        raise BadInput(
            "SearchTooLong",
            f"a search has {MAX_SEARCH_WORDS} different words at most, this one {len(words)}",
        )
    return words or ((_IN_NO_WORD,) if search.strip() else ())


def _one_of(known: type[_Word], text: str, error: Callable[[str], BadInput], what: str) -> _Word:
    try:
        return known(text)
    except ValueError:
        names = ", ".join(str(one).lower() for one in known)  # type: ignore[attr-defined]
        raise error(f"{what} is one of {names}; not {text[:50]!r}") from None
