"""The messages between a worker and its process for a query on DataFusion.

Each message is one frame. The worker sends a `Question`. The process answers with a `Head`, batches
and an `End`; or with an `End` alone.
"""

from __future__ import annotations

from typing import Any

import msgspec

QUESTION, HEAD, BATCH, END = b"Q", b"H", b"B", b"E"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A view over Parquet files. `columns` are its columns in their order; None means all."""

    name: str
    paths: list[str]
    columns: list[str] | None = None
    number: int | None = None
    """If given, rows have the hidden column `ROW`, computed from this number and their offset."""
    offset: str = "offset"
    """Name of the offset column."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    query: str
    alias: str | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The query, the rules of confinement, and the folder for spilled rows."""

    sources: list[Source]
    steps: list[Step]
    rules: str
    spill: str
    pool: int
    """Bytes of rows that the engine may keep in memory before it spills them."""
    iterates: bool
    """Whether this is one iteration of a derivative; each row then depends on one input row."""
    operation: str | None = None
    """The operation column of the result, if the sources have rows that are changes."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    schema: bytes
    """The Arrow schema of the rows, serialized."""
    splits: bool = False
    """Whether it is unknown which rows of the result form a correction."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an answer. Without a reason, all rows were sent."""

    refused: str | None = None
    """What is wrong with the query; `facts` has details."""
    facts: dict[str, Any] = {}
    failed: str | None = None
    """What is wrong with the engine."""
    starved: bool = False
    """Whether the process ran out of memory."""


def encoded(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value)
