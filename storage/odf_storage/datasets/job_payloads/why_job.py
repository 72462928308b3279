"""The contract of a provenance job: payload, and the answer to why a row of a dataset is there.

The service has found out which inputs the caller may read. The worker names other inputs by their
ids, and reads nothing of them. `docs/provenance.md` says what the members of the answer mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from odf_protocol.typed import convert

from ...stores.ports.values import AccountId, JobSpec

KIND = "why"
REPRODUCED, NOT_REPRODUCED, UNKNOWN = "reproduced", "not-reproduced", "unknown"
"""Verdicts on rows of derivatives."""
COPIED = "copied"
"""The kind of a column that has the values of a column of an input."""
RANGES = 1000
"""Limit of ranges of offsets of one input in an answer; the next ones are on the next page."""


class WhyPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The row, and how far to follow it."""

    dataset: str
    offset: int | None = None
    key: tuple[str, ...] = ()
    """Values of the primary key, in place of an offset: the newest row that has them."""
    at: str
    """Block as of which the dataset is read."""
    columns: tuple[str, ...] = ()
    """Columns that the answer is about; empty: all."""
    depth: int = 1
    """Number of steps from row to row; the first is the row itself."""
    after: str | None = None
    """Where the page begins: input, role and offset of the last row of the page before."""
    readable: tuple[str, ...] = ()
    """Ids of the direct and indirect inputs that the caller may read."""
    sees_jobs: tuple[str, ...] = ()
    """Ids of datasets whose jobs the caller may see."""


class Cell(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where the value of a column is from."""

    kind: str
    """`source`, `copied`, `computed`, `condition` or `constant`."""
    columns: tuple[str, ...] = ()
    """Columns of the inputs, as `alias.column`."""
    expression: str | None = None
    """What is computed."""


class RowFacts(Struct, frozen=True, kw_only=True, rename="camel"):
    """A row, and whether it still stands."""

    dataset: str
    alias: str
    offset: int
    operation: str
    values: dict[str, Any]
    stands: bool
    undone_by: int | None = None
    """Offset of the row that retracted or corrected it."""
    undoes: int | None = None
    """Offset of the row that it retracts or corrects."""


class ReadInterval(Struct, frozen=True, kw_only=True, rename="camel"):
    """What an execution read of an input."""

    dataset: str
    prev_block: str | None
    new_block: str | None
    start: int | None = None
    end: int | None = None


class BlockFacts(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The block that added the row."""

    hash: str
    sequence_number: int
    system_time: str
    inputs: tuple[ReadInterval, ...] = ()


class How(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the row came to be: by a source of a root, or by the query of a derivative."""

    definition: str | None = None
    """Block that defines the source or the query."""
    source: str | None = None
    kind: str | None = None
    """`push` or `poll`."""
    merge: str | None = None
    url: str | None = None
    state: dict[str, str] | None = None
    job: str | None = None
    """The job that brought the row, for those who may see it."""
    account: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    queries: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()


class OffsetRange(Struct, frozen=True, kw_only=True, rename="camel"):
    """Offsets from `start` to `end`, both included."""

    start: int
    end: int
    role: str


class WhyInput(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The rows of one input from which a row was made."""

    dataset: str
    alias: str
    rows: tuple[OffsetRange, ...] = ()
    count: int = 0
    next: str | None = None
    """`after` of the next page."""
    unread: str | None = None
    """Why the rows are not named: the input is not here, or the caller may not read it."""


class Check(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Whether the named rows alone give the row."""

    verdict: str
    """`recorded` for rows of roots; `reproduced`, `not-reproduced` or `unknown` for others."""
    reason: str | None = None


class WhyStep(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The answer for one row; `inputs` are the answers for rows that it was made from."""

    row: RowFacts
    block: BlockFacts
    how: How
    why: tuple[WhyInput, ...] = ()
    where: dict[str, Cell] = {}
    check: Check
    notes: tuple[str, ...] = ()
    inputs: tuple[WhyStep, ...] = ()
    is_cut: bool = False
    """Whether further rows were not followed."""
    elsewhere: str | None = None
    """URL of the dataset at the node from which this one is pulled, which may know more."""


class WhyAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer, as of a block of the dataset."""

    at: str
    step: WhyStep


def spec_of(payload: WhyPayload, account: AccountId | None) -> JobSpec:
    """Return the job to submit. It names no dataset: only its own account may see the answer, which
    may have rows of inputs that other readers of the dataset may not read."""
    asked = to_json(payload)
    who = account or "anonymous"
    key = f"{KIND}:{who}:{msgspec.json.encode(asked, order='sorted').decode()}"
    return JobSpec(KIND, None, asked, lock=f"{KIND}:{who}", account=account, dedup_key=key)


def ranges(offsets: Iterable[int], role: str) -> list[OffsetRange]:
    """Return sorted offsets as ranges."""
    found: list[OffsetRange] = []
    for offset in offsets:
        if found and found[-1].end + 1 == offset:
            found[-1] = OffsetRange(start=found[-1].start, end=offset, role=role)
        else:
            found.append(OffsetRange(start=offset, end=offset, role=role))
    return found


def to_json(value: WhyPayload | WhyAnswer) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> WhyPayload:
    return convert(value, WhyPayload)


def answer_of(value: dict[str, Any]) -> WhyAnswer:
    return convert(value, WhyAnswer)
