"""The contents of shared tables: versions, metadata, and files as of a version.

Parse a client's hints about the wanted rows; files without such rows can be omitted.

A hint that we do not understand restricts nothing, since the client filters again. Values are
compared only with columns of the same kind, because engines differ for other kinds. Source: Delta
Sharing protocol, "JSON predicates for Filtering", "SQL Expressions for Filtering".

Find the slices that may have rows that match hints, from the chain and the learned bounds.

No file is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from anyio import to_thread

from odf_protocol.delta.schemas import DeltaSchema
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.kartothek.keys import UnsupportedColumn
from odf_protocol.kartothek.partition_values import kind_of
from odf_protocol.kartothek.predicates import Op, Predicate, Term, term_mask
from odf_protocol.typed import decode_json
from odf_storage.datasets.pruning.bounds import (
    Mask,
    bounds_indices,
    columns_of,
    predicate_of,
    slices_to_open,
)
from odf_storage.datasets.pruning.filters import Filter, MalformedFilter
from odf_storage.datasets.pruning.learned import Bounds, LearnedBounds
from odf_storage.datasets.read.scan import loosened
from odf_storage.datasets.read.view import View
from odf_storage.datasets.verify.source import DatasetSource
from odf_storage.datasets.versions.dead_rows import DeadRows
from odf_storage.datasets.versions.versions import Version

from ..auth.dataset_access import DatasetAccess
from ..auth.signed_urls import SignedUrls
from ..history.versions import Versioned, VersionReads
from .files import slice_files
from .lines import Capabilities, Line, LineForm, TableTold, file_line, head_lines
from .names import VIEWS, SharedTable

MOST = 100
"""Limit of comparisons, of alternatives, and of levels of a predicate."""


class Hint(NamedTuple):
    """A comparison of a column, and the kinds of columns (`kind_of`) to which it applies."""

    filter: Filter
    kinds: frozenset[str]


Alternatives = Sequence[tuple[Hint, ...]]
"""A wanted row satisfies all comparisons of at least one of these tuples."""
ANYTHING: Alternatives = ((),)
_NUMBERS = frozenset({"integer", "float", "decimal"})
_KINDS = {
    "bool": frozenset({"bool"}),
    "int": _NUMBERS,
    "long": _NUMBERS,
    "float": _NUMBERS,
    "double": _NUMBERS,
    "string": frozenset({"text"}),
    "date": frozenset({"date"}),
    "timestamp": frozenset({"timestamp with zone"}),
}
_QUOTED = frozenset({"text", "date", "timestamp with zone"})
_COMPARED = {
    "equal": "eq",
    "lessThan": "lt",
    "lessThanOrEqual": "le",
    "greaterThan": "gt",
    "greaterThanOrEqual": "ge",
}
_TURNED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_WRITTEN = {"=": "eq", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_NAME = r"(\w+|`(?:[^`]|``)+`)"
_VALUE = r"('(?:[^'\\]|'')*'|[+-]?\d+(?:\.\d+)?)"
_OPERATOR = r"\s*(=|<=?|>=?)\s*"
_COLUMN_FIRST = re.compile(rf"\s*{_NAME}{_OPERATOR}{_VALUE}\s*")
_VALUE_FIRST = re.compile(rf"\s*{_VALUE}{_OPERATOR}{_NAME}\s*")


class _Node(msgspec.Struct):
    """A node of a JSON predicate."""

    op: str
    children: list[_Node] = []
    name: str = ""
    value: str = ""
    value_type: str = msgspec.field(name="valueType", default="")


def hints_of(tree: str | None, texts: Iterable[str] = ()) -> Alternatives:
    """Return the hints of a JSON predicate and SQL texts; a wanted row satisfies all of them."""
    found = _tree(tree)
    for text in islice(texts, MOST):
        one = _sql(text)
        if one is not None:
            found = _all([found, ((one,),)])
    return found


def _tree(text: str | None) -> Alternatives:
    try:
        return ANYTHING if not text else _of(decode_json(text.encode(), _Node), 0)
    except (msgspec.DecodeError, UnicodeError):
        return ANYTHING


def _of(node: _Node, depth: int) -> Alternatives:
    if depth > MOST:
        return ANYTHING
    if node.op in ("and", "or"):
        if node.op == "or" and len(node.children) > MOST:
            return ANYTHING
        parts = [_of(each, depth + 1) for each in node.children[:MOST]]
        return _all(parts) if node.op == "and" else _any(parts)
    one = _compared(node)
    return ANYTHING if one is None else ((one,),)


def _all(parts: Iterable[Alternatives]) -> Alternatives:
    found = ANYTHING
    for part in parts:
        terms = len(found) * sum(map(len, part)) + len(part) * sum(map(len, found))
        if terms <= MOST:
            found = [(*one, *other) for one, other in product(found, part)]
    return found


def _any(parts: Sequence[Alternatives]) -> Alternatives:
    found = [each for part in parts for each in part]
    return found if found and sum(map(len, found)) <= MOST else ANYTHING


def _compared(node: _Node) -> Hint | None:
    operator = _COMPARED.get(node.op)
    if operator is None or len(node.children) != 2:
        return None
    left, right = node.children
    if (left.op, right.op) == ("literal", "column"):
        left, right, operator = right, left, _TURNED[operator]
    kinds = _KINDS.get(left.value_type)
    if (left.op, right.op) != ("column", "literal") or kinds is None:
        return None
    same = right.value_type == left.value_type
    return Hint(Filter(left.name, operator, (right.value,)), kinds) if same else None


def _sql(text: str) -> Hint | None:
    """Parse one comparison of a column with a value, in either order."""
    if (match := _COLUMN_FIRST.fullmatch(text)) is not None:
        name, operator, value = match[1], _WRITTEN[match[2]], match[3]
    elif (match := _VALUE_FIRST.fullmatch(text)) is not None:
        value, operator, name = match[1], _TURNED[_WRITTEN[match[2]]], match[3]
    else:
        return None
    if name[0] == "`":
        name = name[1:-1].replace("``", "`")
    if value[0] == "'":
        return Hint(Filter(name, operator, (value[1:-1].replace("''", "'"),)), _QUOTED)
    return Hint(Filter(name, operator, (value,)), _NUMBERS)


_LATEST = {Op.EQUAL: Op.GREATER_EQUAL, Op.GREATER: Op.GREATER, Op.GREATER_EQUAL: Op.GREATER_EQUAL}
"""Comparison that the latest time of a slice must satisfy if one of its rows satisfies the key."""


class Recorded:
    """An index of the system time column: rows are not newer than their block."""

    def __init__(self, column: str, times: Sequence[Instant]) -> None:
        self._column = column
        self._millis = pa.array([each.millis + 1 for each in times], pa.int64())

    def may_hold(self, term: Term) -> Mask | None:
        is_told = term.column == self._column and term.op in _LATEST
        if not is_told or not pa.types.is_timestamp(term.value.type):
            return None
        latest = self._millis.cast(pa.timestamp("ms", "UTC"))
        wanted = term.value.cast(latest.type, safe=False)
        found = term_mask(Term(term.column, _LATEST[term.op], wanted), latest)
        return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def hinted_columns(hints: Alternatives) -> list[str]:
    """Return the compared columns, each once."""
    return list(dict.fromkeys(hint.filter.column for each in hints for hint in each))


def may_hold_hinted(
    view: View, hints: Alternatives, bounds: Mapping[str, Sequence[Bounds | None]]
) -> Mask:
    """Return for each slice of the view whether it may match; `bounds` are in slice order."""
    schema = loosened(pa.schema([]) if view.schema is None else view.schema)
    predicate = [_terms(each, schema) for each in hints]
    if not all(predicate):
        return np.ones(len(view.slices), bool)
    intervals = [
        (each.start, each.end) for each in (data.offset_interval for data, _ in view.slices)
    ]
    known = bounds_indices(
        columns_of(predicate), schema, bounds, view.vocab.offset_column, intervals
    )
    times = Recorded(view.vocab.system_time_column, [recorded for _, recorded in view.slices])
    return slices_to_open(len(view.slices), predicate, schema, [*known, times])


def _terms(hints: Iterable[Hint], schema: pa.Schema) -> list[Term]:
    """Return the terms of one alternative that can be evaluated."""
    found: list[Term] = []
    for hint in hints:
        if _is_asked(hint, schema):
            try:
                told: Predicate = predicate_of([hint.filter], schema)
            except MalformedFilter:
                continue
            found += told[0]
    return found


def _is_asked(hint: Hint, schema: pa.Schema) -> bool:
    """Return whether a hint can be evaluated. Columns of short floats are excluded: engines widen
    them to compare, while we round the value."""
    if schema.get_field_index(hint.filter.column) < 0:
        return False
    wanted = schema.field(hint.filter.column).type
    try:
        kind = kind_of(wanted)
    except UnsupportedColumn:
        return False
    return kind in hint.kinds and not (kind == "float" and wanted != pa.float64())


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """A version by number or by time; by default the newest."""

    version: int | None = None
    timestamp: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedFiles:
    """The wanted part of a version. Hints may be ignored."""

    when: When
    limit: int | None = None
    """Limit of rows that the client needs. It is not used with hints, since it is unknown how many
    files have the matching rows."""
    hints: Alternatives | None = None
    """None means that the client sent no hints."""


@dataclass(frozen=True, slots=True)
class Told:
    """A response: its version, its format, its lines."""

    version: int
    form: LineForm
    lines: list[Line]


@dataclass(frozen=True)
class SharedTables:
    """Makes responses about shared tables."""

    reads: VersionReads
    access: DatasetAccess
    urls: SignedUrls
    bounds: LearnedBounds

    async def newest(self, table: SharedTable, caller: str, *, since: Instant | None = None) -> int:
        """Return the newest version, or the oldest since a time. Raises `NoSuchVersion`."""
        found = await self.reads.of(table.entry, caller)
        return found.versions.last if since is None else found.versions.since(since)

    async def metadata(self, table: SharedTable, can: Capabilities, caller: str) -> Told:
        """Return protocol and metadata of the newest version. Raises the same errors as `files`."""
        found, number, dead = await self._as_of(table, When(), caller)
        return await to_thread.run_sync(self._told, table, found, number, dead, can, None, "")

    async def files(
        self, table: SharedTable, wanted: WantedFiles, can: Capabilities, base: str, caller: str
    ) -> Told:
        """Return the files of a version, with URLs below `base`.

        Raises:
            NoSuchVersion, BadVersion, NeedsDeltaFormat, NotInDeltaFormat.
            The errors of `VersionReads`.
        """
        found, number, dead = await self._as_of(table, wanted.when, caller)
        return await to_thread.run_sync(self._told, table, found, number, dead, can, wanted, base)

    async def _as_of(
        self, table: SharedTable, when: When, caller: str
    ) -> tuple[Versioned, int, DeadRows]:
        found = await self.reads.of(table.entry, caller)
        number = version_of(found, when)
        return found, number, await self.reads.dead_rows(found, number, table.view, caller)

    def _told(
        self,
        table: SharedTable,
        found: Versioned,
        number: int,
        dead: DeadRows,
        can: Capabilities,
        wanted: WantedFiles | None,
        base: str,
    ) -> Told:
        schema = found.schema(number)
        versions = found.versions[: number + 1]
        form = can.form(has_dead_rows=bool(dead), foreign=DeltaSchema(schema).foreign)
        about = DeltaSchema(schema, plain=form is LineForm.PARQUET)
        lines = head_lines(
            form, told_of(table, found, versions, number, about, has_dead_rows=bool(dead))
        )
        if wanted is not None:
            kept = self._kept(found, versions, dead, wanted)
            files = slice_files(self.urls, self.access, table, found, base)
            lines += [file_line(form, each) for each in files.told(kept, dead)]
        return Told(number, form, lines)

    def _kept(
        self, found: Versioned, versions: Sequence[Version], dead: DeadRows, wanted: WantedFiles
    ) -> Sequence[Version]:
        """Return versions that may have wanted rows; without hints, only enough for the limit."""
        if wanted.hints is not None:
            return self._hinted(found, versions, wanted.hints)
        if wanted.limit is None:
            return versions
        kept: list[Version] = []
        left = wanted.limit
        for each in versions:
            if left <= 0:
                break
            bitmap = dead.get(str(each.data.physical_hash))
            kept.append(each)
            left -= each.rows - (0 if bitmap is None else bitmap.cardinality)
        return kept

    def _hinted(
        self, found: Versioned, versions: Sequence[Version], hints: Alternatives
    ) -> Sequence[Version]:
        columns = hinted_columns(hints)
        if not columns:
            return versions
        view = found.outline.on(DatasetSource(found.dataset))
        names = [str(data.physical_hash) for data, _ in view.slices]
        bounds = self.bounds.of(str(found.dataset.id), columns, names)
        is_kept = may_hold_hinted(view, hints, bounds)
        return [each for each in versions if is_kept[each.number]]


def version_of(found: Versioned, when: When) -> int:
    """Return the number of a version. Raises `NoSuchVersion`, `BadVersion`."""
    if when.version is not None and when.timestamp is not None:
        raise BadInput("BadVersion", "ask by version or by timestamp, not by both")
    if when.version is not None:
        return found.versions.check(when.version)
    return found.versions.last if when.timestamp is None else found.versions.at(when.timestamp)


def told_of(
    table: SharedTable,
    found: Versioned,
    versions: Sequence[Version],
    number: int,
    schema: DeltaSchema,
    *,
    has_dead_rows: bool = False,
    is_feed: bool = False,
) -> TableTold:
    """Describe the table as of a version whose files are those of `versions`."""
    view = next(name for name, each in VIEWS.items() if each is table.view)
    return TableTold(
        id=found.history.identity(found.dataset.id, view),
        name=str(table.entry.alias.name).replace(".", "_"),
        schema=schema,
        version=number,
        size=sum(each.data.size for each in versions),
        files=len(versions),
        block=str(versions[-1].block if versions else found.outline.head),
        created_ms=table.entry.created_at.millis,
        has_dead_rows=has_dead_rows,
        is_feed=is_feed,
    )
