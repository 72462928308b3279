"""The contract of a trial: descriptions of datasets, and what they would contain if they were made.

The body of the job may be a small sample of the rows of one root.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from odf_protocol.typed import convert

KIND = "trial"


class TrialDataset(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The first events of the chain of a dataset, in the form of manifests, with inputs by id."""

    alias: str
    events: tuple[dict[str, Any], ...]
    """The events; the first one is the `Seed`."""


class TrialPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The datasets to try; inputs are before the derivatives that use them."""

    datasets: tuple[TrialDataset, ...]
    sample_of: str | None = None
    """Alias of the root that the body is a sample for."""
    source_name: str | None = None
    media_type: str | None = None
    input_rows: int
    """Number of rows that are read of each input, the first ones."""
    shown_rows: int
    """Number of rows of each dataset in the receipt."""


class TrialOutcome(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one dataset would contain."""

    alias: str
    schema: dict[str, Any] | None = None
    """Schema in ODF form; None if it is not known yet, see `reason`."""
    reason: str | None = None
    rows: tuple[dict[str, Any], ...] = ()
    """The first rows."""
    rows_read: int | None = None
    """Rows read from the sample, or from the inputs; None if there were none to read."""
    rows_made: int | None = None
    warnings: tuple[str, ...] = ()
    engine: str | None = None
    engine_version: str | None = None


class TrialReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """What each dataset would contain, in the order of the payload."""

    datasets: tuple[TrialOutcome, ...]


def to_json(value: Struct) -> dict[str, Any]:
    return dict(msgspec.to_builtins(value))


def payload_of(value: dict[str, Any]) -> TrialPayload:
    return convert(value, TrialPayload)


def receipt_of(value: dict[str, Any]) -> TrialReceipt:
    return convert(value, TrialReceipt)
