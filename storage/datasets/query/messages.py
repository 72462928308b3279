"""What the service and the process of a query say to each other: frames of a kind and a length.

service                          process
Question  ────────────────────►  confines itself, plans, judges
          ◄────────────────────  Wanted: a file of an index, as often as it needs one
an open file, or none  ───────►
          ◄────────────────────  Planned: columns, datasets used, slices needed
LINKED    ────────────────────►  computes: the tables have links to the slices it needs
          ◄────────────────────  rows in the format that was asked for, piece by piece
          ◄────────────────────  End: why there is no more
"""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import Any, Literal

import msgspec

from ..kartothek.index_place import IndexRef
from ..pruning.learned import Bounds

FRAME = struct.Struct("=cQ")
"""Before each frame: its kind, its length. Both ends are on one machine."""
QUESTION, INDEX, PLANNED, LINKED, PIECE, END = b"Q", b"I", b"P", b"L", b"D", b"E"
PIECE_BYTES = 256 * 1024
MAX_PLANNED_BYTES = 64 << 20
"""Longest of the frames that a process sends."""


class View(StrEnum):
    """What of a dataset is a table; values follow the name, behind `@`."""

    CHANGELOG = ""
    STATE = "state"
    FACTS = "facts"


class Form(StrEnum):
    """How rows are written: shapes of JSON values, and files."""

    AOS = "JsonAoS"
    SOA = "JsonSoA"
    AOA = "JsonAoA"
    CSV = "csv"
    NDJSON = "ndjson"
    PARQUET = "parquet"
    ARROW = "arrow"


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """A data slice, as far as a plan looks at it: its first and last offset."""

    start: int
    end: int


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset as of a block. Its views are tables by the names given here."""

    names: dict[str, View]
    schema: Any
    """The data of a `DataSchema`."""
    offset: str
    operation: str
    system_time: str
    key: list[str]
    """Primary key; empty if there is none."""
    slices: list[Slice]
    """Oldest first."""
    folder: str
    """Where the files of its slices are."""
    bounds: dict[str, list[Bounds | None]] = {}
    """What is known of columns, in the order of the slices."""
    index: IndexRef | None = None
    """The node's own index of the dataset."""


class QueryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a query may take."""

    pool_bytes: int
    """Rows held before they are spilled."""
    process_bytes: int
    """All memory of its process, beyond what it starts with."""
    spill_bytes: int
    cpu_s: int
    max_bytes: int
    """Longest answer."""
    threads: int
    query_bytes: int
    query_terms: int
    query_depth: int


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What to compute, of which datasets, within which limits, and where to spill to."""

    query: str
    tables: list[Table]
    skip: int
    limit: int
    form: Form
    repeatable: bool
    """Whether the answer is to be the same whenever it is computed: keys of JSON are sorted, and
    what depends on the moment is unknown."""
    scratch: str
    """An empty folder of this query alone."""
    links: str
    """A folder of this query alone, which it only reads; in it a folder for each table."""
    limits: QueryLimits
    confinement: Literal["auto", "require", "off"]


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """A file of the index of a table. The answer is a frame with its handle, or without one."""

    table: int
    key: str


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the query is, before anything is read."""

    schema: Any
    """The data of a `DataSchema`: the columns of the answer."""
    used: dict[int, list[int]]
    """By number of the table: numbers of the slices that may hold rows of the answer."""


class Why(StrEnum):
    """Why an answer ended before its end."""

    QUERY = "query"
    LENGTH = "length"
    MEMORY = "memory"
    ENGINE = "engine"


class End(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no more; without a reason all was sent."""

    why: Why | None = None
    message: str = ""


def frame(kind: bytes, content: bytes | memoryview = b"") -> bytes:
    return FRAME.pack(kind, len(content)) + bytes(content)


def encoded(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value)
