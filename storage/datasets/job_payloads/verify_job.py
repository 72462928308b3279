"""The contract of a verification job: what a service asks and a worker answers.

The job looks at each named dataset, and repeats the executions of derivatives. With a
`candidate` it looks at blocks that are stored and not in the chain yet, and moves the head
onto them if they are valid. With a `gate` it hashes rows that count already.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from odf_node.protocol.typed import convert

from ..contents.slice_limits import GateLimits
from .ingest_job import RanReceipt
from .verify_report import VerifyReport

KIND = "verify"
MAX_LISTED = 1000
"""Problems, notes, warnings and data blocks of a dataset that the answer lists, each."""


class VerifyPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to look at. Hashes and ids as text."""

    objects: bool = True
    rows: bool = True
    replay: bool = True
    after: str | None = None
    upto: str | None = None
    inputs: tuple[str, ...] = ()
    """Ids of more datasets to look at whole, before this one: inputs the caller may see."""
    candidate: str | None = None
    """Block that becomes head if it is valid."""
    expected: str | None = None
    """Head that the candidate was pushed onto."""
    force: bool = False
    """The candidate replaces whatever is head."""
    gate: GateLimits | None = None
    """Rows of received slices are hashed within these limits, and nothing else is looked at."""
    requested_by: str | None = None


class VerifiedDataset(Struct, frozen=True, kw_only=True, rename="camel"):
    """What was found of one dataset."""

    id: str
    alias: str
    ok: bool
    replayed: int
    """Executions that gave what is recorded."""
    not_verifiable: int
    """Executions that could not be repeated here."""
    engines: tuple[str, ...]
    report: dict[str, Any]
    """As `odf-node verify --json` prints it."""
    error: str | None = None
    """Why it could not be looked at, if it could not."""
    ran: RanReceipt | None = None
    """Where its objects were looked at, if they were."""


class VerifyAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """All datasets that were looked at, inputs first."""

    ok: bool
    head: str | None
    """Of the dataset that was asked for."""
    datasets: tuple[VerifiedDataset, ...]


def to_json(value: VerifyPayload | VerifyAnswer) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> VerifyPayload:
    return convert(value, VerifyPayload)


def answer_of(value: dict[str, Any]) -> VerifyAnswer:
    return convert(value, VerifyAnswer)


def listed(report: VerifyReport) -> dict[str, Any]:
    """The report as JSON, its lists cut to what a job keeps."""
    data = report.to_data()
    for name in ("problems", "notes", "warnings", "dataBlocks"):
        data[name] = data[name][:MAX_LISTED]
    return data
