"""Messages between the service and the process of a query: frames with a kind and a length.

service                          process
Question  ────────────────────►  confines itself, plans, judges
          ◄────────────────────  Wanted: a file of an index, as often as it needs one
an open file, or none  ───────►
          ◄────────────────────  Planned: columns, datasets used, slices needed
LINKED    ────────────────────►  computes: the tables have links to the slices it needs
          ◄────────────────────  rows in the requested format, piece by piece
          ◄────────────────────  End: why the result is incomplete, or no reason

Forms in which SQL of the reference node names a dataset → the names of tables here.

Its `to_table` is a table function for the state of a dataset, and its tables are in the schema
`kamu.kamu`, as programs for databases write it, too: with catalogue and schema or the schema alone,
in quotes or not. Both would leave a plan that cannot be checked, so the text is changed.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import Any, Literal

import msgspec
import re2

from ..kartothek.index_place import IndexRef
from ..pruning.learned import Bounds

FRAME = struct.Struct("=cQ")
"""Header of a frame: its kind and length, in native byte order; both ends are on one machine."""
QUESTION, INDEX, PLANNED, LINKED, PIECE, END = b"Q", b"I", b"P", b"L", b"D", b"E"
PIECE_BYTES = 256 * 1024
MAX_PLANNED_BYTES = 64 << 20
"""Limit of the length in bytes of a frame that a query process sends."""


class TableView(StrEnum):
    """Views of a dataset as tables; the value follows the name of the dataset, after `@`."""

    CHANGELOG = "changelog"
    STATE = "state"
    FACTS = "facts"


class Form(StrEnum):
    """Output formats of rows: shapes of JSON values, and files."""

    AOS = "JsonAoS"
    SOA = "JsonSoA"
    AOA = "JsonAoA"
    CSV = "csv"
    NDJSON = "ndjson"
    PARQUET = "parquet"
    ARROW = "arrow"


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """The first and last offset of a data slice, which is all a plan needs of it."""

    start: int
    end: int


class QueryTable(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset as of a block. `names` has the table name of each of its views."""

    names: dict[str, TableView]
    schema: Any
    """A `DataSchema` as plain data."""
    offset: str
    operation: str
    system_time: str
    key: list[str]
    """Primary key; empty if there is none."""
    slices: list[Slice]
    """Oldest first."""
    folder: str
    """Path of the folder with the files of its slices."""
    bounds: dict[str, list[Bounds | None]] = {}
    """Known bounds by column, in the order of the slices."""
    index: IndexRef | None = None
    """The index that the node keeps of the dataset; None if it has none."""


class QueryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Resource limits of a query."""

    pool_bytes: int
    """Bytes of rows in memory before they are spilled."""
    process_bytes: int
    """Bytes of memory of its process, beyond what it starts with."""
    spill_bytes: int
    cpu_s: int
    max_bytes: int
    """Limit of the length of the result in bytes."""
    threads: int
    query_bytes: int
    query_terms: int
    query_depth: int


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A query with its datasets, limits and scratch folder."""

    query: str
    tables: list[QueryTable]
    skip: int
    limit: int
    form: Form
    repeatable: bool
    """Whether the result has to be the same at any time: keys of JSON are sorted, and functions
    that depend on the time are unknown."""
    scratch: str
    """An empty folder for this query only."""
    links: str
    """A read-only folder for this query only, with a folder for each table."""
    limits: QueryLimits
    values: bytes | None = None
    """An Arrow stream with one row: the values of the parameters. Empty if they come later, None if
    the query may have none."""
    confinement: Literal["auto", "require", "off"]


class WantedIndex(msgspec.Struct, frozen=True, array_like=True):
    """A request for a file of the index of a table. The response is a frame with an open file, or
    without one."""

    table: int
    key: str


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of the query, before it reads any slice."""

    schema: Any
    """A `DataSchema` as plain data: the columns of the result."""
    used: dict[int, list[int]]
    """Numbers of the slices that may have rows of the result, by number of the table."""
    adds_floats: bool = False
    """Whether digits of the result depend on the order in which floats are added."""
    parameters: bytes = b""
    """Schema message of Arrow with the parameters of the query, if their values are missing."""


class Why(StrEnum):
    """Reasons why a result is incomplete."""

    QUERY = "query"
    LENGTH = "length"
    MEMORY = "memory"
    ENGINE = "engine"


class QueryEnd(msgspec.Struct, frozen=True, kw_only=True):
    """End of the result; without a reason, it is complete."""

    why: Why | None = None
    message: str = ""
    line: int | None = None
    column: int | None = None
    """Where the query is wrong, both counted from 1; None if that is not known."""


def frame(kind: bytes, content: bytes | memoryview = b"") -> bytes:
    return FRAME.pack(kind, len(content)) + bytes(content)


def encoded(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value)


_TOKEN = re2.compile(
    r"'(?:''|[^'])*(?:'|\z)|\"(?:\"\"|[^\"])*(?:\"|\z)|`[^`]*(?:`|\z)|--[^\n]*"
    r"|(?i:\b(?P<before>(?:from|join)\s+)(?:(?:kamu|\"kamu\"|`kamu`)\s*\.\s*){1,2})"
    r"|(?i:\b(?P<call>to_table)\s*\(\s*"
    r"(?:'(?P<text>[^'\"@]+)'|\"(?P<quoted>[^\"@]+)\"|(?P<bare>[a-z_][a-z0-9_]*))\s*\))"
)
"""A text, a quoted name or a comment, in which nothing is changed; or a form of the reference."""
_UNSURE = re2.compile(r"(?i)/\*|\$(?:[^0-9]|\z|[0-9]+[a-z_$])|\be'")
"""Beginnings of comments that nest, and of texts with an end or an escape of their own; not `$1`, a
parameter."""


def with_own_names(query: str) -> str:
    """Return the query with `"name@state"` in place of `to_table(name)`, `to_table('name')` and
    `to_table("name")`, and without `kamu.kamu.` or `kamu.` before names of tables.

    A query in which comments or texts may have other forms than -- and '…' is returned as it is.
    """
    if _UNSURE.search(query):
        return query
    changed: str = _TOKEN.sub(_own, query)
    return changed


def _own(found: Any) -> str:
    if found["before"] is not None:
        return str(found["before"])
    if found["call"] is None:
        return str(found[0])
    return f'"{found["text"] or found["quoted"] or found["bare"]}@{TableView.STATE}"'
