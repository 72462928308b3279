"""Requests to a feed: options to a query of the node's engine, rows to JSON, pages by a link.

A link to the next page has the block as of which the first page was read, so pages are of one
state of the dataset, whatever is added meanwhile.

Source: OData Protocol 4.01, "System Query Options", "Server-Driven Paging"; JSON Format 4.01.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from anyio import to_thread
from pydantic import Field

from odf_protocol.errors import BadInput
from odf_protocol.sql_text import quoted_name
from odf_storage.datasets.query.messages import Form, TableView
from odf_storage.datasets.query.tables import schema_of
from odf_storage.runtime.environment import BaseSettings
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.actors import Actor
from ..query.background import QueryBody, checked
from ..query.engine import InvalidQuery
from ..query.inputs import DatasetPin, QueryInputs
from ..query.query import Queries
from ..query.verify import gathered
from ..read.exact_values import exact_rows, plain_leaf
from .filters import filter_sql, not_in_filter, order_sql
from .model import KEY, EntityType, Property, entity_type

if TYPE_CHECKING:
    import pyarrow as pa

MOST_NUMBER = 2**53
CONTEXT, COUNT, NEXT = "@odata.context", "@odata.count", "@odata.nextLink"
_OUT_OF_RANGE = "a number or a time in it is out of the range of what it is compared with"
_TOKEN = re.compile(r"(f[0-9a-f]{8,200})~([0-9]{1,16})~([0-9]{0,19})", re.ASCII)
KNOWN = ("filter", "select", "orderby", "top", "skip", "count", "skiptoken", "format")


class ODataSettings(BaseSettings):
    """Read from `ODF_ODATA_…`."""

    PREFIX: ClassVar[str] = "ODF_ODATA_"

    page_rows: int = Field(
        2_000, ge=1, description="Most rows of a page of a feed; the next one is linked."
    )
    datasets: int = Field(
        500, ge=1, description="Most datasets that the metadata of one account describe."
    )


def invalid_option(name: str, why: str) -> BadInput:
    """A query option has no value that this feed knows."""
    return BadInput("InvalidQueryOption", f"${name} {why}", option=name)


class PageStart(NamedTuple):
    """Where a page begins: the block, the rows that earlier pages had, and the offset of the last
    of them, if the order is that of offsets."""

    block: str
    done: int = 0
    after: int | None = None

    def __str__(self) -> str:
        return f"{self.block}~{self.done}~{'' if self.after is None else self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedAsked:
    """The options of a request. An empty text means that the option was not given."""

    filter: str = ""
    select: str = ""
    orderby: str = ""
    top: int | None = None
    skip: int = 0
    count: bool = False
    place: PageStart | None = None

    @classmethod
    def parse(cls, given: Sequence[tuple[str, str]]) -> FeedAsked:
        """Parse query options, with or without their dollar sign. Raises `InvalidQueryOption`."""
        found: dict[str, str] = {}
        for key, text in given:
            name = key.removeprefix("$")
            if name not in KNOWN:
                known = ", ".join(f"${each}" for each in KNOWN)
                raise invalid_option(name[:50], f"is not known here; known are {known}")
            if name in found:
                raise invalid_option(name, "is given twice")
            found[name] = text
        if found.get("format", "json").partition(";")[0] not in ("json", "application/json"):
            raise invalid_option("format", "is json")
        count = found.get("count", "false")
        if count not in ("true", "false"):
            raise invalid_option("count", "is true or false")
        return cls(
            filter=found.get("filter", ""),
            select=found.get("select", ""),
            orderby=found.get("orderby", ""),
            top=_number("top", found["top"]) if "top" in found else None,
            skip=_number("skip", found.get("skip", "0")),
            count=count == "true",
            place=_place(found["skiptoken"]) if "skiptoken" in found else None,
        )


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= MOST_NUMBER):
        raise invalid_option(name, f"is a number of rows, not {text[:30]!r}")
    return int(text)


def _place(text: str) -> PageStart:
    match = _TOKEN.fullmatch(text)
    if match is None:
        raise invalid_option("skiptoken", "is none that a page gave; leave it out")
    return PageStart(match[1], int(match[2]), int(match[3]) if match[3] else None)


class Caller(NamedTuple):
    """Who asks: the actor, and the caller whose share it uses."""

    actor: Actor
    share: str


@dataclass(frozen=True, slots=True)
class EntitySet:
    """A dataset as of a block, under its name in the feed."""

    entry: DatasetEntry
    name: str
    view: TableView
    kind: EntityType
    block: str


@dataclass(frozen=True)
class Feeds:
    """Reads feeds. Use it in the thread of the event loop."""

    inputs: QueryInputs
    queries: Queries
    page_rows: int
    datasets: int

    def entity_set(
        self, actor: Actor, entry: DatasetEntry, name: str, view: TableView, block: str | None
    ) -> EntitySet:
        """Return a dataset as of a block, by default its head. Call it in a thread. Raises
        `PinnedBlockNotFound`."""
        pin = DatasetPin(id=str(entry.id), alias=str(entry.id), block_hash=block)
        [source] = self.inputs.sources(actor, "", [pin])
        kind = entity_type(str(entry.alias.name), schema_of(source.outline))
        return EntitySet(entry, name, view, kind, str(source.outline.head))

    async def page(
        self, of: EntitySet, asked: FeedAsked, url: str, caller: Caller, *, exact: bool
    ) -> dict[str, Any]:
        """Return a page. `url` is the address of the set; `exact` asks for large numbers as texts.

        Raises:
            InvalidQueryOption, InvalidFilter, and the errors of `Queries.begin`.
        """
        known = of.kind.by_name
        shown = _selected(asked.select, known)
        where = [filter_sql(asked.filter, known)] if asked.filter else []
        order = order_sql(asked.orderby, known) if asked.orderby else []
        place = asked.place or PageStart(of.block)
        left = MOST_NUMBER if asked.top is None else max(asked.top - place.done, 0)
        most = min(self.page_rows, left)
        told: dict[str, Any] = {CONTEXT: _context(url, of.name, asked.select)}
        if asked.count:
            told[COUNT] = await self.count(of, where, caller)
        skip = asked.skip + place.done
        if place.after is not None and not order:
            where, skip = [*where, f'"{KEY}" > {place.after}'], 0
        columns = _columns([*shown, known[KEY]] if KEY in known else shown)
        by = ", ".join([*order, f'"{KEY}"'] if KEY in known else order)
        rows = await self._rows(of, columns, where, by, (skip, most + (most < left)), caller)
        leaf = _exact_leaf if exact else _leaf
        page = await to_thread.run_sync(exact_rows, rows, leaf)
        has_more = len(page) > most
        told["value"] = [_entity(row, shown) for row in page[:most]]
        if has_more:
            last = page[most - 1].get(KEY) if not order and KEY in known else None
            after = (
                None if last is None else int(bytes(last) if type(last) is msgspec.Raw else last)
            )
            told[NEXT] = _next(url, asked, PageStart(of.block, place.done + most, after))
        return told

    async def count(self, of: EntitySet, where: Sequence[str], caller: Caller) -> int:
        """Return the number of all rows that meet the conditions."""
        table = await self._rows(of, "count(*) AS n", where, "", (0, 1), caller)
        return int(table.column("n")[0].as_py())

    async def _rows(
        self,
        of: EntitySet,
        columns: str,
        where: Sequence[str],
        by: str,
        part: tuple[int, int],
        caller: Caller,
    ) -> pa.Table:
        import pyarrow as pa  # slow to load

        alias = str(of.entry.id)
        sql = f'SELECT {columns} FROM "{alias}"'  # noqa: S608 - built of quoted names and literals
        sql += f" WHERE {' AND '.join(where)}" if where else ""
        sql += f" ORDER BY {by}" if by else ""
        pin = DatasetPin(id=alias, alias=alias, block_hash=of.block)
        body = QueryBody(
            query=sql, projection=of.view.value, datasets=[pin], skip=part[0], limit=part[1]
        )
        most = max(self.queries.settings.query_max_rows, part[1])
        wanted = checked(body, form=Form.ARROW, max_rows=most)
        try:
            _, data, _ = await gathered(self.queries, caller.actor, caller.share, wanted)
        except InvalidQuery:
            if not where:
                raise
            raise not_in_filter(_OUT_OF_RANGE) from None
        with pa.ipc.open_stream(data) as stream:
            return stream.read_all()


def _selected(text: str, known: Mapping[str, Property]) -> list[Property]:
    """Return the properties of `$select`, all without one. Raises `InvalidQueryOption`."""
    names = [name.strip() for name in text.split(",")] if text else []
    if not names or "*" in names:
        return list(known.values())
    for name in names:
        if name not in known:
            raise invalid_option("select", f"names {name[:100]!r}, which is no property")
    return [known[name] for name in dict.fromkeys(names)]


def _columns(shown: Sequence[Property]) -> str:
    names = dict.fromkeys(each.column for each in shown)
    return ", ".join(map(quoted_name, names))


def _entity(row: Mapping[str, Any], shown: Sequence[Property]) -> dict[str, Any]:
    return {each.name: _value(row[each.column], each) for each in shown}


def _value(value: Any, kind: Property) -> Any:
    """Return the value with the names of OData for members of structs."""
    if isinstance(value, list):
        return [_value(each, kind) for each in value]
    if isinstance(value, dict):
        return {each.name: _value(value[each.column], each) for each in kind.members}
    return value


def _exact_leaf(array: pa.Array) -> list[Any]:
    """As `_leaf`, with numbers of more than 53 bits as texts: `IEEE754Compatible=true`."""
    from pyarrow import types

    told = _leaf(array)
    if types.is_int64(array.type) or types.is_uint32(array.type):
        return [None if each is None else str(each) for each in told]
    if types.is_floating(array.type):
        return told
    return [bytes(each).decode() if isinstance(each, msgspec.Raw) else each for each in told]


def _leaf(array: pa.Array) -> list[Any]:
    """Return the values of a column: decimals are numbers with all their digits, bytes are
    base64url."""
    from pyarrow import types

    from odf_protocol.columns.arrow_values import is_binary

    kind = array.type
    if types.is_decimal(kind) or types.is_uint64(kind):
        told = plain_leaf(array)
        return [None if each is None else msgspec.Raw(str(each).encode()) for each in told]
    if is_binary(kind):
        raw = array.to_pylist()
        return [None if each is None else urlsafe_b64encode(each).decode() for each in raw]
    return plain_leaf(array)


def _context(url: str, name: str, select: str) -> str:
    root = url.rpartition("/")[0]
    return f"{root}/$metadata#{name}" + (f"({select})" if select else "")


def _next(url: str, asked: FeedAsked, place: PageStart) -> str:
    """Return the address of the next page, with the options of this one."""
    options: dict[str, str] = {
        "$filter": asked.filter,
        "$select": asked.select,
        "$orderby": asked.orderby,
        "$top": "" if asked.top is None else str(asked.top),
        "$skip": str(asked.skip or ""),
        "$count": "true" if asked.count else "",
        "$skiptoken": str(place),
    }
    return f"{url}?{urlencode({k: v for k, v in options.items() if v}, quote_via=quote, safe='$~')}"
