"""The viewer: rows of a dataset as a table to look at, sorted and filtered by links and a form.

Columns of the dataset come first, then the offset, which leads to why the row is there; the other
columns of the system are behind a switch. The engine of queries sorts and filters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import msgspec
from anyio import from_thread

from odf_protocol.columns.column_names import UNSAID, ColumnTexts, texts_in
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.sql_text import quoted_name, quoted_text
from odf_storage.datasets.query.messages import Form

from ...auth.actors import Actor
from ...query.background import QueryBody, checked
from ...query.engine import InvalidQuery
from ...query.literals import (
    bool_sql,
    day_sql,
    exact_sql,
    float_sql,
    moment_sql,
)
from ...query.query import Queries, QueryRows
from ...query.verify import gathered
from ..frame.cells import NUMBERS, cell_text, kinds_of
from ..frame.views import ColumnSample, newest
from .blocks import Visit

ROWS = 100
MAX_NUMBER_CHARS = 19
MAX_VALUE_CHARS = 1000
SEARCHED = 50
"""Limit of the columns of texts that a search without a column looks into."""
DIGITS = 6
"""Most digits of a float, and of its fraction, in a cell; the title of the cell has all."""
VALUES: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("Int8", "Int16", "Int32", "Int64"), exact_sql),
    **dict.fromkeys(("UInt8", "UInt16", "UInt32", "UInt64"), exact_sql),
    **dict.fromkeys(("Float16", "Float32", "Float64"), float_sql),
    "Decimal": exact_sql,
    "Timestamp": lambda text: moment_sql(text).sql,
    "Date": day_sql,
    "String": quoted_text,
    "Bool": bool_sql,
}
"""Writes values that are compared with those of a column in SQL, by the kind of its type."""
OUT_OF_RANGE = "the value is out of the range of what it is compared with"
FLOATS = frozenset(kind for kind in NUMBERS if kind.startswith("Float"))
CONDITIONS = {
    "has": ("contains", "strpos(lower(cast({column} as varchar)), lower({text})) > 0"),
    "is": ("is", "{column} = {value}"),
    "not": ("is not", "{column} is distinct from {value}"),
    "from": ("is at least", "{column} >= {value}"),
    "to": ("is at most", "{column} <= {value}"),
    "null": ("is null", "{column} is null"),
    "there": ("is not null", "{column} is not null"),
}
"""Words and SQL of the conditions, by the names that they have in addresses."""
_FAR = {
    "is": "coalesce({column} = {value}, false)",
    "not": "coalesce({column} <> {value}, true)",
    "from": "coalesce({column} >= {value}, {column} is not null and {is_met})",
    "to": "coalesce({column} <= {value}, {column} is not null and {is_met})",
}
"""The conditions for a time that a column of nanoseconds does not reach."""
OPERATIONS = ("added", "retracted", "corrected from", "corrected to")
"""Words for operation types, by their numbers."""
ALONE = frozenset({"null", "there"})
"""Conditions that take no value."""


@dataclass(frozen=True, slots=True)
class CellText:
    """The text of a value, and all of it if the text is shorter."""

    text: str | None
    full: str | None = None


@dataclass(frozen=True, slots=True)
class Heading:
    """A column of a table; `link` sorts by it, or the other way if it is sorted."""

    name: str
    is_number: bool = False
    is_offset: bool = False
    link: str | None = None
    sorted: str | None = None
    """`ascending` or `descending`, if the rows are sorted by it."""
    said: ColumnTexts = UNSAID


@dataclass(frozen=True, slots=True)
class ViewerRow:
    """A row. `is_gone` means that a later row took it back."""

    cells: list[CellText]
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class ViewerTable:
    """Rows to be shown, newest first."""

    headings: list[Heading]
    lines: list[ViewerRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerWish:
    """What an address asks of the viewer: order, condition, and columns of the system."""

    sort: str = ""
    is_down: bool = False
    column: str = ""
    """Column of the condition; none means all columns of texts."""
    how: str = "has"
    value: str = ""
    has_system: bool = False

    @classmethod
    def parse(cls, asked: Mapping[str, str], kinds: Mapping[str, str]) -> ViewerWish:
        """Parse the parameters; `kinds` are the columns. Raises `UnknownColumn`,
        `MalformedFilter`."""
        sort, column = asked.get("sort", ""), asked.get("column", "")
        how, value = asked.get("how", "has"), asked.get("value", "")
        for name in (sort.removeprefix("-"), column):
            if name and name not in kinds:
                raise BadInput(
                    "UnknownColumn",
                    f"the dataset has no column {name[:50]!r}; its page lists the columns",
                )
        if how not in CONDITIONS or (how != "has" and not column):
            raise BadInput(
                "MalformedFilter",
                f"choose a column, and how to compare it: one of {', '.join(CONDITIONS)}",
            )
        if len(value) > MAX_VALUE_CHARS:
            raise BadInput("MalformedFilter", f"compare with {MAX_VALUE_CHARS} characters at most")
        return cls(
            sort=sort.removeprefix("-"),
            is_down=sort.startswith("-"),
            column=column,
            how=how,
            value=value,
            has_system="system" in asked,
        )

    @property
    def is_filtered(self) -> bool:
        return bool(self.value) or self.how in ALONE

    @property
    def is_query(self) -> bool:
        return bool(self.sort) or self.is_filtered

    def address(self, view: str, skip: int = 0, **changed: Any) -> str:
        """Return the query string of the page with the same rows, but for what is changed."""
        new = replace(self, **changed)
        given = {view: str(skip), "sort": f"-{new.sort}" if new.is_down else new.sort}
        if new.is_filtered:
            given |= {"column": new.column, "how": new.how, "value": new.value}
        if new.has_system:
            given["system"] = "1"
        return "?" + urlencode({name: text for name, text in given.items() if text})

    def sql(self, table: str, kinds: Mapping[str, str], offset: str) -> str:
        """Return the query of the rows; the newest come first where the order says nothing."""
        clauses = [f"select * from {quoted_name(table)}"]  # noqa: S608 - the columns are known ones
        if self.is_filtered:
            clauses.append(f"where {self._condition(kinds)}")
        order = [f"{quoted_name(offset)} desc"]
        if self.sort and self.sort != offset:
            way = "desc" if self.is_down else "asc"
            order.insert(0, f"{quoted_name(self.sort)} {way} nulls last")
        elif self.sort:
            order = [f"{quoted_name(offset)} {'desc' if self.is_down else 'asc'}"]
        return " ".join([*clauses, "order by", ", ".join(order)])

    def _condition(self, kinds: Mapping[str, str]) -> str:
        text, template = quoted_text(self.value), CONDITIONS[self.how][1]
        if not self.column:
            names = [name for name, kind in kinds.items() if kind == "String"][:SEARCHED]
            found = [template.format(column=quoted_name(name), text=text) for name in names]
            return " or ".join(found) or "false"
        column, kind, far = quoted_name(self.column), kinds[self.column], 0
        value = given = self.value if kind == "String" else self.value.strip()
        try:
            if "{value}" in template:
                value = VALUES.get(kind, quoted_text)(given)
                far = moment_sql(given).far if kind == "Timestamp" else 0
        except ValueError as bad:
            raise BadInput("MalformedFilter", f"column {self.column[:50]!r}: {bad}") from None
        if far:
            template = _FAR[self.how]
        is_met = (far > 0) == (self.how == "to")
        return template.format(column=column, text=text, value=value, is_met=is_met)


def number_cells(values: Sequence[Any]) -> list[CellText]:
    """Return the cells of a column of floats, with as many digits after the point in each as the
    values hold, but at most `DIGITS` digits in all."""
    digits = max((_digits(value) for value in values if _is_finite(value)), default=0)
    return [_number(value, digits) for value in values]


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _digits(value: float) -> int:
    """Return how many digits the value has behind the point, within `DIGITS` digits in all."""
    text = f"{value:.{DIGITS}g}"
    return 0 if "e" in text else len(text.partition(".")[2])


def _number(value: Any, digits: int) -> CellText:
    full = cell_text(value)
    if not _is_finite(value):
        return CellText(full)
    short = f"{value:.{DIGITS}g}"
    if "e" not in short:
        short = f"{value:.{min(digits, DIGITS)}f}"
    return CellText(short) if float(short) == value else CellText(short, full)


def cells_of(kind: str, values: Sequence[Any]) -> list[CellText]:
    """Return the cells of a column."""
    return (
        number_cells(values) if kind in FLOATS else [CellText(cell_text(each)) for each in values]
    )


def plain_table(schema: DataSchema, values: Sequence[Sequence[Any]]) -> ViewerTable:
    """Return a table of the rows of a query."""
    kinds = kinds_of(schema)
    names = [field.name for field in schema.fields]
    columns = zip(names, zip(*values, strict=True), strict=False)  # without rows no columns
    cells = [cells_of(kinds[name], column) for name, column in columns]
    return ViewerTable(
        [Heading(name, kinds[name] in NUMBERS) for name in names],
        [ViewerRow(list(row)) for row in zip(*cells, strict=True)],
    )


def newest_table(visit: Visit, found: ColumnSample, most: int) -> ViewerTable:
    """Return the last rows of what was read, newest first, as the page of the dataset shows
    them."""
    rows = {name: values[-most:][::-1] for name, values in found.columns.items()}
    return rows_table(visit, rows, ViewerWish(), view="rows")


def rows_table(
    visit: Visit, columns: Mapping[str, Sequence[Any]], wanted: ViewerWish, *, view: str
) -> ViewerTable:
    """Return a table of rows of the dataset with links that sort them."""
    vocab, kinds = visit.state.vocab, kinds_of(visit.state.data_schema)
    offset, operation = vocab.offset_column, vocab.operation_type_column
    first = [operation] if view == "changelog" else []
    system = [operation, vocab.system_time_column] if wanted.has_system else []
    own = [each for each in columns if each not in {offset, operation, vocab.system_time_column}]
    names = dict.fromkeys(each for each in (*first, *own, offset, *system) if each in columns)
    said = texts_in(visit.state.data_schema)
    headings = [
        Heading(
            name,
            said=said.get(name, UNSAID),
            is_number=kinds.get(name) in NUMBERS and name != operation,
            is_offset=name == offset,
            link=_sorting(wanted, view, name) if kinds.get(name) in VALUES else None,
            sorted=("descending" if wanted.is_down else "ascending")
            if wanted.sort == name
            else None,
        )
        for name in names
    ]
    shown = {
        name: [CellText(_operation(value)) for value in columns[name]]
        if name == operation
        else cells_of(kinds.get(name, ""), columns[name])
        for name in names
    }
    gone = _gone(visit, columns) if view == "changelog" else frozenset()
    offsets = columns.get(offset, ())
    return ViewerTable(
        headings,
        [
            ViewerRow(list(row), is_gone=number < len(offsets) and offsets[number] in gone)
            for number, row in enumerate(zip(*shown.values(), strict=True))
        ],
    )


def _sorting(wanted: ViewerWish, view: str, name: str) -> str:
    is_down = wanted.sort == name and not wanted.is_down
    return wanted.address(view, sort=name, is_down=is_down)


def _operation(value: Any) -> str | None:
    """Return the number of an operation with its word."""
    is_known = isinstance(value, int) and 0 <= value < len(OPERATIONS)
    return f"{value} {OPERATIONS[value]}" if is_known else cell_text(value)


ADDING = frozenset({0, 3})
"""Operations of rows that a later row may take back."""


def _gone(visit: Visit, columns: Mapping[str, Sequence[Any]]) -> frozenset[int]:
    """Return the offsets of those rows that are no longer current: added, and taken back since."""
    vocab = visit.state.vocab
    offsets = columns.get(vocab.offset_column, ())
    operations = columns.get(vocab.operation_type_column, ())
    added = {offset for offset, each in zip(offsets, operations, strict=True) if each in ADDING}
    if not added:
        return frozenset()
    column = quoted_name(vocab.offset_column)
    text = (
        f"select {column} from {quoted_name(visit.alias)}"  # noqa: S608 - a dataset and its column
        f" where {column} between {min(added)} and {max(added)}"
    )
    try:
        current, _ = asked_rows(visit.views.queries, visit.actor, visit.caller, text, limit=None)
    except NodeError:
        return frozenset()  # the rows are shown all the same
    return frozenset(added.difference(offset for (offset,) in current))


def asked_rows(
    queries: Queries, actor: Actor, caller: str, text: str, *, skip: int = 0, limit: int | None
) -> tuple[list[list[Any]], QueryRows]:
    """Run a query and return its rows. Without a limit, as many as a query may have. Raises the
    same errors as `Queries.begin`."""
    most = queries.settings.query_max_rows
    body = QueryBody(
        query=text, data_format=Form.AOA.value, skip=skip, limit=most if limit is None else limit
    )
    rows, data, _ = from_thread.run(gathered, queries, actor, caller, checked(body, max_rows=most))
    return msgspec.json.decode(data), rows


def rows(visit: Visit, asked: str) -> dict[str, Any]:
    """Return the current rows before the newest `asked`. Raises `NoNumber`, and the same errors as
    `Wanted.parse`."""
    return _page(visit, asked, view="rows")


def changelog(visit: Visit, asked: str) -> dict[str, Any]:
    """Return the rows as they were recorded before the newest `asked`. Raises the same errors as
    `rows`."""
    return _page(visit, asked, view="changelog")


def _page(visit: Visit, asked: str, *, view: str) -> dict[str, Any]:
    if not asked.isascii() or not asked.isdigit() or len(asked) > MAX_NUMBER_CHARS:
        raise BadInput(
            "NoNumber", f"{asked[:50]!r} is no number of rows; say how many of the newest to skip"
        )
    kinds = kinds_of(visit.state.data_schema)
    wanted = ViewerWish.parse(visit.asked, kinds)
    found = (_queried if wanted.is_query else _read)(visit, int(asked), wanted, view)
    return {
        "view": view,
        "records": visit.state.num_records,
        "skipped": int(asked),
        "wanted": wanted,
        "names": [name for name, kind in kinds.items() if kind in VALUES],
        "conditions": {name: words for name, (words, _) in CONDITIONS.items()},
        "system_link": wanted.address(view, int(asked), has_system=not wanted.has_system),
        "plain_link": wanted.address(view, value="", how="has", column="", sort="", is_down=False),
        **found,
    }


def _links(wanted: ViewerWish, view: str, skip: int, *, has_more: bool) -> dict[str, str | None]:
    return {
        "newer": wanted.address(view, max(0, skip - ROWS)) if skip else None,
        "older": wanted.address(view, skip + ROWS) if has_more else None,
    }


def _read(visit: Visit, skip: int, wanted: ViewerWish, view: str) -> dict[str, Any]:
    """Return the rows in the order in which they came."""
    is_log = view == "changelog"
    found = newest(visit.views, visit.entry, visit.caller, skip=skip, limit=ROWS, changelog=is_log)
    count = visit.state.num_records if found.standing is None else found.standing
    most = visit.views.tails.max_records
    turned = {name: values[::-1] for name, values in found.columns.items()}
    has_more = skip + ROWS < min(count, most - ROWS + 1)
    return {
        "count": count,
        "table": rows_table(visit, turned, wanted, view=view),
        "query": None,
        "is_unsure": found.is_unsure,
        "problem": found.problem,
        "most": most,
        **_links(wanted, view, skip, has_more=has_more),
    }


def _queried(visit: Visit, skip: int, wanted: ViewerWish, view: str) -> dict[str, Any]:
    """Return the rows that the engine of queries finds; what is wrong is told on the page."""
    table = f"{visit.alias}@changelog" if view == "changelog" else visit.alias
    schema = visit.state.data_schema
    values: list[list[Any]] = []
    names: list[str] = []
    text, problem = "", None
    try:
        text = wanted.sql(table, kinds_of(schema), visit.state.vocab.offset_column)
        values, rows = asked_rows(
            visit.views.queries, visit.actor, visit.caller, text, skip=skip, limit=ROWS + 1
        )
        names = [field.name for field in rows.schema.fields]
    except InvalidQuery as error:
        problem = OUT_OF_RANGE if wanted.is_filtered else error.message
    except NodeError as error:
        problem = error.message
    cut = {name: [row[at] for row in values[:ROWS]] for at, name in enumerate(names)}
    return {
        "count": None,
        "table": rows_table(visit, cut, wanted, view=view),
        "query": text,
        "is_unsure": False,
        "problem": problem,
        "most": None,
        **_links(wanted, view, skip, has_more=len(values) > ROWS),
    }
