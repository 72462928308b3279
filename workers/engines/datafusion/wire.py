"""What a worker and its process for a query on DataFusion say to each other, frame by frame.

The worker sends a `Question`. The answer is a `Head`, its batches, and an `End`; or an `End` alone.
"""

from __future__ import annotations

from typing import Any

import msgspec

QUESTION, HEAD, BATCH, END = b"Q", b"H", b"B", b"E"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A view over Parquet files. `columns`: those of it, in their order; none: all."""

    name: str
    paths: list[str]
    columns: list[str] | None = None
    number: int | None = None
    """If given, its rows have a number in a hidden column, made of this and their offset."""
    offset: str = "offset"
    """The column that has it."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    query: str
    alias: str | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What to compute, within which rules of confinement, and where rows may be spilled to."""

    sources: list[Source]
    steps: list[Step]
    rules: str
    spill: str
    pool: int
    """Bytes of rows the engine may hold before it spills."""
    iterates: bool
    """Whether it is one iteration of a derivative, whose rows come from one input row each."""
    operation: str | None = None
    """The operation column of the result, if the sources have rows that are changes."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    schema: bytes
    """An Arrow schema, serialized."""
    splits: bool = False
    """Nobody knows which rows of the result belong together."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no more; without a reason all rows were sent."""

    refused: str | None = None
    """What is wrong with the query, and facts about it."""
    facts: dict[str, Any] = {}
    failed: str | None = None
    """What is wrong with the engine."""
    starved: bool = False
    """There was no memory left for it."""


def encoded(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value)
