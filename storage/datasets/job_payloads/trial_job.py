"""The contract of a trial: datasets that are described and not made, and what would be in them.

A small sample of the rows of one root travels as the body of the job.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from odf_node.protocol.typed import convert

KIND = "trial"


class TrialDataset(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A dataset as its chain would begin: events as manifests spell them, inputs by id."""

    alias: str
    events: tuple[dict[str, Any], ...]
    """`Seed` first."""


class TrialPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to try, inputs before what is computed from them."""

    datasets: tuple[TrialDataset, ...]
    sample_of: str | None = None
    """Alias of the root that the body is a sample for."""
    source_name: str | None = None
    media_type: str | None = None
    input_rows: int
    """So many of the first rows of each input are read."""
    shown_rows: int
    """So many rows are told of each dataset."""


class TrialOutcome(Struct, frozen=True, kw_only=True, rename="camel"):
    """What would be in one dataset."""

    alias: str
    schema: dict[str, Any] | None = None
    """In ODF form; None: nothing tells it yet, see `reason`."""
    reason: str | None = None
    rows: tuple[dict[str, Any], ...] = ()
    """The first ones."""
    rows_read: int | None = None
    """Of the sample, or of the inputs; None: there were none to read."""
    rows_made: int | None = None
    warnings: tuple[str, ...] = ()
    engine: str | None = None
    engine_version: str | None = None


class TrialReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """What would be in each dataset, in the order of the payload."""

    datasets: tuple[TrialOutcome, ...]


def to_json(value: Struct) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> TrialPayload:
    return convert(value, TrialPayload)


def receipt_of(value: dict[str, Any]) -> TrialReceipt:
    return convert(value, TrialReceipt)
