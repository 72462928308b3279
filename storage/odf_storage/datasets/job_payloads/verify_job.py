"""The contract of a verification job: payload and result.

The job verifies each named dataset, and repeats the executions of derivatives. With a
`candidate` it verifies blocks that are stored but not in the chain yet, and moves the head
to them if they are valid. With a `gate` it hashes rows that are committed already.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from odf_protocol.typed import convert

from ..contents.slice_limits import GateLimits
from .ingest_job import RanReceipt
from .verify_report import VerifyReport

KIND = "verify"
MAX_LISTED = 1000
"""Limit of the problems, notes, warnings and data blocks (each) that a result lists per dataset."""


class VerifyPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to verify. Hashes and ids are text."""

    objects: bool = True
    rows: bool = True
    replay: bool = True
    after: str | None = None
    upto: str | None = None
    inputs: tuple[str, ...] = ()
    """Ids of other datasets to verify completely before this one: inputs the caller may see."""
    candidate: str | None = None
    """Block that becomes the head if it is valid."""
    expected: str | None = None
    """Head that the candidate was pushed onto."""
    force: bool = False
    """Let the candidate replace any head."""
    gate: GateLimits | None = None
    """Only hash the rows of received slices, within these limits."""
    requested_by: str | None = None


class VerifiedDataset(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result for one dataset."""

    id: str
    alias: str
    ok: bool
    replayed: int
    """Number of executions that gave the recorded result."""
    not_verifiable: int
    """Number of executions that could not be repeated here."""
    engines: tuple[str, ...]
    report: dict[str, Any]
    """As `odf-node verify --json` prints it."""
    error: str | None = None
    """Why the dataset could not be verified, if it could not."""
    ran: RanReceipt | None = None
    """Where its objects were verified, if they were."""


class VerifyAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The results for all datasets that were verified, inputs first."""

    ok: bool
    head: str | None
    """Head of the dataset of the job."""
    datasets: tuple[VerifiedDataset, ...]


def to_json(value: VerifyPayload | VerifyAnswer) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> VerifyPayload:
    return convert(value, VerifyPayload)


def answer_of(value: dict[str, Any]) -> VerifyAnswer:
    return convert(value, VerifyAnswer)


def listed(report: VerifyReport) -> dict[str, Any]:
    """Return the report as JSON, with at most `MAX_LISTED` entries in each list."""
    data = report.to_data()
    for name in ("problems", "notes", "warnings", "dataBlocks"):
        data[name] = data[name][:MAX_LISTED]
    return data
